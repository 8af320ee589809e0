"""What server and clients of a federation agree on before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from ...errors import UserError
from ...fixed import Format, Integers
from ...rng.pezo import PezoSpec
from ..zo import Periodic
from ..zo.optimiser import LEAST
from .scalars import LARGEST_COUNT

LARGEST_SHARE = 1 << 20
LARGEST_CLIENTS = 1 << 11
"""With these the weighted sum of all clients' 32-bit integers stays below 2**62."""
LARGEST_STEPS = (1 << 16) - 1


@dataclass(frozen=True)
class FederatedConfig:
    """A federation of zeroth-order clients (FedSPZO, section 3.2).

    Without a first part, `cut` = 0, and with `first` = 1 it is plain federated zeroth order.

    Parameters
    ----------
    rounds, clients : int
    fraction : float
        Of the clients, that a round samples; at least one is.
    steps, batch : int
        Of a client in a round; samples of a step.
    rate : float
        Learning rate.
    eps : float
        Length of a perturbation; it is rounded to what integers can be moved by.
    first, second : int
        P1 perturbations of the first part a step, and for each of them P2 of the second part.
    seed : int
        Of the clients that are sampled and of their batches. Perturbations need none: they have positions.
    source : Periodic
        What perturbations are read from.
    format : Format
        Of the weights; 32 bits, signed.
    """

    rounds: int = 5
    clients: int = 10
    fraction: float = 0.2
    steps: int = 12
    batch: int = 20
    rate: float = 0.01
    eps: float = 1e-3
    first: int = 2
    second: int = 8
    seed: int = 0
    source: Periodic = field(default_factory=lambda: Periodic(PezoSpec()))
    format: Format = field(default_factory=lambda: Format(4, 28))

    def __post_init__(self) -> None:
        limits = {
            **dict.fromkeys(("rounds", "batch"), 1 << 31),
            "clients": LARGEST_CLIENTS,
            "steps": LARGEST_STEPS,
            **dict.fromkeys(("first", "second"), LARGEST_COUNT),
        }
        for name, most in limits.items():
            if not 1 <= (value := getattr(self, name)) <= most:
                raise UserError(f"{name} = {value} is not in 1 to {most}")
        if not 0 < self.fraction <= 1:
            raise UserError(f"fraction = {self.fraction}: of the clients more than 0 and at most 1 are sampled")
        for name in ("rate", "eps"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UserError(f"{name} = {getattr(self, name)} is not above 0")
        if self.eps < LEAST * self.resolution:
            raise UserError(
                f"eps = {self.eps} is below {LEAST} times {self.resolution:.3g}, what weights in {self.format} are "
                "moved by"
            )
        if self.seed < 0:
            raise UserError(f"seed = {self.seed} is negative")

    @property
    def resolution(self) -> float:
        """The amount that an integer coefficient of 1 stands for."""
        return 2.0 ** (self.source.fraction_bits - self.format.fraction)

    @property
    def sampled_clients(self) -> int:
        """How many clients a round samples."""
        return max(1, round(self.fraction * self.clients))

    def sampled(self, round: int) -> list[int]:
        """The clients of a round, counted from 0, in no particular order."""
        rng = np.random.default_rng([self.seed, 1, round])
        return [int(one) for one in rng.permutation(self.clients)[: self.sampled_clients]]

    def batches(self, round: int, client: int, samples: int) -> Iterator[Integers]:
        """Which of its samples a client takes in each step of a round."""
        rng = np.random.default_rng([self.seed, 2, round, client])
        for _ in range(self.steps):
            yield rng.permutation(samples)[: self.batch]
