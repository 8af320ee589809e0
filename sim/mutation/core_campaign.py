"""Campaign of mutation testing of a whole core: its faults are exercised by jobs in the compiled simulator."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...golden.cache import digest_of, source_digest
from ...golden.cores.core import CoreSpec
from ..compiled.build import build
from ..compiled.comparison import observable
from ..simulator import compiler
from ..trials.contract import trials_of
from ..trials.exercise import Exercise, LongExercise, QuickExercise
from .campaign import Campaign, CampaignSettings
from .faults import CellFault, CellNetlist, mutants, netlist
from .record import Result, Status, judged
from .step_equivalence import StepEquivalence

TOGETHER = 400
"""Faults in one design: it is built once for all of them."""


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

    What passes the trials of `trials.exercise` that take seconds is equivalent where `StepEquivalence` proves it. The
    rest meets all of them, and what passes is undecided: a search through time takes too long for whole cores.

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
        shared = (Path(__file__).parent.parent / name for name in ("compiled", "trials"))
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
        """Build a design with faults and exercise those that are left, as many at a time as there are processors.

        First all with what takes seconds, so that their results do not wait for minutes with each of the few that pass.
        """
        design = mutants(self._made, together)
        program = build(design.verilog, self._spec.name, self._spec.memory_ports, faults=True)
        seconds = dict.fromkeys(left, 0.0)

        def judge(number: int, exercise: Exercise, proof: StepEquivalence | None) -> Result | None:
            """Judge a fault; None where the exercise does not see it, and there is a proof that does not decide it."""
            start = time.monotonic()
            fault, value = together[number - first], number - first + 1
            found = exercise.difference(value)
            engine = proof.equivalent(value) if proof and not found else ""
            seconds[number] = round(seconds[number] + time.monotonic() - start, 1)
            if engine:
                return Result(number, fault, "equivalent", engine, seconds=seconds[number])
            if proof and not found:
                return None
            by, detail = found or ("", "")
            status: Status = "killed" if found else "undecided"
            return Result(number, fault, status, by, detail, seconds=seconds[number])

        # a proof takes a minute at most, and what is equivalent no trial shows
        quick, proof = QuickExercise(program, self._spec, self._settings.seed), StepEquivalence(design)
        self.record.keep(judged(lambda number: judge(number, quick, proof), left), on_result)
        if passed := self.record.left(left):
            long = LongExercise(program, self._spec, self._settings.seed, quick)
            self.record.keep(judged(lambda number: judge(number, long, None), passed), on_result)
