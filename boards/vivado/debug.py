"""A logic analyser on the monitor of a core: size, and capture script."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...golden.axi.bus import BEAT
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ...hw.axi.bus import TopPin
from ..board import Board
from ..memories import Memory
from ..selftest.job import SelfTest
from . import tcl

PREFIX = "monitor_"
"""Prefix of a monitor's pin names."""
LEAST_DEPTH = 1024
"""Samples of Vivado's smallest analyser."""
LARGEST_DEPTH = 131_072
_BLOCK_BITS, _BLOCK_WORDS = 36, 1024


@dataclass(frozen=True)
class Analyser:
    """Integrated logic analyser whose probes are the monitor's pins, in order.

    ``samples`` is the depth of a capture: the largest power of two up to the number of samples that a self-test fills.
    """

    pins: tuple[TopPin, ...]
    samples: int

    @property
    def depth(self) -> int:
        return max(LEAST_DEPTH, self.samples)

    @property
    def blocks(self) -> int:
        width = sum(pin.width for pin in self.pins)
        return math.ceil(width / _BLOCK_BITS) * math.ceil(self.depth / _BLOCK_WORDS)


def analyser_of(spec: CoreSpec, pins: Sequence[TopPin], test: SelfTest) -> Analyser | None:
    """Analyser so deep that one self-test fills a capture; None for a core without monitor pins."""
    if not spec.monitor:
        return None
    probes = {pin.name: pin for pin in pins if pin.name.startswith(PREFIX)}
    images, beats_per_sample = [stage.images for stage in test.stages if stage.images], probes[f"{PREFIX}valid"].width
    written = sum(
        -(-stage_images[0].size // BEAT // beats_per_sample) * (len(stage_images) - 1) for stage_images in images
    )
    return Analyser(tuple(probes.values()), min(1 << written.bit_length() - 1, LARGEST_DEPTH))


def refuse_analyser(analyser: Analyser, memories: Sequence[Memory], board: Board) -> None:
    """Refuse an analyser that needs more block RAM than the core leaves free: a `UserError` with both numbers."""
    unused = board.resources["bram36"] - sum(memory.blocks["bram36"] for memory in memories)
    if analyser.blocks > unused:
        raise UserError(
            f"--debug: the logic analyser for {analyser.depth} samples needs {analyser.blocks} BRAM36, the core leaves "
            f"{unused:g} of the {board.name}'s {board.resources['bram36']}: take a smaller core, or leave --debug out"
        )


def debug_settings(analyser: Analyser | None) -> dict[str, str]:
    """Settings of ``system.tcl``: probes with widths, and the depth; without an analyser no probes."""
    probes = " ".join(f"{pin.name} {pin.width}" for pin in analyser.pins) if analyser else ""
    return {"probes": probes, "probe_depth": str(analyser.depth if analyser else 0)}


def capture_script(analyser: Analyser, top: str, board: Board) -> str:
    """Script that arms the analyser and writes the captured samples."""
    # over JTAG, an xczu9eg has the name xczu9_0
    family = re.match(r"[a-z]+\d+", board.part)
    settings = {"top": top, "device": f"{family[0] if family else ''}*", "samples": str(analyser.samples)}
    return tcl.script("capture", settings)
