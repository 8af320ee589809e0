"""Client of a federation: trains on its own samples and returns a message of integer scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ...zo.scalars import Moves, Scalars
from .federated_model import FederatedModel, LabelledSamples, Totals
from .message import Message


@dataclass(frozen=True)
class ClientTask:
    """Work of a client in a round, assigned by the server.

    `position` is the client's first perturbation; clients of a round share no perturbation.
    """

    round: int
    client: int
    position: int


class FederatedClient(Protocol):
    """Client of a federation: a `Client`, or a core's client from the core's package in ``boards/cores``."""

    losses: list[float]
    """Mean loss of each step of the last round."""

    @property
    def evaluations(self) -> list[int]:
        """Samples evaluated so far by the first and by the second part."""

    def synchronise(self, total: Totals) -> None:
        """Set the weights to the server's."""

    def train(self, task: ClientTask) -> Message:
        """Run the steps of a round and return the message for the server."""

    def integers(self) -> Tensor:
        """Copy of the weights, (count,) of int32."""


class Client:
    """Client with a model, equal to the server's at the start and tuned in place, and with samples.

    The number of samples is the client's share in the average.
    """

    def __init__(self, model: FederatedModel, samples: LabelledSamples) -> None:
        self.model, self.samples = model, samples
        self.losses: list[float] = []
        """Mean loss of each step of the last round."""
        self._synchronised = self.model.total(([], []))
        self._moves: tuple[Moves, Moves] = ([], [])
        """Moves of this client since the last synchronisation."""

    @property
    def evaluations(self) -> list[int]:
        return self.model.evaluations

    def integers(self) -> Tensor:
        """Copy of the weights, (count,) of int32."""
        return self.model.integers()

    def synchronise(self, total: Totals) -> None:
        """Set the weights to the server's in one pass, after any number of missed rounds.

        `total` is the sum of all moves of the server since the start.
        """
        own_moves = self.model.total(self._moves)
        self.model.apply(
            (total[0] - self._synchronised[0] - own_moves[0], total[1] - self._synchronised[1] - own_moves[1])
        )
        self._synchronised, self._moves = total, ([], [])

    def train(self, task: ClientTask) -> Message:
        """Run the steps of a round and return the message for the server."""
        config, layout = self.model.config, self.model.layout
        inputs, labels = self.model.prepared(self.samples)
        steps: list[Scalars] = []
        self.losses = []
        for number, indices in enumerate(config.batches(task.round, task.client, len(labels))):
            position = task.position + number * layout.span
            scalars, loss = self.model.step(inputs[indices], labels[indices], position)
            steps.append(scalars)
            self.losses.append(loss)
            for own_moves, moves in zip(self._moves, layout.moves(position, [scalars]), strict=True):
                own_moves.extend(moves)
        share = len(self.samples)
        return Message(task.round, task.client, task.position, share, config.first, config.second, tuple(steps))
