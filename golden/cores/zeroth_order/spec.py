"""Spec of a core that trains by zeroth order: what its trainer adds to that of its engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from ...rng.generators import Generator
from ...zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ...zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from ...zo.step_settings import EPS_SHIFTS
from ..core import CoreSpec, Reasons, Refusal, SettingValues
from .registers import Command, Error


@dataclass(frozen=True, kw_only=True)
class ZerothOrderSpec(CoreSpec):
    """Trainer's part of the spec of a core with `step_settings`: it has no parameters of its own."""

    jobs: ClassVar[tuple[IntEnum, ...]]
    """Commands that read samples, `Command.TRAIN` first."""
    eps_shifts: ClassVar[Sequence[int]] = EPS_SHIFTS
    """Shifts of eps that the core takes."""

    @property
    @abstractmethod
    def source(self) -> Generator:
        """Generator of the perturbations."""

    @property
    def largest_batch(self) -> int:
        """Most samples of a step."""
        return LARGEST_BATCH

    def reasons(self, command: int, settings: SettingValues) -> Reasons:
        """List the reasons to refuse a job."""
        if command not in self.jobs:
            return
        batch = settings["batch"]
        for name in ("steps", "sample_count"):
            yield settings[name] == 0, Refusal(Error.ZERO_LENGTH, settings[name])
        yield not 1 <= batch <= LARGEST_BATCH, Refusal(Error.BAD_BATCH, batch)
        if command == Command.TRAIN:
            position, eps, shift = settings["position"], settings["eps_shift"], settings["shift"]
            yield position >= self.source.period, Refusal(Error.BAD_POSITION, position)
            yield eps not in self.eps_shifts, Refusal(Error.BAD_EPS, eps)
            yield shift > LARGEST_SHIFT, Refusal(Error.BAD_SHIFT, shift)
            yield from self.cut_reasons(settings)
            first, second = settings["p1"], settings["p2"]
            together = first * second > MOST_SLOPES or (settings.get("cut") == 0 and second != 1)
            yield not 1 <= first <= MOST_PERTURBATIONS, Refusal(Error.BAD_SPLIT, first)
            yield not 1 <= second <= MOST_PERTURBATIONS or together, Refusal(Error.BAD_SPLIT, second)
            for name, most in (("gap", MOST_GAP), ("scalars", 1)):
                yield settings[name] > most, Refusal(Error.BAD_SPLIT, settings[name])
        yield from self.pass_reasons(settings)

    def cut_reasons(self, settings: SettingValues) -> Reasons:
        """List the engine's reasons to refuse the cut of a training; none by default."""
        yield from ()

    def pass_reasons(self, settings: SettingValues) -> Reasons:
        """List the engine's reasons to refuse the passes of a job; none by default."""
        yield from ()
