"""How messages may travel: in any order, lost, or not as they were sent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Uploads = list[tuple[str, bytes]]
"""Messages and by whom they came."""
Transport = Callable[[int, Uploads], Uploads]
"""Carries a round's messages to the server."""


def shuffled(seed: int) -> Transport:
    """Messages arrive in any order."""

    def carry(number: int, uploads: Uploads) -> Uploads:
        order = np.random.default_rng([seed, 4, number]).permutation(len(uploads))
        return [uploads[at] for at in order]

    return carry


def faulty(seed: int) -> Transport:
    """Messages arrive in any order, in the first round one never does, and in each round a client sends garbage first.

    What it sends is its message with one bit changed; then the message itself.
    """
    carry = shuffled(seed)

    def carry_badly(number: int, uploads: Uploads) -> Uploads:
        arrived = carry(number, uploads)
        if number == 0 and len(arrived) > 1:
            arrived.pop()
        sender, whole = arrived[0]
        at = int(np.random.default_rng([seed, 5, number]).integers(8 * len(whole)))
        damaged = (int.from_bytes(whole, "little") ^ 1 << at).to_bytes(len(whole), "little")
        return [(sender, damaged), *arrived]

    return carry_badly
