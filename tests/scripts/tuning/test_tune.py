"""`fabtune tune` with gradients and adapters, from a user's view."""

import json
import pickle
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.models.checkpoint import load_saved

SHORT = ("--pretrain-epochs", "3", "--epochs", "3")
MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Dropout(), nn.Linear(8, 3))

def sigmoid():
    return nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 3))

def small():
    return nn.Sequential(nn.Linear(6, 2))

def repeating():
    return nn.Sequential(nn.Linear(300, 2), nn.ReLU(), nn.Linear(2, 300))

def nan():
    module = build()
    nn.init.constant_(module[0][1].running_mean, float("nan"))
    return module

def infinite():
    module = build()
    nn.init.constant_(module[2].weight, float("inf"))
    return module

def frozen():
    return build().requires_grad_(False)

def loaded():
    import torch
    module = build()
    module.load_state_dict(torch.load("mine.pt"))
    return module

def broken():
    raise RuntimeError("on purpose,\\nin two lines")

def other():
    return nn.Linear(6, 3).weight
"""


@pytest.fixture(autouse=True)
def _folder(fabtune, tmp_path):
    """A folder with a user's model, weights and samples."""
    (tmp_path / "mine.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    samples = {}
    for part in ("train", "tune", "test"):
        labels = rng.integers(0, 3, 60)
        centre = np.array([1.0, -1.0 if part == "train" else 0.5, 0.2])[labels, None]
        samples |= {f"x_{part}": (centre + rng.normal(0, 0.3, (60, 6))).astype(np.float32), f"y_{part}": labels}
    np.savez("mine.npz", **samples)
    wide = {name: np.repeat(one, 50, 1) if name[0] == "x" else one for name, one in samples.items()}
    np.savez("wide.npz", **wide)
    np.savez("label.npz", **(samples | {"y_tune": np.full(60, 3)}))
    np.savez("alone.npz", **{name: one for name, one in samples.items() if "train" not in name})
    np.savez("nan.npz", **(samples | {"x_test": np.full((60, 6), np.nan, np.float32)}))
    np.savez("noise.npz", **(samples | {"y_train": rng.integers(0, 3, 60)}))
    np.savez("objects.npz", **(samples | {"x_tune": np.array([{}], object)}))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Dropout(), nn.Linear(8, 3))
    torch.save(module.state_dict(), "mine.pt")
    torch.save(nn.Linear(2, 2).state_dict(), "other.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "mine.pt").read_bytes()[:400])
    nn.init.constant_(module[2].bias, float("nan"))
    torch.save(module.state_dict(), "nan.pt")
    (tmp_path / "code.pt").write_bytes(pickle.dumps(Harmful()))


class Harmful:
    """Writes a file if unpickled."""

    def __reduce__(self):
        return (open, ("harm", "w"))


@pytest.mark.parametrize("engine", ["golden", "float"])
def test_tune_reports_saves_and_repeats(fabtune, tmp_path, engine):
    reports = []
    for name in ("one", "two"):
        status, out, _ = fabtune("tune", "--engine", engine, "--epochs", "12", "-o", f"{name}.safetensors", "--json")
        assert status == 0
        reports.append(json.loads(out))
    report = reports[0]
    assert report["accuracy_before"] < 0.6
    assert report["accuracy_after"] > 0.88
    assert report["cache_bytes"] == 500 * 125
    assert report["saturations"] == 0
    assert report["trained_parameters"] == 1016
    assert report["accuracy_after"] == reports[1]["accuracy_after"]
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    tensors, metadata = load_saved(tmp_path / "one.safetensors")
    assert tensors["0.lora_a"].shape == (4, 64)  # layers on the sample, 128 and 32 values
    assert tensors["6.lora_b"].shape == (10, 4)
    whole = [np.array_equal(4096 * one, np.rint(4096 * one)) for one in tensors.values()]
    assert all(whole) == (engine == "golden")
    assert {one.dtype.name for one in tensors.values()} == {"float32"}
    assert metadata["format"] == ("Q4.12" if engine == "golden" else "float32")
    assert (metadata["scale"], metadata["input"], metadata["model"]) == ("1.0", "1x8x8", "digits")
    assert report["total_seconds"] >= report["seconds"]


@pytest.mark.parametrize("engine", ["golden", "float"])
def test_it_stops_at_a_loss(fabtune, engine):
    asked = ["tune", "--engine", engine, "--json", "--force"]
    reports = [json.loads(fabtune(*asked, *more)[1]) for more in (("--epochs", "5"), ("--stop-at", "0.8"))]
    assert reports[0]["epochs"] == 5
    assert 1 < reports[1]["epochs"] < 5
    assert json.loads(fabtune(*asked, "--epochs", "5", "--stop-at", "0")[1]) == reports[0] | {
        "seconds": ANY,
        "total_seconds": ANY,
        "adapters": ANY,
    }
    assert json.loads(fabtune(*asked, "--stop-at", "100")[1])["epochs"] == 1


@pytest.mark.parametrize("engine", ["golden", "float"])
def test_it_validates(fabtune, engine):
    asked = ["tune", "--engine", engine, "--json", "--force", "--epochs", "12"]
    plain, validated = (json.loads(fabtune(*asked, *more)[1]) for more in ((), ("--validate", "0.2")))
    assert plain["validation_loss"] == plain["validation_accuracy"] == []
    loss, right = validated["validation_loss"], validated["validation_accuracy"]
    assert len(loss) == len(right) == validated["epochs"] == 12
    assert loss[0] > 2 * loss[-1]
    assert right[0] < right[-1]
    # of 100 samples
    assert all(100 * one == pytest.approx(round(100 * one)) for one in right)
    # first epoch without a new minimum
    rise = next(at for at in range(1, 12) if loss[at] >= min(loss[:at]))
    stopped = json.loads(fabtune(*asked, "--validate", "0.2", "--patience", "1", "-o", "best.safetensors")[1])
    assert stopped["validation_loss"] == loss[: rise + 1]
    # keeps the best epoch, as a run of this length
    assert stopped["kept_epoch"] == rise < stopped["epochs"]
    shorter = json.loads(fabtune(*asked[:5], "--epochs", rise, "--validate", "0.2", "-o", "short.safetensors")[1])
    assert (shorter["kept_epoch"], shorter["epochs"]) == (rise, rise)
    assert stopped["accuracy_after"] == shorter["accuracy_after"]
    best, short = (load_saved(Path(f"{name}.safetensors"))[0] for name in ("best", "short"))
    assert all(np.array_equal(one, short[name]) for name, one in best.items())
    limit = (loss[2] + loss[3]) / 2
    stopped = json.loads(fabtune(*asked, "--validate", "0.2", "--stop-at", str(limit))[1])
    assert stopped["validation_loss"] == loss[: next(at for at in range(12) if loss[at] <= limit) + 1]
    assert "validation: loss" in fabtune(*asked[:3], "--force", "--epochs", "2", "--validate", "0.2")[1]


def test_a_users_network_weights_and_samples(fabtune, tmp_path):
    mine = ("--model", "mine.py:build", "--data", "npz:mine.npz", "--json")
    status, out, _ = fabtune("tune", *mine, "--pretrain", "--epochs", "80", "--rate", "0.2", "--plot", "curve.png")
    assert status == 0
    report = json.loads(out)
    assert report["accuracy_after"] > report["accuracy_before"]
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert report["adapters"] == "build/runs/tune-0001/npz-instantft.safetensors"
    status, out, _ = fabtune("tune", *mine, "--weights", "mine.pt", "--method", "ft-all", "--engine", "float")
    assert status == 0
    report = json.loads(out)
    assert report["trained_parameters"] == 6 * 8 + 8 + 8 * 3 + 3
    assert report["adapters"] == "build/runs/tune-0002/npz-ft-all.safetensors"
    assert (tmp_path / "build/runs/latest/npz-ft-all.safetensors").is_file()


def before(fabtune, *arguments):
    """Report of a minimal fine-tuning: its start."""
    asked = ("--method", "skip2-lora", "--engine", "float", "--epochs", 1, "--rate", "1e-30", "--data", "npz:mine.npz")
    status, out, err = fabtune("tune", *asked, *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def test_weights_of_a_users_function_are_used(fabtune, tmp_path, monkeypatch):
    """Unchanged, and with ``--pretrain`` as initial weights."""
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "cache"))
    given = before(fabtune, "--model", "mine.py:build", "--weights", "mine.pt")
    built = before(fabtune, "--model", "mine.py:loaded")
    assert given["accuracy_before"] == built["accuracy_before"]
    assert (given["start"], built["start"]) == ("mine.pt", "mine.py:loaded")
    assert (given["pretrained"], given["pretrain_epochs"], given["pretrain_accuracy"]) == (False, None, None)
    assert not (tmp_path / "cache").exists()
    slow = ("--pretrain", "--pretrain-epochs", 1, "--pretrain-rate", "1e-30", "--seed", 1)
    for own in (("mine.py:loaded",), ("mine.py:build", "--weights", "mine.pt")):
        trained = before(fabtune, "--model", *own, *slow)
        assert (trained["pretrained"], trained["pretrain_epochs"]) == (True, 1)
        tensors, _ = load_saved(Path(trained["start"]))
        assert np.array_equal(tensors["2.weight"], torch.load("mine.pt")["2.weight"].numpy())


