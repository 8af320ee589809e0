"""Uneven distribution of a tuning set over clients."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ...errors import UserError
from .federated_model import LabelledSamples

Some = TypeVar("Some", bound=LabelledSamples)


def shards(samples: Some, clients: int, alpha: float, seed: int) -> list[Some]:
    """Samples of each client: each class is divided in proportions from a Dirichlet distribution (non-IID clients).

    Every sample belongs to one client. A client without samples gets one from the largest. `alpha` is the
    concentration: at 0.1 most clients have one or two classes, at 100 all have similar shares. Infinity distributes
    samples evenly, whatever their class (IID).

    Raises
    ------
    UserError
        If alpha is not above 0, or clients outnumber the samples.
    """
    if not alpha > 0:
        raise UserError(f"alpha = {alpha} is not above 0")
    if not 1 <= clients <= len(samples):
        raise UserError(f"{len(samples)} samples are not enough for {clients} clients")
    rng = np.random.default_rng([seed, 3])
    if np.isinf(alpha):
        parts = np.array_split(rng.permutation(len(samples)), clients)
        return [samples[np.sort(part)] for part in parts]
    owned: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(samples.labels):
        indices = rng.permutation(np.flatnonzero(samples.labels == label))
        shares = rng.gamma(alpha, size=clients)
        # far below alpha = 0.01 all shares underflow
        shares = shares / shares.sum() if shares.sum() > 0 else np.eye(clients)[rng.integers(clients)]
        ends = np.rint(np.cumsum(shares)[:-1] * len(indices)).astype(int)
        for mine, part in zip(owned, np.split(indices, ends), strict=True):
            mine += part.tolist()
    for mine in owned:
        if not mine:
            mine.append(max(owned, key=len).pop())
    return [samples[np.array(sorted(mine), np.int64)] for mine in owned]
