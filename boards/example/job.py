"""An example's job: its commands and memory, numbers for the program, and how often golden is right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...golden.axi.regions import JobMemory
from ...golden.cores.core import CoreSpec
from ..selftest.job import Expectation, SelfTest


@dataclass(frozen=True)
class ExampleData:
    """Network and samples of an example, for people and for the program that counts what is right.

    Parameters
    ----------
    name : str
        Origin of the samples.
    digest : str
        SHA-256 of all that the job's bytes depend on besides the core; empty where the core alone decides.
    tested, classes : int
        Held-out samples, and classes of a sample.
    drawn : bool
        The network was drawn for digits; otherwise it is the user's.
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
        Its network and samples.
    job : SelfTest
        Its commands with what golden expects after each, and its memory. Of the regions, ``labels`` has a byte for each
        held-out sample, ``logits`` what the last inference gave, and ``tuned`` what was tuned.
    before, after : int
        Held-out samples that are classified correctly before and after the tuning.
    stride : int
        Words of 32 bits of a sample's logits.
    settings : dict of str to int
        Numbers for the program, by name.
    how : str
        The tuning, for people.
    program : Path
        C source of the core's commands, what ``boards/driver/example.h`` declares.
    """

    data: ExampleData
    job: SelfTest
    before: int
    after: int
    stride: int
    settings: dict[str, int]
    how: str
    program: Path

    @property
    def spec(self) -> CoreSpec:
        """The core."""
        return self.job.spec

    @property
    def memory(self) -> JobMemory:
        """Regions, from offset 0 on."""
        return self.job.memory

    @property
    def tested(self) -> int:
        """Held-out samples."""
        return self.data.tested

    @property
    def classes(self) -> int:
        """Classes of a sample."""
        return self.data.classes

    @property
    def logits(self) -> tuple[Expectation, Expectation]:
        """Logits that golden expects before and after the tuning."""
        before, after = (one for stage in self.job.stages for one in stage.memory if one.what == "logits")
        return before, after

    @property
    def percentages(self) -> tuple[str, str]:
        """Accuracy before and after, in percent, in whole numbers as the program computes it."""
        tenths = [(1000 * found + self.tested // 2) // self.tested for found in (self.before, self.after)]
        before, after = (f"{one // 10}.{one % 10} %" for one in tenths)
        return before, after

    @property
    def line(self) -> str:
        """Line that the program prints where the core's results are golden's."""
        before, after = self.percentages
        return f"accuracy {before} before, {after} after; golden says {before} and {after}"
