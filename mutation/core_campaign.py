"""Campaign of mutation testing of a whole core: its faults are exercised by jobs in the compiled simulator."""

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
from ..sim.trials.exercise import Comparison, Exercise
from .campaign import Campaign, CampaignSettings
from .faults import CellFault, CellNetlist, mutants, netlist
from .record import Result, Status, judged
from .step_equivalence import StepEquivalence

TOGETHER = 400
"""Faults in one design: it is built once for all of them."""
Verdict = tuple[Status, str, str]
"""Status of a fault, by what, and the details."""
Stage = Callable[[int], Verdict | None]
"""Judges the fault of a number; None where it stays open."""


@dataclass(frozen=True)
class CoreSettings(CampaignSettings):
    """Settings of a campaign of a core.

    Parameters
    ----------
    components : tuple of str
        Python files, of whose cells there is a sample each, see `faults.list_faults`; by default one of all cells.
    """

    components: tuple[str, ...] = ()


class CoreCampaign(Campaign[CoreSettings]):
    """Faults of a core that has trials.

    They meet the trials of `trials.exercise`, and among them the proofs of `StepEquivalence`: that of steps behind the
    shortest job, that of registers behind all that takes seconds. What passes all trials is undecided: a search through
    time takes too long for whole cores.

    Parameters
    ----------
    spec : CoreSpec
        The core.
    settings, path, force
        See `Campaign`.

    Raises
    ------
    UserError
        If a tool is missing, or the core has no trials; and see `Campaign`.
    """

    def __init__(self, spec: CoreSpec, settings: CoreSettings, path: Path, force: bool = False) -> None:
        compiler()
        # what a job updates is compared as it is written
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
            left = self.record.left(range(first, first + len(together)))
            if left:
                self._exercise(together, first, left, on_result)

    def _exercise(
        self, together: Sequence[CellFault], first: int, left: list[int], on_result: Callable[[Result], None]
    ) -> None:
        """Build a design with faults and judge those that are left, as many at a time as there are processors.

        All meet one stage before any meets the next: what is found in seconds does not wait for what takes minutes.
        """
        spent = dict.fromkeys(left, 0.0)

        def result(number: int, verdict: Verdict) -> Result:
            return Result(number, together[number - first], *verdict, seconds=round(spent[number], 1))

        def judge(stage: Stage, number: int) -> Result | None:
            start = time.monotonic()
            verdict = stage(number - first + 1)
            spent[number] += time.monotonic() - start
            return result(number, verdict) if verdict else None

        stages = self._stages(mutants(self._made, together))
        while (passed := self.record.left(left)) and (stage := next(stages, None)):
            self.record.keep(judged(partial(judge, stage), passed), on_result)
        self.record.keep((result(number, ("undecided", "", "")) for number in passed), on_result)

    def _stages(self, design: Emitted) -> Iterator[Stage]:
        """Give what faults meet, each made ready only when it is next: what takes minutes is last."""
        program = build(design.verilog, self._spec.name, self._spec.memory_ports, faults=True)
        exercise = Exercise(program, self._spec, self._settings.seed)
        quick = exercise.quick()
        # most faults are seen by the first job; of the rest a proof of milliseconds decides many
        yield _seen(next(quick))
        proof = StepEquivalence(design)
        yield _proved(proof.within_steps)
        yield from map(_seen, quick)
        yield _proved(proof.within_registers)
        yield from map(_seen, exercise.long())


def _seen(comparison: Comparison) -> Stage:
    def stage(mutant: int) -> Verdict | None:
        found = comparison.difference(mutant)
        return ("killed", comparison.kind, found) if found else None

    return stage


def _proved(proof: Callable[[int], str]) -> Stage:
    def stage(mutant: int) -> Verdict | None:
        engine = proof(mutant)
        return ("equivalent", engine, "") if engine else None

    return stage
