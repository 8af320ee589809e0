"""Phases of a bench and host steps: stimulus and expected results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..golden.block import Words
from ..golden.fixed import Integers


@dataclass(frozen=True)
class Step:
    """One access of the host to a register, or one action on a wire.

    Parameters
    ----------
    kind : str
        "write" (`value`, bytes by `strobe`) and "read" access the register at byte address `at`. On wire `at`: "set" an
        input, "pulse" it for a cycle, "get" an output, "count" its high cycles in the phase, or wait "until" it is
        high, for at most `value` cycles.
    at : int or str
        Byte address of a register, or wire name.
    value : int
        Value to write or set; for "until" the cycle limit.
    strobe : int
        Adjacent bytes of a word to write, or to compare in a read.
    early : bool
        Send the next access, of the same kind, without waiting for the answer.
    """

    kind: Literal["write", "read", "set", "pulse", "get", "count", "until"]
    at: int | str
    value: int = 0
    strobe: int = 0xF
    early: bool = False


ANSWERING = ("write", "read", "get", "count")
"""Kinds of steps that add a word to `HOST`: ``response`` and ``value``, 0 if undefined."""
HOST = "host"
"""Name of the answers among a phase's expected words."""


@dataclass(frozen=True)
class Phase:
    """One section of a bench: it ends when all inputs are accepted and all expected outputs received.

    Parameters
    ----------
    inputs : dict of str to Words
        Words for each input stream or sideband; a sideband has one word per transfer of its stream.
    expected : dict of str to Words
        Expected words of each output stream.
    reset : bool
        Reset the block first.
    cycles : int, optional
        Exact cycles at full speed, where specified; the bench asserts them.
    quiet : bool
        No stream may offer a word afterwards; must be false for sources, which always offer words.
    memory : dict of int to array of int
        Initial memory bytes by address.
    kept : dict of str to int
        Memory address for each name in `expected` that is not a stream: its words are the bytes there after the phase.
    responses : tuple of (int, int, int)
        First and end address of a range, and the memory's response to accesses there, by default OKAY; the first
        matching range counts. An access with SLVERR or DECERR writes nothing.
    script : tuple of Step
        Host steps after the streams.
    midway : tuple of int
        When the bench's reset test interrupts the phase: script step, and range of cycles after the step's start.
    """

    inputs: dict[str, Words] = field(default_factory=dict)
    expected: dict[str, Words] = field(default_factory=dict)
    reset: bool = False
    cycles: int | None = None
    quiet: bool = False
    memory: dict[int, Integers] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    responses: tuple[tuple[int, int, int], ...] = ()
    script: tuple[Step, ...] = ()
    midway: tuple[int, int, int] = (0, 7, 57)
