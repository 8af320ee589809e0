"""`fabtune tune` with zeroth order, and the tables of its papers, as a user meets them."""

import json

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.models.checkpoint import load_saved
from fabtune.golden.train.text.tasks import SEEDS
from fabtune.scripts.tables.zeroth import Way, _trial


@pytest.fixture(autouse=True)
def _sentences(fabtune, tmp_path):
    """A user's task, and the same as SST-2 in the layout of the tables' data."""
    words = [("bad", "poor"), ("good", "fine")]
    rows = [(at % 2, f"the film was {words[at % 2][at // 2 % 2]}" + " , a plot" * (at % 3)) for at in range(40)]
    (tmp_path / "prompts.txt").write_text("it was bad\nit was good\n")
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_text("".join(f"{label},{text}\n" for label, text in rows))
    text = tmp_path / "data" / "text"
    for seed in SEEDS:
        folder = text / "lmbff-kshot" / "SST-2" / f"16-{seed}"
        folder.mkdir(parents=True)
        for part in ("train", "test"):
            lines = "".join(f"{text}\t{label}\n" for label, text in rows)
            (folder / f"{part}.tsv").write_text(f"sentence\tlabel\n{lines}")
    (text / "tinyshakespeare").mkdir()
    passages = "\n\n".join(" ".join(["the film was good , the cast was very fine"] * (1 + at % 4)) for at in range(99))
    (text / "tinyshakespeare" / "input.txt").write_text(passages)


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
    assert len(list((tmp_path / "build/tune").iterdir())) == 1


def test_sensitive_weights(fabtune, tmp_path, tiny_transformer):
    task = ("--data", "sst-2", "--data-dir", "data", "--model", tiny_transformer, "--precision", "bfloat16")
    status, out, _ = fabtune("tune", "--method", "sparse-zo", *task, "--fraction", "0.01", "--steps", 3, "--json")
    assert status == 0
    report = json.loads(out)
    tensors, _ = load_saved(tmp_path / report["weights"])
    indices = tensors["encoder.encoder.layer.0.attention.self.query.indices"]
    assert np.all(np.diff(indices) > 0)
    assert len(indices) == len(tensors["encoder.encoder.layer.0.attention.self.query.values"]) == round(0.01 * 256)


@pytest.mark.parametrize(
    ("table", "column", "count"),
    [("pezo-3", "perturbation", 6), ("pezo-4", "method", 3), ("sparse-1", "tuned", 5), ("pezo-fig4", "generator", 10)],
)
def test_tables(fabtune, tmp_path, tiny_transformer, table, column, count):
    size = ("--task", "sst-2", "--seeds", 1, "--steps", 3, "--model", tiny_transformer, "--data-dir", "data")
    status, out, _ = fabtune("table", table, *size, "--plot", "curves.svg", "--json")
    assert status == 0
    result = json.loads(out)
    assert len({row[column] for row in result["rows"]}) == len(result["rows"]) == count
    assert all(0 <= row["after"] <= 100 for row in result["rows"])
    assert (tmp_path / "curves.svg").stat().st_size > 1000
    if table == "sparse-1":
        assert any("13.47" in note and "13.5" in note for note in result["notes"])


def test_a_rate_is_that_of_all_weights(fabtune, tiny_transformer):
    size = ("--task", "sst-2", "--seeds", 1, "--steps", 9, "--model", tiny_transformer, "--data-dir", "data")
    status, out, _ = fabtune("table", "sparse-1", *size, "--rate", "1e30", "--json")
    assert status == 0
    assert [row["collapsed"] for row in json.loads(out)["rows"]] == [1, 0, 0, 0, 0]


def test_a_trial_that_collapses_is_told_from_one_that_cannot_start(tmp_path, tiny_transformer):
    trial = {"task": "sst-2", "shots": 16, "seed": 0, "steps": 50, "data_dir": tmp_path / "data"}
    outcome = _trial(way=Way("mezo"), rate=1e30, folder=tiny_transformer, **trial)
    assert outcome.collapsed
    assert 0 <= outcome.after <= 1
    (tmp_path / "data" / "text" / "tinyshakespeare" / "input.txt").unlink()
    with pytest.raises(UserError, match=r"the generic text .* is missing"):
        _trial(way=Way("sparse-zo"), rate=1e-3, folder=tiny_transformer, **trial)


MISTAKES = {
    "tune --method mezo --epochs 3": "--epochs has no meaning with --method mezo",
    "tune --method instantft --shots 3": "--shots has no meaning with --method instantft",
    "tune --method mezo --rate 0": "rate = 0.0: a learning rate is above 0",
    "tune --method mezo --eps 0": "eps = 0.0",
    "tune --method mezo --engine golden": "take one of pool, otf8, otf14",
    "tune --method mezo --generator dice": "there is no generator 'dice'",
    "tune --method pezo-otf --set scale.urng.n=0": "n = 0",
    "tune --method mezo --shots 3": "belong to a text task",
    "tune --method mezo --data sst-2": "--data-dir",
    "tune --method mezo --data sst-2 --data-dir gone": "is missing",
    "tune --method mezo --data csv:. --drift rotate:3": "--drift belongs to a network of layers",
    "tune --method mezo --data csv:. --model .": "no config.json",
    "tune --method sparse-zo --data csv:gone": "prompts.txt is missing",
    "tune --method mezo --plot curve.gif": ".png, .svg, .pdf",
    "table pezo-4": "--data-dir",
    "table pezo-4 --data-dir gone": "is missing",
    "table pezo-4 --data-dir data --task poems": "no text task 'poems'",
    "table pezo-4 --rate 0": "0.0 is not in the range x>0",
    "table pezo-6 --plot curve.gif": ".png, .svg, .pdf",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes(refused, command):
    assert MISTAKES[command] in refused(command)
