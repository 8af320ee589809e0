"""Federation in one process: a server, its clients, and messages as bytes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ...errors import UserError
from .client import Client, FederatedClient
from .federated_model import FederatedModel, LabelledSamples
from .server import Server
from .transport import Transport, Uploads, shuffled


@dataclass(frozen=True)
class RoundMetrics:
    """Metrics of a federation after a round.

    Parameters
    ----------
    tuning_loss : float
        Mean loss of the round's clients during their steps; before the first round equal to `loss`.
    loss, accuracy : float
        Cross entropy and accuracy on held-out samples.
    evaluations : tuple of int
        Samples evaluated so far by the first and by the second part, over all clients.
    upload_bytes : int
        Bytes uploaded so far, over all clients.
    """

    tuning_loss: float
    loss: float
    accuracy: float
    evaluations: tuple[int, int]
    upload_bytes: int


@dataclass
class FederationResult:
    """Result of a federation.

    Parameters
    ----------
    curve : list of RoundMetrics
        Metrics before the first round and after each.
    bit_identical : bool
        True if every model that the server rebuilt equals the client's, and all clients end with the server's weights.
    refused : list of str
        Messages that the server refused: sender and reason.
    missing : list of (int, int)
        Round and client of each message that did not arrive.
    """

    curve: list[RoundMetrics]
    bit_identical: bool = True
    refused: list[str] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)


def federate(
    model: FederatedModel,
    owned: Sequence[LabelledSamples],
    test: LabelledSamples,
    transport: Transport | None = None,
    progress: Callable[[RoundMetrics], None] | None = None,
    cores: Sequence[FederatedClient] = (),
) -> FederationResult:
    """Run all rounds of a federation.

    Parameters
    ----------
    model : FederatedModel
        Pre-trained; has the server's weights at the end.
    owned : sequence of LabelledSamples
        Samples of each client; their number is its weight in the average.
    test : LabelledSamples
    transport : callable, optional
        Delivers messages; by default in random order.
    progress : callable, optional
        Called after each round.
    cores : sequence of FederatedClient
        The first clients, with their samples, where they are not this program's.

    Raises
    ------
    UserError
        If model, samples and config do not fit together, or a loss is not finite.
    """
    config = model.config
    transport = transport or shuffled(config.seed)
    programs = [Client(model.copy(), samples) for samples in owned[len(cores) :]]
    clients: list[FederatedClient] = [*cores, *programs]
    server = Server(model, [len(samples) for samples in owned])
    loss, right = model.evaluated(test)
    outcome = FederationResult([RoundMetrics(loss, loss, right, (0, 0), 0)])
    uploaded = 0
    for number in range(config.rounds):
        uploads: Uploads = []
        losses: list[float] = []
        for client, task in server.round.tasks.items():
            clients[client].synchronise(server.total)
            message = clients[client].train(task).to_bytes()
            uploads.append((f"client {client}", message))
            losses += clients[client].losses
            uploaded += len(message)
        outcome.bit_identical &= _received(server, clients, transport(number, uploads))
        done = server.close()
        outcome.refused += done.refused
        outcome.missing += [(number, client) for client in done.missing]
        loss, right = model.evaluated(test)
        first, second = (sum(one.evaluations[part] for one in clients) for part in (0, 1))
        outcome.curve.append(RoundMetrics(float(np.mean(losses)), loss, right, (first, second), uploaded))
        if progress:
            progress(outcome.curve[-1])
    for one in clients:
        one.synchronise(server.total)
        outcome.bit_identical &= torch.equal(one.integers(), server.model.integers())
    return outcome


def _received(server: Server, clients: Sequence[FederatedClient], uploads: Uploads) -> bool:
    """Pass uploads to the server; return True if it rebuilt every sender's model bit for bit."""
    identical = True
    for sender, data in uploads:
        try:
            client = server.receive(data, sender).client
        except UserError:
            continue  # the server records the reason
        identical &= torch.equal(server.rebuilt(client), clients[client].integers())
    return identical
