"""`fabtune evaluate` and `fabtune export`: returned results, from a user's view."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from safetensors.torch import load_file
from torch import nn

from fabtune.golden.datasets.images import digits
from fabtune.golden.models.checkpoint import load_saved
from fabtune.sim.cores.instantft.tune import InstantftTuner

OWN = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(36, 10)

    def forward(self, x):
        return self.head(self.stem(x).flatten(1))

def build():
    return Net()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder with a user's class, digits as NPZ, and trained weights; and the class."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mine.py").write_text(OWN)
    names: dict = {}
    exec(compile(OWN, "mine.py", "exec"), names)
    task = digits(0)
    arrays = {f"x_{part}": getattr(task, part).inputs for part in ("tune", "test")}
    labels = {f"y_{part}": getattr(task, part).labels for part in ("tune", "test")}
    np.savez(folder / "mine.npz", **arrays, **labels)
    torch.manual_seed(0)
    module = names["build"]().train()
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    values, wanted = torch.from_numpy(task.pretrain.values()), torch.from_numpy(task.pretrain.labels)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(values), wanted).backward()
        optimiser.step()
    torch.save(module.state_dict(), folder / "mine.pt")
    return folder, names["build"]


@pytest.fixture
def own(fabtune, tmp_path, trained):
    """The user's files in the working folder; the class."""
    folder, build = trained
    for file in folder.iterdir():
        shutil.copy(file, tmp_path)
    return build


MINE = ("--model", "mine.py:build", "--weights", "mine.pt")
TUNE = ("tune", *MINE, "--data", "npz:mine.npz", "--json")


def report(fabtune, *arguments):
    status, out, err = fabtune(*arguments, *(() if "--json" in arguments else ("--json",)))
    assert status == 0, err
    return json.loads(out)


def right(logits, labels):
    return float(np.mean(np.asarray(logits).argmax(axis=1) == labels))


def test_the_whole_way_of_zeroth_order(fabtune, own, tmp_path):
    """Tuned, evaluated on each engine, exported, and equally accurate in the user's class."""
    tuned = report(fabtune, *TUNE, "--method", "pezo-otf", "--steps", 60, "--delta", "d.safetensors")
    run = tuned["weights"]
    assert set(load_saved(Path(run))[0]) == set(own().state_dict())
    golden = report(fabtune, "evaluate", run)
    assert golden["accuracy"] == tuned["accuracy_after"]
    assert (golden["engine"], golden["data"], golden["samples"]) == ("golden", "npz:mine.npz", 497)
    assert sum(map(sum, golden["confusion"])) == 497
    assert sum(one["right"] for one in golden["classes"]) == round(497 * golden["accuracy"])
    for one, row in zip(golden["classes"], golden["confusion"], strict=True):
        assert (one["samples"], one["right"]) == (sum(row), row[one["class"]])
        assert one["times"] == max([n for at, n in enumerate(row) if at != one["class"]])
    # the run's folder and its delta are equivalent
    for named in (Path(run).parent, "d.safetensors"):
        assert report(fabtune, "evaluate", named, "--data", "npz:mine.npz")["confusion"] == golden["confusion"]
    status, out, err = fabtune("export", run, "--to", "pytorch", "-o", "tuned.safetensors")
    assert status == 0, err
    assert out == 'tuned.safetensors: model.load_state_dict(safetensors.torch.load_file("tuned.safetensors"))\n'
    theirs = own()
    theirs.load_state_dict(load_file("tuned.safetensors"))
    test = digits(0).test
    with torch.no_grad():
        accuracy = right(theirs.eval()(torch.from_numpy(test.values())), test.labels)
    floating = report(fabtune, "evaluate", run, "--engine", "float")
    assert accuracy == floating["accuracy"]
    assert floating["golden_accuracy"] == golden["accuracy"]
    assert abs(accuracy - golden["accuracy"]) <= floating["accuracy_bound"] < 0.05
    assert floating["logit_difference"] <= floating["logit_bound"] < 0.01
    again = report(fabtune, "evaluate", *MINE[:2], "--weights", "tuned.safetensors", "--data", "npz:mine.npz")
    assert again["confusion"] == golden["confusion"]


