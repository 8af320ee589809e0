"""What a fine-tuning job is given: samples for pre-training, for tuning and for the test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers
from ..models.network import Shape

Inputs = NDArray[np.uint8] | NDArray[np.float32]


@dataclass(frozen=True)
class Samples:
    """Inputs and labels.

    Parameters
    ----------
    inputs : array, (n, *shape)
        uint8 are pixels, whose value is the byte / 255; float32 are values as they are.
    labels : array of int64, (n,)
    """

    inputs: Inputs
    labels: Integers

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, which: slice | Integers) -> Samples:
        return Samples(self.inputs[which], self.labels[which])

    @property
    def shape(self) -> Shape:
        """Of one sample."""
        return tuple(self.inputs.shape[1:])

    def values(self) -> NDArray[np.float32]:
        """Inputs as the float network sees them."""
        if self.inputs.dtype == np.uint8:
            return self.inputs.astype(np.float32) / np.float32(255)
        return self.inputs.astype(np.float32, copy=False)

    def check(self, where: str, classes: int | None = None) -> Samples:
        """Refuse what no job can use; return self.

        Raises
        ------
        UserError
            No samples, unequal lengths, values that are not finite, a label below 0 or not below `classes`.
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
    """A drift: where the network comes from and what it meets.

    Parameters
    ----------
    name : str
    pretrain : Samples
        As the world was.
    tune, test : Samples
        Drifted; `test` is held out from both.
    """

    name: str
    pretrain: Samples
    tune: Samples
    test: Samples
