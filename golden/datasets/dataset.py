"""Samples of a fine-tuning task: for pre-training, tuning and test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers
from ..models.layers import Shape

Inputs = NDArray[np.uint8] | NDArray[np.float32]


@dataclass(frozen=True)
class Samples:
    """Inputs, (n, *shape), and labels, (n,): uint8 pixels with the value byte / 255, or float32 values."""

    inputs: Inputs
    labels: Integers

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, which: slice | Integers) -> Samples:
        return Samples(self.inputs[which], self.labels[which])

    @property
    def shape(self) -> Shape:
        return tuple(self.inputs.shape[1:])

    def values(self) -> NDArray[np.float32]:
        """Inputs of the float network, (n, *shape)."""
        if self.inputs.dtype == np.uint8:
            return self.inputs.astype(np.float32) / np.float32(255)
        return self.inputs.astype(np.float32, copy=False)

    def scaled(self, factor: float, where: str) -> Samples:
        """Samples with float inputs times a factor, in float32; `where` is their origin for messages.

        Raises `UserError` if the factor is not finite and above 0, or scales bytes, which always mean byte / 255.
        """
        if not (isfinite(factor) and factor > 0):
            raise UserError(f"scale = {factor:g}: samples are multiplied by a factor above 0")
        if factor == 1 or not len(self):
            return self
        if self.inputs.dtype == np.uint8:
            raise UserError(f"{where}: a scale has no meaning with bytes, whose value is byte / 255: leave it out")
        with np.errstate(over="ignore"):  # `check` reports infinity
            return replace(self, inputs=self.inputs * np.float32(factor))

    def check(self, where: str, classes: int | None = None) -> Samples:
        """Check the samples and return self.

        `where` is their origin for messages, `classes` the number of classes, if known. Raises `UserError` if the set
        is empty, inputs and labels differ in length, a value is not finite, or a label is out of range.
        """
        if len(self.inputs) != len(self.labels):
            raise UserError(f"{where}: {len(self.inputs)} inputs but {len(self.labels)} labels")
        if not len(self.labels):
            raise UserError(f"{where}: no samples")
        if not np.isfinite(self.inputs).all():
            sample = int(np.argwhere(~np.isfinite(self.inputs))[0][0])
            raise UserError(f"{where}: sample {sample} has NaN or infinity; clean the data first")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or (classes is not None and high >= classes):
            bad = low if low < 0 else high
            raise UserError(
                f"{where}: label {bad} of sample {int(np.argmax(self.labels == bad))} is outside 0 to "
                f"{'the last class' if classes is None else classes - 1}"
            )
        return self


@dataclass(frozen=True)
class Task:
    """Fine-tuning task: a network is pre-trained on some samples and meets drifted ones.

    `tune` and `test` are drifted; `test` overlaps no other set. `scale` is the factor of the samples after reading.
    """

    name: str
    pretrain: Samples
    tune: Samples
    test: Samples
    scale: float = 1.0

    def scaled(self, factor: float) -> Task:
        """Task with all samples times a factor, see `Samples.scaled`."""
        parts = {part: getattr(self, part).scaled(factor, self.name) for part in ("pretrain", "tune", "test")}
        task = replace(self, **parts, scale=self.scale * factor)
        for part, samples in parts.items():
            if len(samples):
                samples.check(f"{self.name}, {part}, scaled by {factor:g}")
        return task
