"""An example's job: what is in memory before, numbers for the program, and how often golden is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...golden.axi.regions import JobMemory
from ...golden.cores.core import CoreSpec


@dataclass
class Example:
    """Job of the example program.

    Parameters
    ----------
    spec : CoreSpec
        The core.
    before, after : int
        Images that are classified correctly before and after the tuning.
    tested, classes, stride : int
        Images, and classes and words of an image's logits.
    settings : dict of str to int
        Values of registers, by name.
    program : Path
        C source of the core's commands, what ``boards/driver/example.h`` declares.
    memory : JobMemory
        Regions, from offset 0 on; ``labels`` has a byte for each image that is tested.
    """

    spec: CoreSpec
    before: int
    after: int
    tested: int
    classes: int
    stride: int
    settings: dict[str, int]
    program: Path
    memory: JobMemory = field(default_factory=JobMemory)

    @property
    def line(self) -> str:
        """Line that the program prints where the core's results are golden's."""
        # whole numbers, as the program computes it
        tenths = [(1000 * found + self.tested // 2) // self.tested for found in (self.before, self.after)]
        before, after = (f"{one // 10}.{one % 10} %" for one in tenths)
        return f"accuracy {before} before, {after} after; golden says {before} and {after}"
