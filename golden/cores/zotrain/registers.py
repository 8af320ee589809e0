"""Commands, error codes, settings and counters of `zotrain`."""

from enum import IntEnum

from ..shell import Address, CoreRegisters, Counter, Setting


class Command(IntEnum):
    """Codes that `command` takes."""

    LOAD = 1
    LOAD_DELTAS = 2
    SAVE_DELTAS = 3
    TRAIN = 4
    INFER = 5


class Error(IntEnum):
    """Codes in `status` of a command that ended early."""

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
    BAD_CUT = 15
    BAD_SPLIT = 16


_JOBS = (Command.TRAIN, Command.INFER)

CORE = CoreRegisters(
    "fabtune_zotrain",
    Command,
    Error,
    settings=(
        Address(
            "parameters", "byte address (16-byte aligned) of the frozen parameters' image", commands=(Command.LOAD,)
        ),
        Address(
            "deltas", "byte address of the deltas of all words", commands=(Command.LOAD_DELTAS, Command.SAVE_DELTAS)
        ),
        Address("samples", "byte address of the samples", commands=_JOBS),
        Address(
            "order",
            "byte address of the order list: a rate and entries (23:0 index, 31:24 label) for each step",
            commands=_JOBS,
        ),
        Address("state", "byte address of the generator's state at `position`", commands=(Command.TRAIN,)),
        Address("records", "byte address to which the records of the steps go", commands=(Command.TRAIN,)),
        Address("logits", "byte address to which logits go, in the order of the order list", commands=(Command.INFER,)),
        Setting("sample_count", "samples in memory; indices are below it"),
        Setting("steps", "steps in the order list"),
        Setting("batch", "samples for which a step has room in the order list, 1 to 256"),
        Setting("position", "position of the first perturbation, below the generator's period"),
        Setting("eps_shift", "eps = 2**-eps_shift, 4 to 12"),
        Setting("shift", "bits that loss difference times rate is shifted to the right, 0 to 62"),
        Setting("cut", "first stage of the second part, which has perturbations of its own; 0: the network is not cut"),
        Setting("p1", "perturbations of the first part, or of a network that is not cut, in a step, 1 to 16"),
        Setting("p2", "perturbations of the second part for each of those, 1 to 16; 1 without a cut"),
        Setting("gap", "words of the generator that are skipped behind a perturbation of the second part, 0 to 63"),
        Setting("scalars", "1: the coefficients of a step are rounded to 8 bits with a common shift"),
    ),
    counters=(
        Counter("steps_done", "steps of the last command that are complete"),
        Counter("saturations", "activations, logits and offsets that the last command clipped", width=8),
        Counter("coefficients_clipped", "coefficients that the last command clipped"),
    ),
)
"""Registers, commands and errors of `zotrain`."""
REGISTERS = CORE.map
"""Register map of `zotrain`."""
