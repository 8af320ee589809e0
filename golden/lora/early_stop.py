"""Early stop: fine-tuning ends at a small loss, or when the loss has stopped falling.

The loss of an epoch is the integer sum of its samples' cross entropies. A probability p in Q4.12 is m / 2**octave with
m in 1 to 2: -ln p = octave ln 2 - ln m. The first table has 13 entries. The second has 2,048, addressed by the 11 bits
after the leading 1 of p. Their difference has an error of at most one last place. A probability of 0 counts as 2**-12.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import UserError
from ..fixed import Q4_12, Format, Integers


@dataclass
class EarlyStop:
    """Rule that ends fine-tuning, evaluated after each epoch. The best epoch is the last with `waited` = 0.

    Parameters
    ----------
    limit : int, optional
        Fine-tuning ends at this loss or less, of the validation if there is one, else of the epoch. The default is no
        limit, but 0 with `patience`, as in the core's register.
    patience : int
        Epochs in a row without a new smallest loss that end fine-tuning; 0 for no limit.

    Attributes
    ----------
    best : float
        Smallest loss so far.
    waited : int
        Epochs since the smallest loss.

    Raises
    ------
    UserError
        If the patience is negative or has more than 32 bits.
    """

    limit: int | None = None
    patience: int = 0
    best: float = field(default=float("inf"), init=False)
    waited: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.patience < 1 << 32:
            raise UserError(f"patience = {self.patience}: epochs are 0 to 2**32 - 1")
        if self.patience and self.limit is None:
            self.limit = 0

    def ends(self, loss: float) -> bool:
        """Whether fine-tuning ends with an epoch of this loss."""
        fell = loss < self.best
        self.best, self.waited = min(loss, self.best), 0 if fell else self.waited + 1
        return (self.limit is not None and loss <= self.limit) or (self.patience > 0 and self.waited >= self.patience)


LOSS = Format(4, 12, signed=False)
"""Format of a sample's loss."""
LARGEST_SUM = (1 << 32) - 1
"""Largest loss of an epoch, in the last places of `LOSS`; a larger sum saturates."""
INDEX_BITS = Q4_12.fraction - 1
OCTAVES: tuple[int, ...] = tuple(
    np.rint(np.arange(Q4_12.fraction + 1) * np.log(2) * 2**LOSS.fraction).astype(int).tolist()
)
"""Multiples of ln 2 by the number of zeros before the leading 1 of a probability, counted from 1."""
LOGARITHMS: tuple[int, ...] = tuple(
    np.rint(np.log1p(np.arange(1 << INDEX_BITS) / 2**INDEX_BITS) * 2**LOSS.fraction).astype(int).tolist()
)
"""Logarithms of 1 to 2 in `LOSS`, by the bits after the leading 1."""


def sample_losses(gradient: Integers, labels: Integers) -> Integers:
    """Loss of each sample, (n,) in `LOSS`, from gradients with respect to logits, (n, classes) in Q4.12."""
    own = gradient[np.arange(len(labels)), labels] + (1 << Q4_12.fraction)
    probability = np.maximum(own, 1)
    octave = Q4_12.fraction + 1 - np.frexp(probability)[1]
    index = ((probability << octave) - (1 << Q4_12.fraction)) >> 1
    losses: Integers = np.array(OCTAVES)[octave] - np.array(LOGARITHMS)[index]
    return losses


def correct_samples(gradient: Integers, labels: Integers) -> int:
    """Number of samples whose label has the largest probability, from gradients as in `sample_losses`.

    Probabilities are compared in Q4.12. A tie for the largest counts as wrong.
    """
    samples = np.arange(len(labels))
    own = gradient[samples, labels] + (1 << Q4_12.fraction)
    others = gradient.copy()
    others[samples, labels] = 0
    return int(np.count_nonzero(own > others.max(axis=1)))