def test_adapters_come_back_as_a_program_onnx_and_integers(fabtune, own, tmp_path):
    tuned = report(fabtune, *TUNE, "--epochs", 4)
    run = tuned["adapters"]
    tensors, metadata = load_saved(Path(run))
    assert set(tensors) == {f"{name}.lora_{part}" for name in ("stem.0", "head") for part in "ab"}
    assert {name: metadata[name] for name in ("model", "weights", "input", "method", "rank", "engine", "seed")} == {
        "model": "mine.py:build",
        "weights": "mine.pt",
        "input": "1x8x8",
        "method": "instantft",
        "rank": "4",
        "engine": "golden",
        "seed": "0",
    }
    assert report(fabtune, "evaluate", run)["accuracy"] == tuned["accuracy_after"]
    floating = report(fabtune, "evaluate", run, "--engine", "float")
    test = digits(0).test
    told = report(fabtune, "export", run, "--to", "pytorch", "-o", "tuned.pt2")
    assert (told["merged"], told["adapters"]) == (1, 1)
    with torch.no_grad():
        program = right(torch.export.load("tuned.pt2").module()(torch.from_numpy(test.values())), test.labels)
    report(fabtune, "export", run, "--to", "onnx", "-o", "tuned.onnx")
    (logits,) = ReferenceEvaluator("tuned.onnx").run(None, {"input": test.values()})
    assert program == right(logits, test.labels) == floating["accuracy"]
    assert abs(program - tuned["accuracy_after"]) <= floating["accuracy_bound"]
    report(fabtune, "export", run, "--to", "npz", "-o", "tuned.npz")
    with np.load("tuned.npz") as file:
        np.testing.assert_array_equal(file["head.lora_b"] / 4096, tensors["head.lora_b"])


