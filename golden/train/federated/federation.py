"""Federation in one process: a server, its clients, and messages as bytes, in any order and with faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ...errors import UserError
from .client import Client, FederatedClient
from .federated_model import FederatedModel, LabelledSamples
from .server import Server


@dataclass(frozen=True)
class RoundMetrics:
    """Metrics of a federation after a round; `evaluations` and `upload_bytes` are sums so far over all clients.

    Parameters
    ----------
    tuning_loss : float
        Mean loss of the round's clients during their steps; before the first round equal to `loss`.
    loss, accuracy : float
        Cross entropy and accuracy on held-out samples.
    evaluations : tuple of int
        Samples evaluated by the first and by the second part.
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
        Before the first round and after each.
    bit_identical : bool
        True if every model rebuilt by the server equals the client's, and all clients end with the server's weights.
    refused : list of str
        Messages refused by the server: sender and reason.
    missing : list of (int, int)
        Round and client of each lost message.
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
        Samples of each client; their number is the client's weight in the average.
    transport : callable, optional
        Delivers messages; by default in random order.
    progress : callable, optional
        Called after each round.
    cores : sequence of FederatedClient
        The first clients, if they are cores with their own samples.

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
        first, second = (sum(client.evaluations[part] for client in clients) for part in (0, 1))
        outcome.curve.append(RoundMetrics(float(np.mean(losses)), loss, right, (first, second), uploaded))
        if progress:
            progress(outcome.curve[-1])
    for participant in clients:
        participant.synchronise(server.total)
        outcome.bit_identical &= torch.equal(participant.integers(), server.model.integers())
    return outcome


def _received(server: Server, clients: Sequence[FederatedClient], uploads: Uploads) -> bool:
    """Pass uploads to the server; return True if every sender's model was rebuilt bit for bit."""
    identical = True
    for sender, data in uploads:
        try:
            client = server.receive(data, sender).client
        except UserError:
            continue  # the server records the reason
        identical &= torch.equal(server.rebuilt(client), clients[client].integers())
    return identical


Uploads = list[tuple[str, bytes]]
"""Sender and bytes of each message of a round."""
Transport = Callable[[int, Uploads], Uploads]
"""Maps a round's number and messages to the messages that arrive at the server, in order."""


def shuffled(seed: int) -> Transport:
    """Transport that delivers messages in random order."""

    def deliver(number: int, uploads: Uploads) -> Uploads:
        order = np.random.default_rng([seed, 4, number]).permutation(len(uploads))
        return [uploads[index] for index in order]

    return deliver


def faulty(seed: int) -> Transport:
    """Transport with fault injection: random order, one lost message, one damaged message per round.

    The message is lost in the first round. A damaged message has one changed bit; the correct message follows.
    """
    deliver = shuffled(seed)

    def deliver_with_faults(number: int, uploads: Uploads) -> Uploads:
        arrived = deliver(number, uploads)
        if number == 0 and len(arrived) > 1:
            arrived.pop()
        sender, whole = arrived[0]
        bit = int(np.random.default_rng([seed, 5, number]).integers(8 * len(whole)))
        damaged = (int.from_bytes(whole, "little") ^ 1 << bit).to_bytes(len(whole), "little")
        return [(sender, damaged), *arrived]

    return deliver_with_faults