def test_pretraining_is_said(fabtune):
    """Duration and accuracy, also from the cache; and a failure at chance level."""
    mine = ("tune", "--model", "mine.py:build", "--data", "npz:mine.npz", "--epochs", 1, "--pretrain")
    for _ in range(2):
        status, out, err = fabtune(*mine, "--pretrain-epochs", 20, "--json", "--force")
        report = json.loads(out)
        assert (status, report["pretrained"], report["pretrain_epochs"]) == (0, True, 20)
        assert report["pretrain_accuracy"] > 0.9
        assert "at chance" not in err
    noise = [one.replace("mine.npz", "noise.npz") for one in map(str, mine)]
    _, out, err = fabtune(*noise, "--pretrain-epochs", 1, "--pretrain-rate", "1e-30")
    assert "pre-trained for 1 epochs, " in out
    assert "fabtune: warning: pre-training ended at chance: " in err
    assert err.count("warning") == 1


def test_weights_that_guess_are_told(fabtune):
    mine = ("tune", "--model", "mine.py:build", "--data", "npz:mine.npz", "--epochs", 1)
    _, out, err = fabtune(*mine)
    assert "weights of mine.py:build, as they are" in out
    assert "fabtune: warning: mine.py:build is taken as it is, and " in err
    assert "--weights, or --pretrain" in err


