"""Campaign of mutation testing: faults of a block one by one, seen by the bench, proved equivalent, or survived."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...golden.block import Spec
from ...golden.cache import digest_of, package_version, source_digest
from ...golden.errors import UserError
from ...golden.registry import BLOCKS
from ...hw.verilog import Emitted
from ..bench.plan import bench_plan
from ..phase import Phase
from ..scenario import scenario
from ..simulator import require
from ..verify import verify_design
from .equivalence import equivalence
from .faults import Fault, Netlist, list_faults, mutant, netlist
from .record import Record, Result

FIRST_WORDS = 100
"""Words of the bench that runs first where the whole is longer: it kills most mutants."""
PATIENCE, LEAST_SECONDS = 10, 60.0
"""A mutant's bench may take this many times the time of the block's own, and this time in any case."""
_CORES = "cores"
"""Area of the blocks whose bench takes minutes."""


@dataclass(frozen=True)
class Settings:
    """Settings of a campaign.

    Parameters
    ----------
    faults : int
        How many.
    seed : int
        Seed of the sample of faults, of the stimulus and of the stalls.
    words : int
        About how many words each phase of the bench takes.
    seconds : int
        Time for each proof of equivalence.
    simulator : "icarus" or "verilator"
    """

    faults: int = 40
    seed: int = 0
    words: int = 1000
    seconds: int = 60
    simulator: str = "icarus"


@dataclass(frozen=True)
class _Stage:
    """One run of the bench: its phases, and the time that it may take."""

    phases: list[Phase]
    seconds: float = 3600.0


def refuse_unfit(spec: Spec, simulator: str) -> None:
    """Refuse a block that is too large for a campaign, and a simulator that is not there.

    Raises
    ------
    UserError
        With the blocks that are small enough, or the command that installs the simulator.
    """
    if spec.area() == _CORES:
        small = ", ".join(name for name, kind in BLOCKS.items() if kind.area() != _CORES)
        raise UserError(f"{spec.name} is a whole core, whose bench takes minutes for each fault: choose from {small}")
    require(simulator)


class Campaign:
    """Faults of a block, and the results so far; `run` goes on where an earlier run of the same campaign ended.

    Parameters
    ----------
    spec : Spec
        The block.
    settings : Settings
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
        See `refuse_unfit` and `Record`.
    """

    def __init__(self, spec: Spec, settings: Settings, path: Path, force: bool = False) -> None:
        refuse_unfit(spec, settings.simulator)
        self._spec, self._settings = spec, settings
        sizes = [FIRST_WORDS] if settings.words > 2 * FIRST_WORDS else []
        self._stages = [
            _Stage(scenario(spec, np.random.default_rng(settings.seed), words)) for words in (*sizes, settings.words)
        ]
        self._made = netlist(spec)
        self.record = Record(path, self._header(), force)

    def _header(self) -> dict[str, Any]:
        """List what the results depend on: a file with another is not continued."""
        phases = self._stages[-1].phases
        bench = source_digest(Path(__file__).parent.parent / "bench")
        plan = json.dumps(bench_plan(self._spec, self._made.emitted, phases, self._settings.seed))
        told = (field.tobytes() for one in phases for words in one.expected.values() for field in words.values())
        return {
            "block": self._spec.name,
            "parameters": json.loads(json.dumps(dataclasses.asdict(self._spec))),
            **dataclasses.asdict(self._settings),
            "version of the RTL": digest_of(self._made.text, package_version("pyosys"), __version__),
            "version of the bench": digest_of(bench, plan, *told),
        }

    def run(self, on_result: Callable[[Result], None] = lambda _: None) -> list[Result]:
        """Run what is left of the campaign, as many faults at a time as there are cores.

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
            If the block itself does not pass its bench.
        """
        made = self._made
        original = mutant(made, None)
        faults = list_faults(made, self._settings.faults, self._settings.seed)
        left = [number for number in range(len(faults)) if number not in self.record.results]
        if left:
            self._stages = [self._timed(original, stage) for stage in self._stages]
        self.record.begin()
        for result in self._judged(made, original, {number: faults[number] for number in left}):
            self.record.add(result)
            on_result(result)
        return [self.record.results[number] for number in range(len(faults))]

    def _judged(self, made: Netlist, original: Emitted, faults: dict[int, Fault]) -> Iterator[Result]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            running = [pool.submit(self._judge, made, original, number, fault) for number, fault in faults.items()]
            try:
                for future in as_completed(running):
                    yield future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _timed(self, original: Emitted, stage: _Stage) -> _Stage:
        """Run the bench of the block without a fault: how long a mutant's may take."""
        start = time.monotonic()
        why = self._seen(original, stage)
        if why:
            raise UserError(f"{self._spec.name} without a fault does not pass its bench: {why[1]}")
        return _Stage(stage.phases, max(LEAST_SECONDS, PATIENCE * (time.monotonic() - start)))

    def _seen(self, design: Emitted, stage: _Stage) -> tuple[str, str] | None:
        """Name the check of the bench that sees a fault of a design, and its first words; None if it passes."""
        simulator, seed = self._settings.simulator, self._settings.seed
        verdict = verify_design(self._spec, design, stage.phases, simulator, seed, keep=False, seconds=stage.seconds)
        if verdict.passed:
            return None
        if verdict.mismatches:
            return "mismatch", verdict.differences[0]
        said = verdict.failures[0] if verdict.failures else "nothing was compared"
        return ("time" if "no end after" in said else "objection"), said

    def _judge(self, made: Netlist, original: Emitted, number: int, fault: Fault) -> Result:
        start = time.monotonic()
        design = mutant(made, fault)
        for stage in self._stages:
            if why := self._seen(design, stage):
                return Result(number, fault, "killed", *why, seconds=round(time.monotonic() - start, 1))
        found = equivalence(original, design, self._settings.seconds)
        status = {"equivalent": "equivalent", "different": "survived", "open": "undecided"}[found.status]
        seconds = round(time.monotonic() - start, 1)
        return Result(number, fault, status, found.engine, cycles=found.cycles, seconds=seconds)  # type: ignore[arg-type]
