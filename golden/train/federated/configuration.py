"""Configuration of a federation, known to the server and all clients.

Default learning rates are the best of a search, by network and method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from ...errors import UserError, check_range
from ...fixed import Format, Integers
from ...rng.pezo import PezoSpec
from ...zo.scalars import LARGEST_COUNT
from ...zo.split import Split
from ..zo import Periodic
from ..zo.optimiser import MINIMUM_EPS
from ..zo.parameter_order import ArrayOrder

LARGEST_SHARE = 1 << 20
LARGEST_CLIENTS = 1 << 11
"""Limit of clients: with `LARGEST_SHARE` the weighted sum of all clients' 32-bit integers is below 2**62."""
LARGEST_STEPS = (1 << 16) - 1


@dataclass(frozen=True)
class FederatedConfig:
    """A federation of zeroth-order clients (FedSPZO, section 3.2).

    An uncut model (`cut` = 0) with `first` = 1 gives plain federated zeroth order.

    Parameters
    ----------
    fraction : float
        Fraction of the clients in a round; at least one client takes part.
    steps, batch : int
        Steps of a client in a round, and samples of a step.
    eps : float
        Length of a perturbation; rounded to a multiple of the resolution of the weights.
    first, second : int
        P1: perturbations of the first part per step. P2: perturbations of the second part for each of the first.
    seed : int
        Seed of the sampled clients and of their batches. Perturbations have positions instead of a seed.
    source : Periodic
        Source of the perturbations.
    format : Format
        Format of the weights: signed, 32 bits.
    order : ArrayOrder, optional
        A core's order of perturbation, with initial weights in Q4.12. Its cut is the model's, and its width the
        source's lanes. Cores and programs can then take part together. By default parameters are perturbed in their own
        order.

    Raises
    ------
    UserError
        If a setting is out of range, or the source's lanes do not fit the order.
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
    order: ArrayOrder | None = None

    def __post_init__(self) -> None:
        limits = {
            **dict.fromkeys(("rounds", "batch"), 1 << 31),
            "clients": LARGEST_CLIENTS,
            "steps": LARGEST_STEPS,
            **dict.fromkeys(("first", "second"), LARGEST_COUNT),
        }
        for name, most in limits.items():
            check_range(name, getattr(self, name), 1, most)
        if not 0 < self.fraction <= 1:
            raise UserError(f"fraction = {self.fraction}: the sampled fraction of the clients is above 0 and at most 1")
        for name in ("rate", "eps"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UserError(f"{name} = {getattr(self, name)} is not above 0")
        if self.eps < MINIMUM_EPS * self.resolution:
            raise UserError(
                f"eps = {self.eps} is below {MINIMUM_EPS} times {self.resolution:.3g}, the resolution of "
                f"weights in {self.format}"
            )
        if self.order is not None:
            _, lanes = self.split, self.order.mapping.width  # `split` refuses more perturbations than a core takes
            if self.source.lanes != lanes:
                raise UserError(f"a source of {self.source.lanes} lanes: an array of {self.order} takes {lanes}")
        if self.seed < 0:
            raise UserError(f"seed = {self.seed} is negative")

    @property
    def split(self) -> Split:
        """Cut and perturbations of a step on a core of the `order`."""
        return Split(self.order.cut if self.order else 0, self.first, self.second)

    @property
    def resolution(self) -> float:
        """Amount of an integer coefficient of 1."""
        return 2.0 ** (self.source.fraction_bits - self.format.fraction)

    @property
    def sampled_clients(self) -> int:
        return max(1, round(self.fraction * self.clients))

    def sampled(self, round: int) -> list[int]:
        """Clients of a round, counted from 0, in random order."""
        rng = np.random.default_rng([self.seed, 1, round])
        return [int(client) for client in rng.permutation(self.clients)[: self.sampled_clients]]

    def batches(self, round: int, client: int, samples: int) -> Iterator[Integers]:
        """Indices into a client's samples for each step of a round."""
        rng = np.random.default_rng([self.seed, 2, round, client])
        for _ in range(self.steps):
            yield rng.permutation(samples)[: self.batch]


@dataclass(frozen=True)
class FederatedRates:
    """Learning rates of the three methods.

    Parameters
    ----------
    split : float
        FedSPZO with P1 = 2, P2 = 8 and the cut of `cost_model.stage_of`.
    plain : float
        Federated zeroth order with five perturbations per step.
    fedavg : float
        FedAvg with back-propagation.
    """

    split: float
    plain: float
    fedavg: float


TRANSFORMER = "transformer"
"""Key of a transformer's rates; there, plain has one perturbation per step, and FedAvg is LoRA with AdamW."""
_RATES = {
    "digits": FederatedRates(0.02, 0.01, 0.05),
    "fan": FederatedRates(0.016, 0.016, 0.05),
    "lenet5-mnist": FederatedRates(0.006, 0.004, 0.05),
    TRANSFORMER: FederatedRates(1.6e-4, 8e-5, 1e-3),
}
_OTHER = FederatedRates(0.001, 0.001, 0.01)


def federated_rates(network: str) -> FederatedRates:
    """Rates of a preset network, or of any other network."""
    return _RATES.get(network, _OTHER)