def test_drawn_weights_are_those_of_the_seed(fabtune):
    torch.manual_seed(3)  # earlier random draws are irrelevant
    mine = ("--model", "mine.py:build", "--pretrain", "--pretrain-epochs", 1)
    one = before(fabtune, *mine)
    assert before(fabtune, *mine)["start"] == one["start"]
    assert before(fabtune, *mine, "--seed", 1)["start"] != one["start"]


def test_nothing_is_written_beside_a_users_model(fabtune, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "mine.py").rename(tmp_path / "models" / "mine.py")
    for folder in (tmp_path / "models", "models"):
        before(fabtune, "--model", f"{folder}/mine.py:build")
    assert [one.name for one in (tmp_path / "models").iterdir()] == ["mine.py"]


def test_what_is_there_is_kept(fabtune, tmp_path):
    (tmp_path / "a.safetensors").write_text("precious")
    for option in ("--output", "--plot"):
        status, _, err = fabtune("tune", *SHORT, option, "a.safetensors")
        assert status == 2
        assert "a.safetensors exists" in err
    assert (tmp_path / "a.safetensors").read_text() == "precious"
    assert fabtune("tune", *SHORT, "--output", "a.safetensors", "--force")[0] == 0


def test_outputs_that_cannot_be_written_are_told_before_the_work(refused, tmp_path):
    message = "label.npz is a file, not a folder"
    assert message in refused("tune -o label.npz/below/a.safetensors")
    assert message in refused("tune -o a.safetensors --plot label.npz/a.png")
    assert "a.png is named for two outputs" in refused("tune -o a.png --plot a.png")
    assert "a.d is named for two outputs" in refused("tune --method pezo-otf -o a.d --delta ./a.d")
    (tmp_path / "build").write_text("")
    assert "build is a file, not a folder" in refused("tune")


