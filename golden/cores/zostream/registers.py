"""Commands, error codes, settings and counters of `zostream`."""

from enum import IntEnum

from ...stream.machine.limits import Reason
from ..shell import Address, CoreRegisters, Counter, Setting

PROGRAM = 64
"""Error code of a program that is refused, less its `Reason`."""


class Command(IntEnum):
    """Codes that `command` takes."""

    LOAD = 1
    LOAD_DELTAS = 2
    SAVE_DELTAS = 3
    TRAIN = 4
    INFER = 5
    CACHE = 6


class Error(IntEnum):
    """Codes in `status` of a command that ended early.

    Behind these are ``PROGRAM_`` and the name of each `Reason` for which a program is refused, whose offending value is
    the number of the operation. A command that finds no program has ``PROGRAM_NO_PROGRAM``. Of ``BAD_TOKENS`` the value
    is a sentence's number of tokens, of ``BAD_WEIGHTS`` the number of the tile at which the stream is wrong.
    """

    _ignore_ = "reason"

    BAD_COMMAND = 1
    ZERO_LENGTH = 2
    BAD_ADDRESS = 3
    BAD_BATCH = 4
    BAD_STEP = 5
    BAD_INDEX = 6
    BAD_LABEL = 7
    READ_SLVERR = 8
    READ_DECERR = 9
    WRITE_SLVERR = 10
    WRITE_DECERR = 11
    BAD_POSITION = 12
    BAD_EPS = 13
    BAD_SHIFT = 14
    BAD_SPLIT = 15
    BAD_TOKENS = 16
    BAD_WEIGHTS = 17
    for reason in Reason:
        if reason:
            vars()[f"PROGRAM_{reason.name}"] = PROGRAM + reason


_JOBS = (Command.TRAIN, Command.INFER, Command.CACHE)

CORE = CoreRegisters(
    "fabtune_zostream",
    Command,
    Error,
    settings=(
        Address("program", "byte address (16-byte aligned) of the program's image", commands=(Command.LOAD,)),
        Address("weights", "byte address of the stream of weights and its tables, behind the header", commands=_JOBS),
        Address("deltas", "byte address of the deltas", commands=(Command.LOAD_DELTAS, Command.SAVE_DELTAS)),
        Address("index", "byte address of the index: for each sample 4 bytes, its first beat", commands=_JOBS),
        Address("samples", "byte address of the samples, from which their beats are counted", commands=_JOBS),
        Address(
            "order",
            "byte address of the order list: a rate and entries (23:0 index, 31:24 label) for each step",
            commands=_JOBS,
        ),
        Address("state", "byte address of the generator's state at `position`", commands=(Command.TRAIN,)),
        Address("records", "byte address to which the records of the steps go", commands=(Command.TRAIN,)),
        Address("logits", "byte address to which logits go, in the order of the order list", commands=(Command.INFER,)),
        Address("cache", "byte address from which the beats of what passes a cut are counted", commands=_JOBS),
        Setting("program_beats", "beats of the program's image, 1 to 65,535"),
        Setting("sample_count", "samples in memory; indices are below it"),
        Setting("steps", "steps in the order list"),
        Setting("batch", "samples for which a step has room in the order list, 1 to 256"),
        Setting("position", "position of the first perturbation, below the generator's period"),
        Setting("eps_shift", "eps = 2**-eps_shift, 8 to 12"),
        Setting("shift", "bits that loss difference times rate is shifted to the right, 0 to 62"),
        Setting("p1", "perturbations of the first part, or of a network that is not cut, in a step, 1 to 16"),
        Setting("p2", "perturbations of the second part for each of those, 1 to 16; 1 without a cut"),
        Setting("gap", "words of the generator that are skipped behind a perturbation of the last part, 0 to 63"),
        Setting("scalars", "1: the coefficients of a step are rounded to 8 bits with a common shift"),
        Setting("cached", "1: a pass begins behind the cut, with what is in the cache"),
    ),
    counters=(
        Counter("steps_done", "steps of the last command that are complete"),
        Counter("saturations", "activations and logits that the last command clipped", width=32),
        Counter("offsets_clipped", "offsets that the last command clipped", width=16),
        Counter("coefficients_clipped", "coefficients that the last command clipped"),
    ),
)
"""Registers, commands and errors of `zostream`."""
REGISTERS = CORE.map
"""Register map of `zostream`."""
