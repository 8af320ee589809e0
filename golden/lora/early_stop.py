"""Early stop: end a fine-tuning with an epoch whose loss is small enough, or when the loss has stopped falling."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import UserError


@dataclass
class EarlyStop:
    """Rule that ends a fine-tuning, an epoch after the other.

    The epoch to keep is the last one behind which `waited` is 0.

    Parameters
    ----------
    limit : int, optional
        Loss that ends it: an epoch's, or its validation's where there is one. With patience it is 0 by default,
        as in the core's register: no loss falls below that.
    patience : int
        Epochs in a row without a smaller loss than all before that end it; 0: any number is waited for.

    Attributes
    ----------
    best : float
        Smallest loss so far.
    waited : int
        Epochs since then.

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
        """Tell whether fine-tuning ends with an epoch of this loss."""
        fell = loss < self.best
        self.best, self.waited = min(loss, self.best), 0 if fell else self.waited + 1
        return (self.limit is not None and loss <= self.limit) or (self.patience > 0 and self.waited >= self.patience)
