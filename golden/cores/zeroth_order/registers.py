"""Commands, error codes, settings and counters of a core that trains by zeroth order."""

from collections.abc import Sequence
from enum import IntEnum

from ..shell import Address, Counter, Setting


class Command(IntEnum):
    """Codes of the register `command`."""

    LOAD = 1
    LOAD_DELTAS = 2
    SAVE_DELTAS = 3
    TRAIN = 4
    INFER = 5


class Error(IntEnum):
    """Error codes in `status`.

    ``BAD_CUT`` belongs to engines with the cut as a setting.
    """

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


def step_addresses(jobs: tuple[IntEnum, ...]) -> tuple[Address, ...]:
    """Addresses of a step's schedule, generator state, records and logits.

    Parameters
    ----------
    jobs : tuple of IntEnum
        Commands that read samples.
    """
    return (
        Address(
            "order",
            "byte address of the order list: a rate and entries (23:0 index, 31:24 label) for each step",
            commands=jobs,
        ),
        Address("state", "byte address of the generator's state at `position`", commands=(Command.TRAIN,)),
        Address("records", "byte address to which the records of the steps go", commands=(Command.TRAIN,)),
        Address("logits", "byte address to which logits go, in the order of the order list", commands=(Command.INFER,)),
    )


def step_settings(eps_shifts: Sequence[int], *cut: Setting) -> tuple[Setting, ...]:
    """Settings of steps.

    Parameters
    ----------
    eps_shifts : sequence of int
        Allowed shifts.
    cut : Setting
        Setting of the cut, for engines with one.
    """
    least, most = eps_shifts[0], eps_shifts[-1]
    return (
        Setting("sample_count", "samples in memory; indices are below it"),
        Setting("steps", "steps in the order list"),
        Setting("batch", "samples for which a step has room in the order list, 1 to 256"),
        Setting("position", "position of the first perturbation, below the generator's period"),
        Setting("eps_shift", f"eps = 2**-eps_shift, {least} to {most}"),
        Setting("shift", "bits that loss difference times rate is shifted to the right, 0 to 62"),
        *cut,
        Setting("p1", "perturbations of the first part, or of a network that is not cut, in a step, 1 to 16"),
        Setting("p2", "perturbations of the second part for each of those, 1 to 16; 1 without a cut"),
        Setting("gap", "words of the generator that are skipped behind a perturbation of the last part, 0 to 63"),
        Setting("scalars", "1: the coefficients of a step are rounded to 8 bits with a common shift"),
    )


def step_counters(*clipped: Counter) -> tuple[Counter, ...]:
    """Counters of a command, around the engine's counters of clipped values."""
    return (
        Counter("steps_done", "steps of the last command that are complete"),
        *clipped,
        Counter("coefficients_clipped", "coefficients that the last command clipped"),
    )