def test_a_preset_and_its_table(fabtune, tmp_path):
    tuned = report(fabtune, "tune", "--method", "ft-last", "--epochs", 2)
    status, out, _ = fabtune("evaluate", tuned["adapters"])
    assert status == 0
    share = f"{100 * tuned['accuracy_after']:.1f}% of 497 samples of digits right, golden"
    assert share in out
    assert "most often taken for" in out
    plain = report(fabtune, "evaluate", "--model", "digits", "--weights", tuned["start"], "--data", "digits")
    drifted = ("--data", "digits", "--drift", "camera")
    moved = report(fabtune, "evaluate", "--model", "digits", "--weights", tuned["start"], *drifted)
    assert plain["accuracy"] > 0.95 > moved["accuracy"] == tuned["accuracy_before"]
    status, out, _ = fabtune("export", tuned["adapters"], "--to", "pytorch", "-o", "tuned.pt")
    assert status == 0
    assert set(torch.load("tuned.pt")) == set(torch.load("tuned.pt")) >= {"0.weight", "6.bias"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pezo-otf", "instantft", "ft-last"])
def test_the_core_gives_the_same(fabtune, own, monkeypatch, method):
    key = "weights" if method == "pezo-otf" else "adapters"
    run = report(fabtune, *TUNE, "--method", method, "--steps" if key == "weights" else "--epochs", 2)[key]
    asked = ("evaluate", run, "--engine", "rtl", "--core", "tiny", "--first", 20)
    found = report(fabtune, *asked)
    assert (found["samples"], found["mismatches"], found["bit_exact"]) == (20, 0, True)
    assert found["array"] == "16 x 4"
    assert found["cycles"] > 0
    assert found["confusion"] == report(fabtune, "evaluate", run, "--first", 20)["confusion"]


def test_a_core_that_differs_is_told(fabtune, own, monkeypatch):
    run = report(fabtune, *TUNE, "--epochs", 1)["adapters"]

    def wrong(self, tuned, rank, samples, preset, stage):
        from fabtune.golden.cores.instantft.instantft import InstantftSpec
        from fabtune.sim.compiled.tuner import Inference

        return Inference(InstantftSpec.of(tuned.network), np.zeros((len(samples), 10), np.int64), 7)

    monkeypatch.setattr(InstantftTuner, "infer", wrong)
    status, out, _ = fabtune("evaluate", run, "--engine", "rtl", "--first", 5)
    assert status == 1
    assert "7 cycles: 5 outputs compared with golden, 5 mismatches" in out


def test_files_that_moved_are_named_anew(fabtune, own, tmp_path):
    run = report(fabtune, *TUNE, "--epochs", 1, "-o", "run.safetensors")["adapters"]
    (tmp_path / "mine.pt").rename(tmp_path / "moved.pt")
    export = ("export", run, "--to", "onnx", "-o", "tuned.onnx")
    status, _, err = fabtune(*export)
    assert (status, err) == (
        2,
        "fabtune: run.safetensors started from mine.pt, which is not there: give it with --weights\n",
    )
    assert fabtune(*export, "--weights", "moved.pt")[0] == 0
    (tmp_path / "mine.py").rename(tmp_path / "moved.py")
    status, _, err = fabtune(*export, "--force", "--weights", "moved.pt")
    assert "run.safetensors is of mine.py:build, which is not there: give it with --model" in err
    assert fabtune(*export, "--force", "--weights", "moved.pt", "--model", "moved.py:build")[0] == 0
    state = torch.load("moved.pt")
    torch.save(state | {"head.bias": state["head.bias"] + 1}, "other.pt")
    status, _, err = fabtune(*export, "--force", "--weights", "other.pt", "--model", "moved.py:build")
    assert (status, err.count("\n")) == (2, 1)
    assert "run.safetensors started from other weights: theirs have the digest" in err


@pytest.mark.slow
def test_a_network_of_onnx_comes_back_as_onnx(fabtune, own, tmp_path):
    run = report(fabtune, *TUNE, "--method", "pezo-otf", "--steps", 3)["weights"]
    assert fabtune("export", run, "--to", "onnx", "-o", "net.onnx")[0] == 0
    tuned = report(
        fabtune, "tune", "--model", "net.onnx", "--data", "npz:mine.npz", "--epochs", 1, "-o", "run.safetensors"
    )
    assert tuned["start"] == "net.onnx"
    assert tuned["accuracy_before"] == report(fabtune, "evaluate", run)["accuracy"]
    assert "stem.0.lora_a" in load_saved(Path("run.safetensors"))[0]
    status, _, err = fabtune("export", "run.safetensors", "--to", "pytorch", "-o", "tuned.pt")
    assert (status, err.count("\n")) == (2, 1)
    assert "net.onnx is no class of PyTorch's that could load tuned.pt: take -o FILE.pt2, or --to onnx" in err
    assert fabtune("export", "run.safetensors", "--to", "onnx", "-o", "tuned.onnx")[0] == 0
    assert report(fabtune, "evaluate", "run.safetensors")["accuracy"] == tuned["accuracy_after"]


MISTAKES = {
    "evaluate": "name the samples with --data NAME or npz:FILE",
    "evaluate --data digits": "name the network with --model FILE.py:BUILD, FILE.onnx, FILE.pt2 or a preset; or give",
    "evaluate gone.safetensors": "there is no run gone.safetensors: give the file that fabtune tune wrote",
    "evaluate mine.npz": "mine.npz is not a safetensors file",
    "evaluate --model mine.py:build --weights mine.pt": "name the samples with --data",
    "evaluate --model digits --data digits": "the preset digits has no weights of its own: give them with --weights",
    "evaluate --model mine.py:build --data fan-damage1": "fan-damage1 needs files",
    "evaluate --model mine.py:build --data npz:mine.npz --scale 2": "a scale has no meaning with bytes",
    "evaluate --model mine.py:build --data digits --engine verilog": "there is no engine 'verilog'",
    "evaluate --model mine.py:build --data digits --core tiny": "--core has no meaning with --engine",
    "evaluate a --delta b": "a and --delta b both name a run: give one of them",
    "export mine.pt --to onnx -o mine.npz": "mine.npz exists",
    "export mine.pt --to onnx -o mine.bin": "mine.bin: a file of --to onnx ends in .onnx",
    "export mine.pt --to pytorch -o mine.onnx": "ends in .safetensors, .pt, .pth, .pt2",
    "export mine.pt --to verilog -o mine.v": "'verilog' is not one of",
    "export mine.pt --to npz -o mine.npz/a.npz": "mine.npz is a file, not a folder",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(own, refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
