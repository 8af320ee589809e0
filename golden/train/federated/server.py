"""Server of a federation: checks messages, rebuilds clients' models and averages them, in short integer tables.

The sum of a client's steps is a table of the base's size (`Periodic.accumulate`), and every weight uses exactly one
number of the table. The average of the tables, rounded number by number, therefore equals the average of the models,
rounded weight by weight. With shares n[c] and sums T[c], signed int32,

    A = round half to even (sum of n[c] T[c] / sum of n[c])

in exact integers, independent of the order. The server adds A to the weights, modulo 2**32, in one pass. Sums of A over
rounds have the same size: a client downloads the sum since the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ...errors import UserError
from ...fixed import divided
from .client import ClientTask
from .federated_model import FederatedModel, Totals
from .message import Message


@dataclass
class Round:
    """State of a round: tasks and accepted messages by client, and refused messages with sender and reason."""

    tasks: dict[int, ClientTask]
    messages: dict[int, Message] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[int]:
        return sorted(set(self.tasks) - set(self.messages))


class Server:
    """Server with the global model, pre-trained and tuned in place; `shares` are the clients' weights in the average.

    Raises
    ------
    UserError
        If all rounds together take more positions than 64 bits count.
    """

    def __init__(self, model: FederatedModel, shares: Sequence[int]) -> None:
        self.model, config = model, model.config
        if config.rounds * config.sampled_clients * config.steps * self.model.layout.span >= 1 << 64:
            raise UserError(f"{config.rounds} rounds take more positions than 64 bits count")
        self.total = self.model.total(([], []))
        """Sum of all moves since the start."""
        self.number = 0
        """Number of the current round."""
        self._shares = list(shares)
        self.round = self._next()

    def receive(self, data: bytes, sender: str) -> Message:
        """Receive a message of the current round; messages may arrive in any order.

        `sender` is for the record; the client named in the message may be wrong.

        Raises
        ------
        UserError
            If the message is malformed or does not fit the round. The refusal is recorded with the sender. Accepted
            messages stay, and the client may send again.
        """
        try:
            message = Message.from_bytes(data)
            self._check(message)
        except UserError as reason:
            self.round.refused.append(f"{sender}: {reason}")
            raise UserError(f"a message from {sender} is refused: {reason}") from None
        self.round.messages[message.client] = message
        return message

    def _check(self, message: Message) -> None:
        config = self.model.config
        if message.round != self.number:
            raise UserError(f"it is of round {message.round}; this is round {self.number}")
        task = self.round.tasks.get(message.client)
        if task is None:
            raise UserError(f"client {message.client} has no task in round {self.number}")
        if message.client in self.round.messages:
            raise UserError(f"client {message.client} has sent its message already")
        checks = {
            "position": (message.position, task.position),
            "share": (message.share, self._shares[message.client]),
            "P1": (message.first, config.first),
            "P2": (message.second, config.second),
            "number of steps": (len(message.steps), config.steps),
        }
        for name, (actual, expected) in checks.items():
            if actual != expected:
                raise UserError(f"client {message.client}'s {name} is {actual}, not {expected}")

    def sum_of(self, message: Message) -> Totals:
        return self.model.total(self.model.layout.moves(message.position, message.steps))

    def rebuilt(self, client: int) -> Tensor:
        """A client's weights after its steps of this round, bit for bit, (count,) of int32."""
        return self.model.after(self.sum_of(self.round.messages[client]))

    def close(self) -> Round:
        """Average the accepted messages, update the weights, start the next round, and return the closed round."""
        done = self.round
        if done.messages:
            shares = [message.share for message in done.messages.values()]
            sums = [self.sum_of(message) for message in done.messages.values()]
            mean = (average([pair[0] for pair in sums], shares), average([pair[1] for pair in sums], shares))
            self.model.apply(mean)
            self.total = (self.total[0] + mean[0], self.total[1] + mean[1])
        self.number += 1
        self.round = self._next()
        return done

    def _next(self) -> Round:
        config = self.model.config
        each = config.steps * self.model.layout.span
        start = self.number * config.sampled_clients * each
        sampled = config.sampled(self.number)
        return Round(
            {client: ClientTask(self.number, client, start + slot * each) for slot, client in enumerate(sampled)}
        )


def average(sums: Sequence[Tensor], shares: Sequence[int]) -> Tensor:
    """Weighted average of int32 tensors of equal shape in exact integers, rounded half to even.

    The sum of `shares`, the weights, must be below 2**31.
    """
    whole = sum(shares)
    scaled = [share * tensor.numpy().astype(np.int64) for tensor, share in zip(sums, shares, strict=True)]
    return torch.from_numpy(divided(np.sum(scaled, axis=0), whole).astype(np.int32))
