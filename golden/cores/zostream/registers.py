"""Commands, error codes, settings and counters of `zostream`."""

from enum import IntEnum

from ...stream.machine.limits import Reason
from ...zo.step_settings import EPS_SHIFTS
from ..shell import Address, CoreRegisters, Counter, Setting
from ..zeroth_order import registers as zeroth_order
from ..zeroth_order.registers import step_addresses, step_counters, step_settings

PROGRAM = 64
"""Error code of a refused program, without its `Reason`."""
STREAM_EPS_SHIFTS = EPS_SHIFTS[4:]
"""Shifts of eps at which a transformer's projected gradient is accurate: at 2**-6 it is 88 % off, at 2**-8 7 %."""


class Command(IntEnum):
    """Codes of the register `command`: those of zeroth order, and ``CACHE``."""

    LOAD = zeroth_order.Command.LOAD
    LOAD_DELTAS = zeroth_order.Command.LOAD_DELTAS
    SAVE_DELTAS = zeroth_order.Command.SAVE_DELTAS
    TRAIN = zeroth_order.Command.TRAIN
    INFER = zeroth_order.Command.INFER
    CACHE = 6


class Error(IntEnum):
    """Error codes in `status`: those of zeroth order, and the engine's.

    A refused program gives ``PROGRAM_`` and the name of its `Reason`; the value is the number of the operation. A
    command without a loaded program gives ``PROGRAM_NO_PROGRAM``. The value of ``BAD_TOKENS`` is a sentence's number of
    tokens; the value of ``BAD_WEIGHTS`` is the number of the first wrong tile of the stream.
    """

    _ignore_ = "error reason"

    for error in zeroth_order.Error:
        vars()[error.name] = error
    BAD_TOKENS = 17
    BAD_WEIGHTS = 18
    for reason in Reason:
        if reason:
            vars()[f"PROGRAM_{reason.name}"] = PROGRAM + reason


JOBS = (Command.TRAIN, Command.INFER, Command.CACHE)
"""Commands that read samples."""

CORE = CoreRegisters(
    "fabtune_zostream",
    Command,
    Error,
    settings=(
        Address("program", "byte address (16-byte aligned) of the program's image", commands=(Command.LOAD,)),
        Address("weights", "byte address of the stream of weights and its tables, behind the header", commands=JOBS),
        Address("deltas", "byte address of the deltas", commands=(Command.LOAD_DELTAS, Command.SAVE_DELTAS)),
        Address("index", "byte address of the index: for each sample 4 bytes, its first beat", commands=JOBS),
        Address("samples", "byte address of the samples, from which their beats are counted", commands=JOBS),
        *step_addresses(JOBS),
        Address("cache", "byte address from which the beats of what passes a cut are counted", commands=JOBS),
        Setting("program_beats", "beats of the program's image, 1 to 65,535"),
        *step_settings(STREAM_EPS_SHIFTS),
        Setting("cached", "1: a pass begins behind the cut, with what is in the cache"),
    ),
    counters=step_counters(
        Counter("saturations", "activations and logits that the last command clipped", width=32),
        Counter("offsets_clipped", "offsets that the last command clipped", width=16),
    ),
)
"""Registers, commands and errors of `zostream`."""
REGISTERS = CORE.map
"""Register map of `zostream`."""
