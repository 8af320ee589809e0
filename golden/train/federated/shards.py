"""A tuning set spread unevenly over clients."""

from __future__ import annotations

import numpy as np

from ...datasets.dataset import Samples
from ...errors import UserError


def shards(samples: Samples, clients: int, alpha: float, seed: int) -> list[Samples]:
    """Each class over the clients in proportions of a Dirichlet distribution, as is usual for non-iid clients.

    Parameters
    ----------
    samples : Samples
    clients : int
    alpha : float
        Above 0. At 0.1 most clients see one or two classes, at 100 all are alike.
    seed : int

    Returns
    -------
    list of Samples
        Every sample is in one of them, and none is empty: who would have none takes one of the largest.

    Raises
    ------
    UserError
        If alpha is not above 0, or there are fewer samples than clients.
    """
    if not (np.isfinite(alpha) and alpha > 0):
        raise UserError(f"alpha = {alpha} is not above 0")
    if not 1 <= clients <= len(samples):
        raise UserError(f"{len(samples)} samples are not enough for {clients} clients")
    rng = np.random.default_rng([seed, 3])
    owned: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(samples.labels):
        indices = rng.permutation(np.flatnonzero(samples.labels == label))
        shares = rng.gamma(alpha, size=clients)
        # far below alpha = 0.01 all of them underflow
        shares = shares / shares.sum() if shares.sum() > 0 else np.eye(clients)[rng.integers(clients)]
        ends = np.rint(np.cumsum(shares)[:-1] * len(indices)).astype(int)
        for mine, part in zip(owned, np.split(indices, ends), strict=True):
            mine += part.tolist()
    for mine in owned:
        if not mine:
            mine.append(max(owned, key=len).pop())
    return [samples[np.array(sorted(mine), np.int64)] for mine in owned]
