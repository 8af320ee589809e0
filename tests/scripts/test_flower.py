"""The Flower app with messages carried in this process: same bits as `fabtune federate`. Needs the extra."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

flwr_app = pytest.importorskip("flwr.app", reason="the extra `federated` is not installed")

CONFIG = Path(__file__).parents[2] / "docs" / "flower" / "pyproject.toml"


class Carrier:
    """A grid of function nodes; in the first round one sends garbage, and one never answers.

    Nodes listed by number may be cores.
    """

    def __init__(self, config, faults, cores=()):
        self.config, self.faults, self.round, self.cores = config, list(faults), 0, dict(cores)

    def get_node_ids(self):
        return range(10, 10 + self.config["clients"])

    def send_and_receive(self, messages, timeout):
        from fabtune.scripts import flower

        for message in messages:
            node = message.metadata.dst_node_id
            context = SimpleNamespace(run_config=self.config, node_config={"partition-id": node - 10})
            if message.metadata.message_type == "query":
                yield flower.enrol(message, context)
                continue
            fault = self.faults.pop() if self.faults else None
            if fault != "lost":
                core = self.cores.get(node - 10)
                reply = flower.learn(message, context) if core is None else self.answer(core, message)
                if fault == "garbage":
                    reply.content["reply"]["message"] = b"garbage"
                yield reply

    def answer(self, core, message):
        """Answer of a core's host: message bytes and weight digest."""
        from flwr.app import ConfigRecord, Message, RecordDict

        from fabtune.golden.train.federated.client import ClientTask
        from fabtune.scripts import flower

        asked, total = message.content["task"], message.content["total"]
        core.synchronise(tuple(torch.from_numpy(total[part].numpy().copy()) for part in ("0", "1")))
        task = ClientTask(int(asked["round"]), int(asked["client"]), int(asked["position"]))
        reply = {"message": core.train(task).to_bytes(), "digest": flower._digest(core.integers())}
        return Message(RecordDict({"reply": ConfigRecord(reply)}), reply_to=message)


@pytest.fixture(autouse=True)
def _identity():
    """Set the identities that Flower gives its processes at start."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


@pytest.mark.parametrize(("given", "read"), [("", None), ("2", 2), (0, 0)])
def test_a_stage_is_a_number_or_left_open(given, read):
    from fabtune.scripts.flower import request_of

    config = tomllib.loads(CONFIG.read_text())["tool"]["flwr"]["app"]["config"]
    assert request_of(config | {"stage": given}).stage == read


@pytest.mark.parametrize("faults", [[], ["garbage", "lost"]])
def test_the_app_is_the_federation(fabtune, capsys, monkeypatch, faults):
    from fabtune.scripts import flower

    monkeypatch.setattr(flower, "_POLL", 0)
    config = tomllib.loads(CONFIG.read_text())["tool"]["flwr"]["app"]["config"]
    config |= {"clients": 4, "fraction": 0.75, "rounds": 2, "steps": 3}
    flower.serve(Carrier(config, faults), SimpleNamespace(run_config=config))
    report = json.loads(capsys.readouterr().out)
    assert report["bit_identical"] is True
    if faults:
        assert len(report["missing"]) == 2
        assert "7 bytes are no message" in report["refused"][0]
        return
    options = [f"--{name}={config[name]}" for name in ("clients", "fraction", "rounds", "steps")]
    status, out, _ = fabtune("federate", "--alone", "--json", *options)
    assert status == 0
    alone = json.loads(out)
    for name in ("upload_bytes", "accuracy_before", "accuracy_after", "refused", "missing"):
        assert report[name] == alone[name]


def test_a_transformer_in_the_app(fabtune, sentences, tiny_transformer, capsys, monkeypatch):
    """In integers: same bits as in a single process."""
    from fabtune.scripts import flower

    monkeypatch.setattr(flower, "_POLL", 0)
    config = tomllib.loads(CONFIG.read_text())["tool"]["flwr"]["app"]["config"]
    own = {"model": str(tiny_transformer), "data": "csv:.", "shots": 10, "rate": 0.05, "cut": "head"}
    config |= own | {"clients": 3, "fraction": 0.67, "rounds": 2, "steps": 2}
    flower.serve(Carrier(config, []), SimpleNamespace(run_config=config))
    report = json.loads(capsys.readouterr().out)
    assert report["bit_identical"] is True
    options = [f"--{name}={config[name]}" for name in (*own, "clients", "fraction", "rounds", "steps")]
    status, out, _ = fabtune("federate", "--alone", "--json", *options)
    assert status == 0
    for name in ("upload_bytes", "accuracy_before", "accuracy_after", "refused", "missing"):
        assert report[name] == json.loads(out)[name]


def test_cores_take_part_in_the_app(capsys, monkeypatch):
    """A program and a simulated core in one federation: every digest equals the server's."""
    from rich.console import Console

    from fabtune.scripts import flower
    from fabtune.scripts.federate import experiment_of

    monkeypatch.setattr(flower, "_POLL", 0)
    config = tomllib.loads(CONFIG.read_text())["tool"]["flwr"]["app"]["config"]
    config |= {"clients": 2, "fraction": 1.0, "rounds": 2, "steps": 3, "core": "tiny"}
    (core,) = experiment_of(replace(flower.request_of(config), simulated=1), Console(quiet=True)).cores
    flower.serve(Carrier(config, [], {0: core}), SimpleNamespace(run_config=config))
    report = json.loads(capsys.readouterr().out)
    assert report["bit_identical"] is True
    assert (report["refused"], report["missing"]) == ([], [])
