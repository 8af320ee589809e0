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
from ..trials.exercise import Exercise
from .campaign import Campaign, CampaignSettings
from .faults import CellFault, CellNetlist, mutants, netlist
from .record import Result, judged
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
        """Build a design with faults and exercise those that are left, as many at a time as there are processors."""
        design = mutants(self._made, together)
        program = build(design.verilog, self._spec.name, self._spec.memory_ports, faults=True)
        exercise = Exercise(program, self._spec, self._settings.seed)
        proof = StepEquivalence(design)

        def judge(number: int) -> Result:
            start = time.monotonic()
            fault, value = together[number - first], number - first + 1
            # a proof takes a minute at most, and what is equivalent no trial shows
            found = exercise.difference(value, soon=True)
            engine = "" if found else proof.equivalent(value)
            if not (found or engine):
                found = exercise.difference(value, soon=False)
            seconds = round(time.monotonic() - start, 1)
            if engine:
                return Result(number, fault, "equivalent", engine, seconds=seconds)
            by, detail = found or ("", "")
            return Result(number, fault, "killed" if found else "undecided", by, detail, seconds=seconds)

        self.record.keep(judged(judge, left), on_result)
