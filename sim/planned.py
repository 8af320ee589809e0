"""What both benches share: the plan that they follow, and the file that takes what came out."""

from __future__ import annotations

import json
import os
import random
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any


class Planned(ABC):
    """A design under test, led through a plan.

    Parameters
    ----------
    dut : handle
        The top module.
    name : str
        Of the run: its results go under this name, and what is random depends on it.
    stall : float
        Probability that a stream or channel pauses in a cycle, on the side of the bench.
    """

    def __init__(self, dut: Any, name: str, stall: float = 0.0) -> None:
        self.dut, self.name, self.stall = dut, name, stall
        self.plan = json.loads(Path(os.environ["FABTUNE_PLAN"]).read_text())
        self.random = random.Random(f"{self.plan['seed']} {name}")
        self.cycles = 0
        self.phases: list[dict[str, Any]] = []

    async def run(self) -> None:
        """All phases in order; the words that came out go to the results file."""
        for phase in self.plan["phases"]:
            if phase["reset"]:
                await self.reset()
            self.phases.append(await self.phase(phase))
        path = Path(os.environ["FABTUNE_RESULTS"])
        results = json.loads(path.read_text()) if path.exists() else {}
        results[self.name] = {"cycles": self.cycles, "phases": self.phases}
        path.write_text(json.dumps(results))

    @abstractmethod
    async def reset(self) -> None:
        """Hold the reset for some cycles, all inputs at rest."""

    @abstractmethod
    async def phase(self, phase: dict[str, Any]) -> dict[str, Any]:
        """One phase of the plan: what came out of it."""
