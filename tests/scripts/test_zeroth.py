"""`fabtune tune` with zeroth order, as a user meets it."""

import json

import numpy as np
import pytest

from fabtune.golden.models.checkpoint import load_saved

pytestmark = pytest.mark.usefixtures("sentences")


@pytest.mark.parametrize(
    ("method", "engine", "generator"),
    [("mezo", "float", "gaussian"), ("pezo-pool", "golden", "pool"), ("pezo-otf", "golden", "otf8")],
)
def test_digits(fabtune, tmp_path, method, engine, generator):
    status, out, _ = fabtune("tune", "--method", method, "--steps", 400, "--plot", "curve.png", "--json")
    assert status == 0
    report = json.loads(out)
    assert report["accuracy_before"] < 0.6
    assert report["accuracy_after"] > report["accuracy_before"] + 0.1
    assert report["loss_after"] < report["loss_before"]
    assert (report["engine"], report["generator"]) == (engine, generator)
    assert (report["directions"] is None) == (method == "mezo")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    tensors, metadata = load_saved(tmp_path / report["weights"])
    assert sum(one.size for one in tensors.values()) == report["trained_parameters"] == 4538
    assert metadata["generator"] == generator


def test_a_transformer_on_a_users_sentences(fabtune, tmp_path, tiny_transformer):
    task = ("--data", f"csv:{tmp_path}", "--model", tiny_transformer, "--shots", 8)
    status, out, _ = fabtune("tune", "--method", "pezo-otf", *task, "--steps", 60, "--rate", "3e-4")
    assert status == 0
    assert "pezo-otf (otf8) on csv:" in out
    assert "after 60 steps" in out
    assert (tmp_path / "build/runs/tune-0001/csv-pezo-otf.safetensors").is_file()


def test_sensitive_weights(fabtune, tmp_path, tiny_transformer):
    task = ("--data", "sst-2", "--data-dir", "data", "--model", tiny_transformer, "--precision", "bfloat16")
    status, out, _ = fabtune("tune", "--method", "sparse-zo", *task, "--fraction", "0.01", "--steps", 3, "--json")
    assert status == 0
    report = json.loads(out)
    tensors, _ = load_saved(tmp_path / report["weights"])
    indices = tensors["encoder.encoder.layer.0.attention.self.query.indices"]
    assert np.all(np.diff(indices) > 0)
    assert len(indices) == len(tensors["encoder.encoder.layer.0.attention.self.query.values"]) == round(0.01 * 256)


MISTAKES = {
    "tune --method mezo --epochs 3": "--epochs has no meaning with --method mezo",
    "tune --method instantft --shots 3": "--shots has no meaning with --method instantft",
    "tune --method mezo --rate 0": "rate = 0.0: a learning rate is above 0",
    "tune --method mezo --eps 0": "eps = 0.0",
    "tune --method mezo --engine golden": "take one of pool, otf8, otf14",
    "tune --method mezo --generator dice": "there is no generator 'dice'",
    "tune --method pezo-otf --set scale.urng.n=0": "n = 0",
    "tune --method pezo-otf --rank 4": "--rank has no meaning with --method pezo-otf",
    "tune --method pezo-otf --fraction 0.1": "--fraction has no meaning with --method pezo-otf",
    "tune --method sparse-zo --data csv:. --mask task --generic a.txt": "--generic has no meaning with --mask task",
    "tune --method mezo --shots 16": "belong to a text task",
    "tune --method mezo --shots 3": "belong to a text task",
    "tune --method mezo --data sst-2": "--data-dir",
    "tune --method mezo --data sst-2 --data-dir gone": "is missing",
    "tune --method mezo --data csv:. --drift rotate:3": "--drift belongs to a network of layers",
    "tune --method mezo --data csv:. --model .": "no config.json",
    "tune --method sparse-zo --data csv:gone": "prompts.txt is missing",
    "tune --method mezo --plot curve.gif": ".png, .svg, .pdf",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes(refused, command):
    assert MISTAKES[command] in refused(command)
