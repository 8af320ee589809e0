"""Campaign of mutation testing of a whole core: its faults are exercised by jobs in the compiled simulator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...golden.cache import digest_of, source_digest
from ...golden.cores.instantft.instantft import InstantftSpec
from ...golden.cores.zotrain.zotrain import ZotrainSpec
from ..compiled.build import build
from ..compiled.comparison import observable
from ..simulator import compiler
from ..trials.exercise import Exercise
from .faults import Fault, list_faults, mutants, netlist
from .record import Record, Result, header_of, judged, refuse_other_file
from .step_equivalence import StepEquivalence

TOGETHER = 400
"""Faults in one design: it is built once for all of them."""


@dataclass(frozen=True)
class CoreSettings:
    """Settings of a campaign of a core.

    Parameters
    ----------
    faults : int
        How many.
    seed : int
        Seed of the sample of faults, of jobs and of buses.
    component : str
        Python file to whose cells the sample is confined, see `faults.list_faults`; by default all.
    """

    faults: int = 40
    seed: int = 0
    component: str = ""


class CoreCampaign:
    """Faults of a core, and the results so far; `run` goes on where an earlier run of the same campaign ended.

    What passes all that `trials.exercise` does is equivalent where `StepEquivalence` proves it, else undecided:
    a search through time takes too long for whole cores.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
        The core.
    settings : CoreSettings
        The campaign's settings.
    path : Path
        File of the results; see `Record`.
    force : bool
        Start again, whatever the file holds.

    Attributes
    ----------
    record : Record
        The results.

    Raises
    ------
    UserError
        If a tool is missing; and see `Record`.
    """

    def __init__(
        self, spec: InstantftSpec | ZotrainSpec, settings: CoreSettings, path: Path, force: bool = False
    ) -> None:
        compiler()
        refuse_other_file(path, force)
        # what a job updates is compared as it is written
        self._spec = spec = observable(spec)
        self._settings, self._made = settings, netlist(spec)
        folders = (Path(__file__).parent.parent / name for name in ("compiled", "trials"))
        bench = digest_of(*map(source_digest, folders))
        self.record = Record(path, header_of(spec, settings, self._made, bench), force)

    def run(self, on_result: Callable[[Result], None] = lambda _: None) -> list[Result]:
        """Run what is left of the campaign.

        Parameters
        ----------
        on_result : callable
            Called with each new result.

        Returns
        -------
        list of Result
            All results, in the order of the faults.

        Raises
        ------
        UserError
            If the core itself is not right.
        """
        settings = self._settings
        faults = list_faults(self._made, settings.faults, settings.seed, settings.component)
        for first in range(0, len(faults), TOGETHER):
            together = faults[first : first + TOGETHER]
            left = self.record.left(range(first, first + len(together)))
            if left:
                self._exercise(together, first, left, on_result)
        return [self.record.results[number] for number in range(len(faults))]

    def _exercise(
        self, together: list[Fault], first: int, left: list[int], on_result: Callable[[Result], None]
    ) -> None:
        """Build a design with faults and exercise those that are left, as many at a time as there are processors."""
        design = mutants(self._made, together)
        program = build(design.verilog, self._spec.name, self._spec.memory_ports, faults=True)
        exercise = Exercise(program, self._spec, self._settings.seed)
        proof = StepEquivalence(design)

        def judge(number: int) -> Result:
            start = time.monotonic()
            fault, value = together[number - first], number - first + 1
            found = exercise.difference(value)
            engine = "" if found else proof.equivalent(value)
            seconds = round(time.monotonic() - start, 1)
            if engine:
                return Result(number, fault, "equivalent", engine, seconds=seconds)
            by, detail = found or ("", "")
            return Result(number, fault, "killed" if found else "undecided", by, detail, seconds=seconds)

        self.record.keep(judged(judge, left), on_result)