MISTAKES = {
    "tune --method lora": "no method 'lora'; there are: ft-all, ft-last",
    "tune --method lora-all": "changes more than the last layer",
    "tune --engine verilog": "no engine 'verilog'",
    "tune --rate 0": "rate = 0.0: a learning rate is above 0",
    "tune --rate 50": "has no integer: take 1.91e-05 to 2.5",
    "tune --rank 65": "rank = 65",
    "tune --seed 99999999999999999999999": "99999999999999999999999 is not in the range 0<=x<=18446744073709551615",
    "tune --epochs 1000000000000": "'--epochs': 1000000000000 is not in the range 1<=x<=10000",
    "tune --pretrain-epochs 1000000000000": "'--pretrain-epochs': 1000000000000 is not in the range",
    "tune --core bogus": "there is no core 'bogus'; there are: instantft tiny, small, fast, chip, wide; zotrain tiny, ",
    "tune --engine rtl --core large": "there is no core 'large'; there are: tiny, small, fast, chip, wide",
    "tune --engine rtl --core chip --method skip2-lora": "the core chip keeps its cache in NF4, and skip2-lora caches "
    "Q8.16: take --method instantft, or --core tiny, small, fast",
    "tune --schedule exponential": "no schedule 'exponential'; there are: constant, linear, cosine, step:EPOCHS",
    "tune --schedule step:0": "give step:EPOCHS:FACTOR, 1 epoch or more",
    "tune --method pezo-otf --schedule cosine": "--schedule has no meaning with --method pezo-otf",
    "tune --stop-at -1": "stop_at = -1.0: a loss is 0 or more",
    "tune --stop-at nan": "stop_at = nan: a loss is 0 or more",
    "tune --validate 1": "validate = 1.0: a share of the samples is 0 to less than 1",
    "tune --validate 0.0009": "validate = 0.0009: 0 of 500 samples; give a share of 1 to all but 1",
    "tune --patience -1": "-1 is not in the range x>=0",
    "tune --method pezo-otf --validate 0.1": "--validate has no meaning with --method pezo-otf",
    "tune --pretrain-rate nan": "pre-training rate = nan",
    "tune --steps 3": "--steps has no meaning with --method instantft",
    "tune --generator otf8": "--generator has no meaning with --method instantft",
    "tune --mask generic": "--mask has no meaning with --method instantft",
    "tune --method ft-all --engine float --rank 4": "--rank has no meaning with --method ft-all",
    "tune --core fast": "--core has no meaning with --engine golden",
    "tune --weights mine.pt --pretrain-epochs 3": "--pretrain-epochs has no meaning with --weights",
    "tune --engine float --stochastic": "floats are not rounded",
    "tune --data nosuch": "there is no task 'nosuch'",
    "tune --data imdb --shots 2 --method mezo": "there is no task 'imdb'; there are: digits, mnist, ",
    "tune --data sst-2": "sst-2 is a task of text, which zeroth order tunes: --method pezo-otf or mezo",
    "tune --data mnist": "--data-dir",
    "tune --data har --data-dir .": "har.npz",
    "tune --data npz:gone.npz --network fan": "gone.npz",
    "tune --data npz:mine.npz": "name one with --network or --model",
    "tune --data npz:mine.npz --network fan": "fan takes samples of (256,), npz:mine.npz has (6,)",
    "tune --data npz:label.npz --model mine.py:build": "label 3 of sample 0 is outside 0 to 2",
    "tune --data npz:nan.npz --model mine.py:build": "NaN",
    "tune --data npz:objects.npz --model mine.py:build": "objects.npz",
    "tune --drift spin": "there is no drift 'spin'",
    "tune --drift rotate:x": "rotate:x",
    "tune --data npz:mine.npz --model mine.py:build --drift rotate:90": "is for images",
    "tune --network lenet6": "there is no network 'lenet6'",
    "tune --network fan": "fan takes samples of (256,), digits has (1, 8, 8)",
    "tune --network fan --model mine.py:build": "not both",
    "tune --data npz:mine.npz --model mine.py:sigmoid": "mine.py:sigmoid, layer 1: aten.sigmoid has no hardware",
    "tune --data npz:mine.npz --model mine.py:small": "outside 0 to 1",
    "tune --data npz:wide.npz --model mine.py:repeating": "autoencoders are tuned from Python, with loss=mse",
    "tune --method pezo-otf --data npz:wide.npz --model mine.py:repeating": "as many outputs as inputs, 300",
    "tune --data npz:mine.npz --model mine.py:broken": "on purpose, in two lines",
    "tune --data npz:mine.npz --model mine.py:other": "not a torch.nn.Module",
    "tune --data npz:mine.npz --model mine.py:gone": "gone",
    "tune --data npz:mine.npz --model mine.py:nan": "mine.py:nan: 0.1.running_mean has NaN or infinity",
    "tune --data npz:mine.npz --model mine.py:infinite": "mine.py:infinite: 2.weight has NaN or infinity",
    "tune --data npz:mine.npz --model mine.py:nan --pretrain": "mine.py:nan: 0.1.running_mean has NaN or infinity",
    "tune --data npz:mine.npz --model mine.py:frozen --pretrain": "no parameter of mine.py:frozen requires gradients",
    "tune --as-built": "--as-built is what happens now: leave it out",
    "tune --data npz:mine.npz --model mine.py:build --pretrain-epochs 3": "--pretrain-epochs has no meaning with"
    " --model and without --pretrain: leave it out",
    "tune --data npz:alone.npz --model mine.py:build --pretrain": "no samples to pre-train on: leave out --pretrain",
    "tune --method mezo --data csv:. --pretrain": "--pretrain belongs to a network of layers",
    "tune --method mezo --data csv:. --scale 2": "--scale belongs to a network of layers",
    "tune --scale 2": "digits: a scale has no meaning with bytes, whose value is byte / 255: leave it out",
    "tune --data npz:mine.npz --model mine.py:build --scale 0": "scale = 0: samples are multiplied by a factor above 0",
    "tune --data npz:mine.npz --model gone.py:build": "gone.py",
    "tune --data npz:mine.npz --model mine.py": "mine.py",
    "tune --data npz:mine.npz --model mine.py:build --weights other.pt": "other.pt",
    "tune --data npz:mine.npz --model mine.py:build --weights cut.pt": "cut.pt",
    "tune --data npz:mine.npz --model mine.py:build --weights nan.pt": "2.bias has NaN",
    "tune --data npz:mine.npz --model mine.py:build --weights code.pt": "code.pt",
    "tune --data npz:mine.npz --model mine.py:build --weights gone.pt": "gone.pt",
    "tune --plot curve.bmp": "a plot ends in .png, .svg, .pdf",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)


