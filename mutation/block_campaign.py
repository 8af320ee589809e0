"""Mutation campaign of a block: each fault is killed by the bench, proved equivalent, or survives."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..golden.block import Spec
from ..golden.cache import digest_of, source_digest
from ..golden.errors import UserError
from ..hw.verilog import Emitted
from ..sim.bench.plan import bench_plan
from ..sim.scenario import scenario
from ..sim.simulator import require, simulate_mutants
from .activation import never_active
from .campaign import Campaign, CampaignSettings
from .equivalence import Equivalence, equivalence
from .faults import PORT, CellFault, CellNetlist, mutant, mutants, netlist
from .record import Result, judged
from .step_equivalence import StepEquivalence

TOGETHER = 64
"""Faults per design, which is built once."""
LONGER = 8
"""Factor on the words for a second bench run, with faults that the first run missed."""


@dataclass(frozen=True)
class BlockSettings(CampaignSettings):
    """Settings of a block campaign.

    Parameters
    ----------
    words : int
        Approximate words of each bench phase.
    seconds : int
        Time limit of each equivalence proof.
    components : tuple of str
        Python files, each with its own sample of faults in its cells, see `faults.list_faults`; default: all cells
        together.
    """

    words: int = 1000
    seconds: int = 60
    simulator: str = "icarus"
    components: tuple[str, ...] = ()


class BlockCampaign(Campaign[BlockSettings]):
    """Faults of a block: the bench runs with all, then a longer bench and proofs with the undetected ones."""

    def __init__(self, spec: Spec, settings: BlockSettings, path: Path, force: bool = False) -> None:
        require(settings.simulator)
        self._spec, self._components = spec, settings.components
        super().__init__(spec.name, asdict(spec), settings, path, force)

    def _netlist(self) -> CellNetlist:
        return netlist(self._spec)

    def _bench(self) -> str:
        return digest_of(source_digest(Path(__file__).parents[1] / "sim" / "bench"), json.dumps(self._plan(1)))

    def _run(self, faults: Sequence[CellFault], on_result: Callable[[Result], None]) -> None:
        def left() -> dict[int, CellFault]:
            return {number: faults[number] for number in self.record.left(range(len(faults)))}

        for times in (1, LONGER):
            plan = self._plan(times)
            numbers = [*left()]
            for first in range(0, len(numbers), TOGETHER):
                batch = {number: faults[number] for number in numbers[first : first + TOGETHER]}
                self.record.keep(self._killed(batch, plan), on_result)
        self.record.keep(self._proved(left()), on_result)

    def _plan(self, times: int) -> dict[str, Any]:
        """Bench plan with `times` the words of the settings."""
        settings = self._settings
        phases = scenario(self._spec, np.random.default_rng(settings.seed), times * settings.words)
        return bench_plan(self._spec, self._made.emitted, phases, settings.seed, compared=True)

    def _killed(self, faults: dict[int, CellFault], plan: dict[str, Any]) -> Iterator[Result]:
        """Run the bench on a design with many faults; yields the detected ones."""
        start = time.monotonic()
        design = mutants(self._made, list(faults.values()))
        values = range(1, len(faults) + 1)
        seen = simulate_mutants(design, PORT, values, plan, self._settings.simulator)
        if why := seen[0]:
            raise UserError(f"{self._spec.name} without a fault does not pass its bench: {why[1]}")
        seconds = round((time.monotonic() - start) / len(faults), 1)
        for value, (number, fault) in zip(values, faults.items(), strict=True):
            if why := seen[value]:
                kind, detail = why
                by = {"MismatchError": "mismatch", "time": "time"}.get(kind, "objection")
                yield Result(number, fault, "killed", by, detail, seconds=seconds)

    def _proved(self, faults: dict[int, CellFault]) -> Iterator[Result]:
        """Try equivalence proofs of all mutants, on all processor cores."""
        if not faults:
            return iter(())
        original, proof = mutant(self._made, None), StepEquivalence(mutants(self._made, list(faults.values())))
        value = {number: value_of for value_of, number in enumerate(faults, 1)}

        def judge(number: int) -> Result:
            start = time.monotonic()
            fault, engine = faults[number], proof.equivalent(value[number])
            found = Equivalence("equivalent", engine) if engine else self._compared(original, fault)
            status = {"equivalent": "equivalent", "different": "survived", "open": "undecided"}[found.status]
            seconds = round(time.monotonic() - start, 1)
            return Result(number, fault, status, found.engine, cycles=found.cycles, seconds=seconds)  # type: ignore[arg-type]

        return judged(judge, faults)

    def _compared(self, original: Emitted, fault: CellFault) -> Equivalence:
        """Equivalence from reset, with all registers of block and mutant."""
        result = equivalence(original, mutant(self._made, fault), self._settings.seconds)
        if result.status == "open" and never_active(self._made, fault, self._settings.seconds):
            return Equivalence("equivalent", "never active")
        return result
