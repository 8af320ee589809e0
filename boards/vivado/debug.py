"""A logic analyser on the monitor of a core: its size, and the script that reads it."""

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
"""Beginning of the names of a monitor's pins."""
LEAST_DEPTH = 1024
"""Samples of the smallest analyser that Vivado makes."""
LARGEST_DEPTH = 131_072
_BLOCK_BITS, _BLOCK_WORDS = 36, 1024


@dataclass(frozen=True)
class Analyser:
    """Integrated logic analyser on the pins of a monitor.

    Parameters
    ----------
    pins : tuple of TopPin
        Its probes, in order.
    samples : int
        Samples of a capture, a power of two: a self-test has as many in which the core writes what it updates.
    """

    pins: tuple[TopPin, ...]
    samples: int

    @property
    def depth(self) -> int:
        """Samples for which it has room."""
        return max(LEAST_DEPTH, self.samples)

    @property
    def blocks(self) -> int:
        """Number of BRAM36 that this takes."""
        width = sum(pin.width for pin in self.pins)
        return math.ceil(width / _BLOCK_BITS) * math.ceil(self.depth / _BLOCK_WORDS)


def analyser_of(spec: CoreSpec, pins: Sequence[TopPin], test: SelfTest) -> Analyser | None:
    """Size the analyser of a core so that one self-test fills a capture; None for a core without monitor pins."""
    if not spec.monitor:
        return None
    probes = {pin.name: pin for pin in pins if pin.name.startswith(PREFIX)}
    images, shown = [stage.images for stage in test.stages if stage.images], probes[f"{PREFIX}valid"].width
    written = sum(-(-one[0].size // BEAT // shown) * (len(one) - 1) for one in images)
    return Analyser(tuple(probes.values()), min(1 << written.bit_length() - 1, LARGEST_DEPTH))


def refuse_analyser(analyser: Analyser, memories: Sequence[Memory], board: Board) -> None:
    """Refuse an analyser for which a board has no room beside a core.

    Raises
    ------
    UserError
        With both numbers.
    """
    left = board.resources["bram36"] - sum(memory.blocks["bram36"] for memory in memories)
    if analyser.blocks > left:
        raise UserError(
            f"--debug: the logic analyser for {analyser.depth} samples needs {analyser.blocks} BRAM36, the core leaves "
            f"{left:g} of the {board.name}'s {board.resources['bram36']}: take a smaller core, or leave --debug out"
        )


def debug_settings(analyser: Analyser | None) -> dict[str, str]:
    """Settings of ``system.tcl``: the probes with their widths, and the depth; no probes without an analyser."""
    probes = " ".join(f"{pin.name} {pin.width}" for pin in analyser.pins) if analyser else ""
    return {"probes": probes, "probe_depth": str(analyser.depth if analyser else 0)}


def capture_script(analyser: Analyser, top: str, board: Board) -> str:
    """Make the script that arms the analyser and writes what it stored."""
    # a cable shows xczu9eg as xczu9_0
    found = re.match(r"[a-z]+\d+", board.part)
    settings = {"top": top, "device": f"{found[0] if found else ''}*", "samples": str(analyser.samples)}
    return tcl.script("capture", settings)
