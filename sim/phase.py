"""Phases of a bench and the steps of a host: what is done with a block, and what golden expects of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..golden.block import Words
from ..golden.fixed import Integers


@dataclass(frozen=True)
class Step:
    """One access of a host to a core's registers, or one use of one of its wires.

    Parameters
    ----------
    kind : str
        "write" (`value`, bytes by `strobe`) and "read" a register at the byte address `at`. Of the wire `at`: "set" an
        input, "pulse" it for a cycle, "get" an output, "count" the cycles of the phase in which it was high, wait
        "until" it is high, at most `value` cycles.
    at : int or str
        Byte address of a register, or name of a wire.
    value : int
        Value to write or set; for "until" the most cycles.
    strobe : int
        Neighbouring bytes of a word: those that are written, or those of a read's answer that are compared.
    early : bool
        Of an access: whether the next one, of the same kind, is sent without waiting for this one's answer.
    """

    kind: Literal["write", "read", "set", "pulse", "get", "count", "until"]
    at: int | str
    value: int = 0
    strobe: int = 0xF
    early: bool = False


ANSWERING = ("write", "read", "get", "count")
"""Kinds of steps that give a word of `HOST`: ``response`` and ``value``, 0 where there is none."""
HOST = "host"
"""Name of the answers among a phase's expected words."""


@dataclass(frozen=True)
class Phase:
    """One stretch of a bench: all inputs are taken and all expected outputs given before the next begins.

    Parameters
    ----------
    inputs : dict of str to Words
        For each input stream or sideband its words; a sideband's are as many as its stream's transfers.
    expected : dict of str to Words
        For each output stream what must come out.
    reset : bool
        Whether the block is reset first.
    cycles : int, optional
        Cycles at full speed, exactly, where that is a public fact; the bench asserts it.
    quiet : bool
        Whether no stream may offer a word afterwards; a source always does.
    memory : dict of int to array of int
        Bytes that are put behind the buses first, by address.
    kept : dict of str to int
        For each name in `expected` that is no stream: the address at which its words, bytes, lie in memory afterwards.
    responses : tuple of (int, int, int)
        Ranges of addresses, first and end, and the response that the memory gives to accesses there, by default OKAY;
        the first range counts. With SLVERR and DECERR nothing is written.
    script : tuple of Step
        What the host does once the streams have moved.
    midway : tuple of int
        Where the bench's test of a reset interrupts: in which step of the script, and from how many to how many cycles
        after the step's start.
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
