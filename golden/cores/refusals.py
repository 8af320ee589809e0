"""Refusals of commands whose registers are wrong, and what `status` and `error_address` of a core say then.

Of several reasons the first counts, in this order: the command, addresses in the order of their
registers, lengths, then the other settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ..axi.bus import BEAT
from ..lora.adapters import MAXIMUM_RATE
from ..zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ..zo.job import EPS_SHIFTS
from ..zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from . import instantft_registers as instantft
from . import zotrain_registers as zotrain
from .instantft import InstantftSpec
from .shell import CoreRegisters
from .zotrain import ZotrainSpec


class Refusal(NamedTuple):
    """Reason of a refusal.

    Parameters
    ----------
    error : IntEnum
        Code in `status`.
    value : int
        Offending value, in `error_address`.
    """

    error: IntEnum
    value: int


Reasons = Iterator[tuple[bool, Refusal]]


def refusal_of(spec: InstantftSpec | ZotrainSpec, command: int, settings: Mapping[str, int]) -> Refusal | None:
    """Say why a core refuses a command with these settings; None where the command begins.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
        The core.
    command : int
    settings : mapping of str to int
        All of the core's settings, by name.
    """
    reasons = (
        _instantft(spec, command, settings) if isinstance(spec, InstantftSpec) else _zotrain(spec, command, settings)
    )
    return next((refusal for applies, refusal in reasons if applies), None)


def _common(
    spec: InstantftSpec | ZotrainSpec, core: CoreRegisters, command: int, settings: Mapping[str, int]
) -> Reasons:
    """Reasons of any core: an unknown command, and the addresses that a command uses."""
    yield command not in set(core.commands), Refusal(core.errors["BAD_COMMAND"], command)
    for address in core.addresses:
        value = settings[address.name]
        wrong = value % BEAT != 0 or value >> spec.address != 0
        yield command in address.commands and wrong, Refusal(core.errors["BAD_ADDRESS"], value)


def _instantft(spec: InstantftSpec, command: int, settings: Mapping[str, int]) -> Reasons:
    code, error = instantft.Command, instantft.Error
    jobs = (code.TUNE, code.INFER)
    yield from _common(spec, instantft.CORE, command, settings)
    if command not in jobs:
        return
    tune = command == code.TUNE
    epochs, entries = settings["epochs"], settings["cache_entries"]
    batch, rate, mode = settings["batch"], settings["rate"], settings["mode"]
    yield epochs == 0 or settings["samples_per_epoch"] == 0, Refusal(error.ZERO_LENGTH, epochs)
    yield tune and entries == 0, Refusal(error.ZERO_LENGTH, entries)
    yield tune and entries > spec.cache_entries, Refusal(error.BAD_CACHE_ENTRIES, entries)
    yield not 1 <= batch <= spec.batch, Refusal(error.BAD_BATCH, batch)
    own_rates = spec.rates and mode & instantft.REGISTERS["mode"].field("rates").mask
    yield tune and not own_rates and not 1 <= rate <= MAXIMUM_RATE, Refusal(error.BAD_RATE, rate)
    yield mode & ~spec.modes != 0, Refusal(error.BAD_MODE, mode)
    yield tune and bool(mode & 1) not in spec.raw_modes, Refusal(error.BAD_MODE, mode)


def _zotrain(spec: ZotrainSpec, command: int, settings: Mapping[str, int]) -> Reasons:
    code, error = zotrain.Command, zotrain.Error
    jobs = (code.TRAIN, code.INFER)
    yield from _common(spec, zotrain.CORE, command, settings)
    if command not in jobs:
        return
    batch = settings["batch"]
    for name in ("steps", "sample_count"):
        yield settings[name] == 0, Refusal(error.ZERO_LENGTH, settings[name])
    yield not 1 <= batch <= LARGEST_BATCH, Refusal(error.BAD_BATCH, batch)
    if command != code.TRAIN:
        return
    position, eps, shift = settings["position"], settings["eps_shift"], settings["shift"]
    yield position >= spec.source.period, Refusal(error.BAD_POSITION, position)
    yield eps not in EPS_SHIFTS, Refusal(error.BAD_EPS, eps)
    yield shift > LARGEST_SHIFT, Refusal(error.BAD_SHIFT, shift)
    cut, first, second = settings["cut"], settings["p1"], settings["p2"]
    cuts = len(spec.mapping.forward.stages) if spec.cut_rows else 1
    yield cut >= cuts, Refusal(error.BAD_CUT, cut)
    kept = spec.kept_samples(cut) if 0 < cut < cuts else LARGEST_BATCH
    yield batch > kept, Refusal(error.BAD_BATCH, batch)
    together = first * second > MOST_SLOPES or (cut == 0 and second != 1)
    yield not 1 <= first <= MOST_PERTURBATIONS, Refusal(error.BAD_SPLIT, first)
    yield not 1 <= second <= MOST_PERTURBATIONS or together, Refusal(error.BAD_SPLIT, second)
    for name, most in (("gap", MOST_GAP), ("scalars", 1)):
        yield settings[name] > most, Refusal(error.BAD_SPLIT, settings[name])
