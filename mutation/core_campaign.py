"""Mutation campaign of a core, exercised by jobs in the compiled simulator."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ..golden.cache import digest_of, source_digest
from ..golden.cores.core import CoreSpec
from ..hw.verilog import Emitted
from ..sim.compiled.build import build
from ..sim.compiled.comparison import observable
from ..sim.simulator import compiler
from ..sim.trials.contract import trials_of
from ..sim.trials.exercise import Exercise, FaultComparison
from .campaign import Campaign, CampaignSettings
from .faults import CellFault, CellNetlist, mutants, netlist
from .record import Result, Status, judged
from .step_equivalence import StepEquivalence

TOGETHER = 400
"""Faults per design, which is built once."""
Verdict = tuple[Status, str, str]
"""Status of a fault, its judge, and details."""
Stage = Callable[[int], Verdict | None]
"""Judges a fault by number; None leaves it open."""


@dataclass(frozen=True)
class CoreSettings(CampaignSettings):
    """Settings of a core campaign; `components` as in `BlockSettings`."""

    components: tuple[str, ...] = ()


class CoreCampaign(Campaign[CoreSettings]):
    """Faults of a core with stress tests.

    Faults face the tests of `trials.exercise` and the proofs of `StepEquivalence`: the proof of steps after the
    shortest job, the proof of registers after all fast tests. Faults without a verdict are undecided: a bounded search
    takes too long for whole cores. Raises `UserError` if a tool or the stress tests are missing.
    """

    def __init__(self, spec: CoreSpec, settings: CoreSettings, path: Path, force: bool = False) -> None:
        compiler()
        # parameter updates are compared at their write
        self._spec, self._components = observable(spec), settings.components
        self._room = Path(inspect.getfile(type(trials_of(spec)))).parent
        super().__init__(spec.name, asdict(self._spec), settings, path, force)

    def _netlist(self) -> CellNetlist:
        return netlist(self._spec)

    def _bench(self) -> str:
        shared = (Path(__file__).parents[1] / "sim" / name for name in ("compiled", "trials"))
        return digest_of(*map(source_digest, (*shared, self._room)))

    def _run(self, faults: Sequence[CellFault], on_result: Callable[[Result], None]) -> None:
        for first in range(0, len(faults), TOGETHER):
            together = faults[first : first + TOGETHER]
            open_faults = self.record.left(range(first, first + len(together)))
            if open_faults:
                self._exercise(together, first, open_faults, on_result)

    def _exercise(
        self, together: Sequence[CellFault], first: int, open_faults: list[int], on_result: Callable[[Result], None]
    ) -> None:
        """Build a design with faults and judge the open ones, on all processor cores.

        All faults pass a stage before any enters the next: results of seconds do not wait for minutes.
        """
        spent = dict.fromkeys(open_faults, 0.0)

        def result(number: int, verdict: Verdict) -> Result:
            return Result(number, together[number - first], *verdict, seconds=round(spent[number], 1))

        def judge(stage: Stage, number: int) -> Result | None:
            start = time.monotonic()
            verdict = stage(number - first + 1)
            spent[number] += time.monotonic() - start
            return result(number, verdict) if verdict else None

        stages = self._stages(mutants(self._made, together))
        while (passed := self.record.left(open_faults)) and (stage := next(stages, None)):
            self.record.keep(judged(partial(judge, stage), passed), on_result)
        self.record.keep((result(number, ("undecided", "", "")) for number in passed), on_result)

    def _stages(self, design: Emitted) -> Iterator[Stage]:
        """Stages in order of cost, each prepared only when reached."""
        program = build(design.verilog, self._spec.name, self._spec.memory_ports, faults=True)
        exercise = Exercise(program, self._spec, self._settings.seed)
        quick = exercise.quick()
        # the first job detects most faults; a proof of milliseconds then decides many others
        yield _seen(next(quick))
        proof = StepEquivalence(design)
        yield _proved(proof.within_steps)
        yield from map(_seen, quick)
        yield _proved(proof.within_registers)
        yield from map(_seen, exercise.long())


def _seen(comparison: FaultComparison) -> Stage:
    def stage(mutant: int) -> Verdict | None:
        difference = comparison.difference(mutant)
        return ("killed", comparison.kind, difference) if difference else None

    return stage


def _proved(proof: Callable[[int], str]) -> Stage:
    def stage(mutant: int) -> Verdict | None:
        engine = proof(mutant)
        return ("equivalent", engine, "") if engine else None

    return stage
