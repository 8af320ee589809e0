"""A client: learns on its own samples, sends integer scalars."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ...datasets.dataset import Samples
from .configuration import FederatedConfig
from .message import Message
from .model import SplitModel, Totals
from .scalars import Moves, Scalars


@dataclass(frozen=True)
class ClientTask:
    """What the server asks a client for.

    Parameters
    ----------
    round, client : int
    position : int
        Of the client's first perturbation: no two clients of a round share any.
    """

    round: int
    client: int
    position: int


class Client:
    """One client.

    Parameters
    ----------
    module : nn.Sequential
        As the server's was at the start; tuned in place.
    cut : int
        See `SplitModel`.
    config : FederatedConfig
    samples : Samples
        Its own; their number is its share in the average.
    """

    def __init__(self, module: nn.Sequential, cut: int, config: FederatedConfig, samples: Samples) -> None:
        self.model = SplitModel(module, cut, config)
        self.samples = samples
        self.losses: list[float] = []
        """Mean of the losses seen in each step of the last round."""
        self._at = self.model.total(([], []))
        self._since: tuple[Moves, Moves] = ([], [])
        """Its own moves since it was there."""

    def follow(self, total: Totals) -> None:
        """Go to where the server is, from wherever this client is.

        Parameters
        ----------
        total : tuple of Tensor
            All that the server added since the start; whatever the rounds this client missed, it is one pass.
        """
        own = self.model.total(self._since)
        self.model.apply((total[0] - self._at[0] - own[0], total[1] - self._at[1] - own[1]))
        self._at, self._since = total, ([], [])

    def learn(self, task: ClientTask) -> Message:
        """Take the round's steps."""
        config, layout = self.model.config, self.model.layout
        inputs, labels = torch.from_numpy(self.samples.values()), torch.from_numpy(self.samples.labels)
        steps: list[Scalars] = []
        self.losses = []
        for number, indices in enumerate(config.batches(task.round, task.client, len(labels))):
            chosen = torch.from_numpy(indices)
            position = task.position + number * layout.span
            scalars, loss = self.model.step(inputs[chosen], labels[chosen], position)
            steps.append(scalars)
            self.losses.append(loss)
            for mine, moves in zip(self._since, layout.moves(position, [scalars]), strict=True):
                mine.extend(moves)
        share = len(self.samples)
        return Message(task.round, task.client, task.position, share, config.first, config.second, tuple(steps))
