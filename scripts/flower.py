"""FedSPZO on Flower (the extra ``federated``): `golden.train.federated` over Flower's messages.

Clients keep no state between rounds. A client starts each round from its pre-trained model and the short sum of all
moves since then, which the server sends, and replies with the bytes of its message.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import click
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from rich.console import Console

from ..golden.errors import UserError
from ..golden.train.federated.client import Client, ClientTask
from ..golden.train.federated.experiment import FederatedExperiment
from ..golden.train.federated.server import Server
from .federate import FederateRequest, experiment_of

_POLL = 1.0
"""Seconds between looks for new clients."""

client_app = ClientApp()
server_app = ServerApp()


def request_of(config: dict[str, Any]) -> FederateRequest:
    """Request from a run's configuration."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(FederateRequest):
        value = config.get(field.name.replace("_", "-"))
        optional = "None" in str(field.type)
        values[field.name] = (value or None) if optional else (False if value is None else value)
    for name in ("weights", "data_dir", "generic"):
        values[name] = Path(values[name]) if values[name] else None
    values["scale"] = values["scale"] or 1.0
    stage = str(config.get("stage", ""))
    try:
        values["stage"] = int(stage) if stage else None
    except ValueError:
        raise UserError(f"stage = {stage!r} is not a number of a layer") from None
    return FederateRequest(**values)


def _experiment(config: dict[str, Any]) -> FederatedExperiment:
    return experiment_of(request_of(config), Console(quiet=True))


def _digest(integers: torch.Tensor) -> str:
    return hashlib.sha256(integers.numpy().tobytes()).hexdigest()


@client_app.query()
def enrol(message: Message, context: Context) -> Message:
    """Reply with this client's number and number of samples."""
    start = _experiment(dict(context.run_config))
    client = int(context.node_config["partition-id"])
    record = ConfigRecord({"client": client, "share": len(start.owned[client])})
    return Message(RecordDict({"client": record}), reply_to=message)


@client_app.train()
def learn(message: Message, context: Context) -> Message:
    """Run a client's round."""
    start = _experiment(dict(context.run_config))
    asked = message.content["task"]
    client = Client(start.model(start.config, start.stage), start.owned[int(asked["client"])])
    if _digest(client.model.integers()) != asked["start"]:
        raise UserError("this client's pre-trained model is not the server's: give both the same file as weights")
    first, second = (torch.from_numpy(message.content["total"][part].numpy().copy()) for part in ("0", "1"))
    client.synchronise((first, second))
    data = client.train(ClientTask(int(asked["round"]), int(asked["client"]), int(asked["position"]))).to_bytes()
    reply: dict[str, bytes | str] = {"message": data}
    if context.run_config["check"]:
        reply["digest"] = _digest(client.model.integers())
    return Message(RecordDict({"reply": ConfigRecord(reply)}), reply_to=message)


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    """Run all rounds and print the figures as JSON."""
    config = dict(context.run_config)
    timeout = float(config["timeout"])
    start = _experiment(config)
    nodes = _enrolled(grid, start.config.clients, timeout)
    shares = [share for _, (_, share) in sorted(nodes.items())]
    server = Server(start.model(start.config, start.stage), shares)
    origin = _digest(server.model.integers())
    identical, uploaded, refused, missing = True, 0, [], []
    before = server.model.evaluated(start.test)
    for number in range(start.config.rounds):
        messages = _messages(server, nodes, origin)
        for reply in grid.send_and_receive(messages, timeout=timeout):
            sender = f"node {reply.metadata.src_node_id}"
            if reply.has_error():
                click.echo(f"{sender}: {reply.error.reason}", err=True)
                continue
            # `server.receive` refuses a damaged reply
            record: Any = reply.content.get("reply", {})
            sent = record.get("message")
            data = sent if isinstance(sent, bytes) else b""
            uploaded += len(data)
            try:
                client = server.receive(data, sender).client
            except UserError as reason:
                click.echo(str(reason), err=True)
                continue
            if "digest" in record:
                identical &= _digest(server.rebuilt(client)) == record["digest"]
        done = server.close()
        refused += done.refused
        missing += [(number, client) for client in done.missing]
        loss, right = server.model.evaluated(start.test)
        click.echo(f"round {number + 1}: loss {loss:.3f}, {100 * right:.1f}% right", err=True)
    after = server.model.evaluated(start.test)
    click.echo(
        json.dumps(
            {
                "bit_identical": identical if config["check"] else None,
                "upload_bytes": uploaded,
                "accuracy_before": before[1],
                "accuracy_after": after[1],
                "weights": _digest(server.model.integers()),
                "refused": refused,
                "missing": missing,
            }
        )
    )


def _messages(server: Server, nodes: dict[int, tuple[int, int]], origin: str) -> list[Message]:
    total = {str(part): Array(moves.numpy()) for part, moves in enumerate(server.total)}
    messages = []
    for client, task in server.round.tasks.items():
        asked = ConfigRecord({**dataclasses.asdict(task), "start": origin})
        content = RecordDict({"task": asked, "total": ArrayRecord(total)})
        messages.append(Message(content, nodes[client][0], MessageType.TRAIN))
    return messages


def _enrolled(grid: Grid, clients: int, timeout: float) -> dict[int, tuple[int, int]]:
    """Wait until all clients have joined; return node and number of samples of each client.

    A `UserError` if some clients have not joined in time.
    """
    joined: dict[int, tuple[int, int]] = {}
    asked: set[int] = set()
    deadline = time.monotonic() + timeout
    while set(joined) != set(range(clients)):
        if time.monotonic() > deadline:
            raise UserError(f"{len(joined)} of {clients} clients have joined within {timeout:g} s")
        new = [node for node in grid.get_node_ids() if node not in asked]
        messages = [Message(RecordDict(), node, MessageType.QUERY) for node in new]
        for reply in grid.send_and_receive(messages, timeout=timeout) if messages else ():
            asked.add(reply.metadata.src_node_id)
            if not reply.has_error():
                record: Any = reply.content["client"]
                joined[int(record["client"])] = (reply.metadata.src_node_id, int(record["share"]))
        time.sleep(_POLL)
    return joined
