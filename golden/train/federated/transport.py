"""Transport of messages in a simulated federation: any order, and fault injection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Uploads = list[tuple[str, bytes]]
"""Sender and bytes of each message of a round."""
Transport = Callable[[int, Uploads], Uploads]
"""Delivers the messages of a round, given its number, to the server."""


def shuffled(seed: int) -> Transport:
    """Make a transport that delivers messages in random order."""

    def deliver(number: int, uploads: Uploads) -> Uploads:
        order = np.random.default_rng([seed, 4, number]).permutation(len(uploads))
        return [uploads[at] for at in order]

    return deliver


def faulty(seed: int) -> Transport:
    """Make a transport with fault injection: random order, one lost message, one damaged message per round.

    The message is lost in the first round. A damaged message has one bit changed; the correct one follows.
    """
    deliver = shuffled(seed)

    def deliver_with_faults(number: int, uploads: Uploads) -> Uploads:
        arrived = deliver(number, uploads)
        if number == 0 and len(arrived) > 1:
            arrived.pop()
        sender, whole = arrived[0]
        at = int(np.random.default_rng([seed, 5, number]).integers(8 * len(whole)))
        damaged = (int.from_bytes(whole, "little") ^ 1 << at).to_bytes(len(whole), "little")
        return [(sender, damaged), *arrived]

    return deliver_with_faults
