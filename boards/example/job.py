"""Job of an example: commands, memory, numbers for the program, and golden's accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...golden.axi.regions import JobMemory
from ...golden.cores.core import CoreSpec
from ..selftest.job import Expectation, SelfTest


@dataclass(frozen=True)
class ExampleData:
    """Network and samples of an example.

    Parameters
    ----------
    name : str
        Origin of the samples.
    digest : str
        SHA-256 of all inputs of the job's bytes besides the core; empty without other inputs.
    tested, classes : int
        Numbers of held-out samples and of classes.
    drawn : bool
        The network was drawn for digits and is not the user's.
    """

    name: str
    digest: str
    tested: int
    classes: int
    drawn: bool


@dataclass
class Example:
    """Job of the example program.

    Parameters
    ----------
    data : ExampleData
    job : SelfTest
        Commands with golden's results, and memory. The region ``labels`` has a byte for each held-out sample,
        ``logits`` the outputs of the last inference, ``tuned`` the tuned parameters.
    before, after : int
        Held-out samples classified correctly before and after tuning.
    stride : int
        Number of 32-bit words from one sample's logits to the next sample's.
    settings : dict of str to int
        Numbers for the program.
    how : str
        Description of the tuning.
    program : Path
        C source of the core's commands, see ``boards/driver/example.h``.
    notes : str
        Markdown on commands, formats and errors for the README; empty where fabtune's pages have it.
    """

    data: ExampleData
    job: SelfTest
    before: int
    after: int
    stride: int
    settings: dict[str, int]
    how: str
    program: Path
    notes: str = ""

    @property
    def spec(self) -> CoreSpec:
        return self.job.spec

    @property
    def memory(self) -> JobMemory:
        """Regions, from offset 0."""
        return self.job.memory

    @property
    def tested(self) -> int:
        return self.data.tested

    @property
    def classes(self) -> int:
        return self.data.classes

    @property
    def logits(self) -> tuple[Expectation, Expectation]:
        """Expected logits before and after tuning."""
        before, after = (one for stage in self.job.stages for one in stage.memory if one.what == "logits")
        return before, after

    @property
    def percentages(self) -> tuple[str, str]:
        """Accuracy in percent before and after, in integer arithmetic like the program's."""
        tenths = [(1000 * found + self.tested // 2) // self.tested for found in (self.before, self.after)]
        before, after = (f"{one // 10}.{one % 10} %" for one in tenths)
        return before, after

    @property
    def line(self) -> str:
        """Line that the program prints if the core's results are equal to golden's."""
        before, after = self.percentages
        return f"accuracy {before} before, {after} after; golden says {before} and {after}"