OWN = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("skip2-lora", ()),
        ("skip-lora", ()),
        ("lora-last", ()),
        ("ft-last", ("--schedule", "cosine", "--stop-at", "0", "--validate", "0.2")),
    ],
)
def test_own_network_in_rtl(fabtune, tmp_path, method, more):
    (tmp_path / "mine.py").write_text(OWN)
    asked = [
        "--model",
        "mine.py:build",
        "--epochs",
        "2",
        "--pretrain",
        "--pretrain-epochs",
        "5",
        "--method",
        method,
        *more,
        "--json",
    ]
    status, out, err = fabtune("tune", "--engine", "rtl", "--core", "tiny", *asked)
    assert status == 0, err
    found = json.loads(out)
    assert found["bit_exact"]
    assert (found["mismatches"], found["batches_compared"], found["logits_compared"]) == (0, 50, 200)
    assert 0 < found["cycles"] < 300_000
    _, out, _ = fabtune("tune", *asked, "--force")
    expected = json.loads(out)
    for name in ("accuracy_before", "accuracy_after", "saturations", "trained_parameters"):
        assert found[name] == expected[name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--engine rtl --method lora-all",
            "LoRA-All changes more than the last layer, which the integer engine cannot",
        ),
        ("--engine rtl --method skip-lora --core chip", "NF4, and skip-lora has no cache: take --method instantft, or"),
        ("--engine rtl --rank 9", "rank = 9 is more than 8: a class's part of B is one beat"),
        ("--engine verilog", "there is no engine 'verilog'; there are: float, golden, rtl"),
    ],
)
def test_what_the_core_does_not_do_is_refused(refused, options, message):
    assert message in refused(f"tune {options}")


@pytest.mark.parametrize("method", ["instantft", "pezo-otf"])
def test_a_missing_compiler_is_told_before_the_work(refused, monkeypatch, method):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert "g++ and make: apt install" in refused(f"tune --method {method} --engine rtl --core tiny")


def test_what_does_not_fit_the_formats_is_told_before_the_work(fabtune, tmp_path):
    """A warning with a fitting scale, given instead of a lower rate if the run diverges."""
    with np.load("mine.npz") as file:
        np.savez("large.npz", **{name: 300 * one if name[0] == "x" else one for name, one in file.items()})
    mine = ("tune", "--model", "mine.py:build", "--data", "npz:large.npz", "--epochs", 1)
    status, out, err = fabtune(*mine, "--json")
    assert status == 0
    (advice,) = json.loads(out)["advice"]
    assert "values of the samples are outside Q8.16, -128 to 128" in advice
    assert f"fabtune: warning: {advice}\n" in err
    factor = advice.partition("--scale ")[2].split()[0]
    status, out, err = fabtune(*mine, "--scale", factor, "--json")
    report = json.loads(out)
    assert (report["advice"], "outside" in err) == ([], False)
    assert load_saved(Path(report["adapters"]))[1]["scale"] == repr(float(factor))
    status, _, err = fabtune(*mine, "--engine", "float", "--method", "ft-all", "--rate", "1e4")
    assert status == 2
    assert "diverged in epoch 1" in err
    assert err.endswith(f"scale the samples, as --scale {factor} does, and train the network on samples scaled alike\n")
