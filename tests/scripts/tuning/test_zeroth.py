"""`fabtune tune` with zeroth order, from a user's view."""

import json

import numpy as np
import pytest
import torch

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.importers.user_module import user_module
from fabtune.golden.models.checkpoint import load_saved
from fabtune.sim.compiled.device import SimulatedDevice

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
    assert report["loss_last"] < report["loss_first"]
    assert (report["engine"], report["generator"]) == (engine, generator)
    assert (report["directions"] is None) == (method == "mezo")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    tensors, metadata = load_saved(tmp_path / report["weights"])
    assert sum(one.size for one in tensors.values()) == report["trained_parameters"] == 4538
    assert metadata["generator"] == generator


@pytest.mark.parametrize(
    ("method", "split", "cycles"),
    [
        ("pezo-otf", (), 400_000),
        ("pezo-otf", ("--cut", 1, "--p1", 2, "--p2", 3), 800_000),
        pytest.param("pezo-pool", (), 400_000, marks=pytest.mark.slow),
    ],
)
def test_digits_in_rtl(fabtune, tmp_path, method, split, cycles):
    asked = ("--method", method, "--core", "tiny", "--steps", 12, "--batch", 8, *split, "--json")
    status, out, err = fabtune("tune", *asked, "--engine", "rtl", "--delta", "rtl.safetensors")
    assert status == 0, err
    found = json.loads(out)
    assert found["bit_exact"]
    assert (found["mismatches"], found["steps_compared"], found["logits_compared"]) == (0, 12, 200)
    assert found["cycles_per_step"] == round(found["cycles"] / 12)
    assert 0 < found["cycles"] < found["simulated_cycles"] < cycles
    _, out, _ = fabtune("tune", *asked, "--delta", "golden.safetensors")
    expected = json.loads(out)
    assert (found["engine"], expected["engine"]) == ("rtl", "golden")
    for name in ("accuracy_before", "accuracy_after", "loss_last", "saturations", "trained_parameters", "array"):
        assert found[name] == expected[name], name
    assert (tmp_path / "rtl.safetensors").read_bytes() == (tmp_path / "golden.safetensors").read_bytes()
    tuned = [load_saved(tmp_path / one["weights"])[0] for one in (found, expected)]
    assert all(np.array_equal(tuned[0][name], tuned[1][name]) for name in tuned[1])


def test_a_core_that_differs_is_told(fabtune, monkeypatch):
    write, eps_shift = SimulatedDevice.write, ZotrainSpec().registers.map["eps_shift"].offset
    monkeypatch.setattr(
        SimulatedDevice, "write", lambda self, offset, value: write(self, offset, value + (offset == eps_shift))
    )
    asked = ("--method", "pezo-otf", "--core", "tiny", "--steps", 2, "--engine", "rtl")
    status, out, _ = fabtune("tune", *asked)
    assert status == 1
    assert "2 steps and 200 outputs compared with the integers, 5 mismatches" in out


def test_a_network_with_batch_norm_and_samples_in_words(fabtune, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    samples = (np.array([1.0, -1.0, 0.2])[labels, None] + rng.normal(0, 0.3, (60, 6))).astype(np.float32)
    np.savez("mine.npz", **{f"{what}_{part}": one for part in ("train", "tune", "test")
                            for what, one in (("x", samples), ("y", labels))})  # fmt: skip
    (tmp_path / "mine.py").write_text(OWN)
    mine = ("tune", "--method", "pezo-otf", "--model", "mine.py:build", "--data", "npz:mine.npz", "--steps", 30)
    status, out, err = fabtune(*mine, "--json")
    assert status == 0, err
    report = json.loads(out)
    assert (report["engine"], report["array"], report["trained_parameters"]) == ("golden", "32 x 4", 83)
    tuned = load_saved(tmp_path / report["weights"])[0]
    norm = {f"1.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}
    assert set(tuned) == {"0.weight", "0.bias", "3.weight", "3.bias"} | norm
    # same result from base and delta
    assert fabtune(*mine, "--delta", "d.safetensors")[0] == 0
    torch.save(base_of(tmp_path), "base.pt")
    status, _, err = fabtune("delta", "apply", "d.safetensors", "--weights", "base.pt", "-o", "again.safetensors")
    assert status == 0, err
    again = load_saved(tmp_path / "again.safetensors")[0]
    assert all(np.array_equal(one, again[name]) for name, one in tuned.items())


def base_of(folder):
    """Weights from the user's function with seed 0."""
    torch.manual_seed(0)
    return user_module(f"{folder / 'mine.py'}:build").state_dict()


OWN = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
"""


def test_a_transformer_on_a_users_sentences(fabtune, tmp_path, tiny_transformer):
    task = ("--data", f"csv:{tmp_path}", "--model", tiny_transformer, "--shots", 8)
    status, out, _ = fabtune("tune", "--method", "pezo-otf", *task, "--steps", 12, "--rate", "3e-4")
    assert status == 0
    assert "pezo-otf (otf8) on csv:" in out
    assert "after 12 steps" in out
    assert (tmp_path / "build/runs/tune-0001/csv-pezo-otf.safetensors").is_file()


def test_a_transformer_in_integers(fabtune, tmp_path, tiny_transformer):
    """Default settings: output names base, upper layers and cache; a delta restores the run's tensors."""
    task = ("--data", f"csv:{tmp_path}", "--model", tiny_transformer, "--shots", 8, "--steps", 6, "--rate", "3e-3")
    status, out, err = fabtune(
        "tune", "--method", "pezo-otf", *task, "--delta", "d.safetensors", "-o", "all.safetensors"
    )
    assert status == 0, err
    status, out, err = fabtune("tune", "--method", "pezo-otf", *task, "--from-layer", 1)
    assert status == 0, err
    assert "base nf4: matrices up to" in out
    assert "forward cache, exact:" in out
    assert " % of the products of a step from the second epoch on" in out
    options = ("--json", "--force", "--p1", 2)
    status, out, err = fabtune("tune", "--method", "pezo-pool", *task, "--tune", "norms", "--base", "18-bit", *options)
    assert status == 0, err
    report = json.loads(out)
    assert (report["base"], report["engine"], report["forward_work"], report["generator"]) == (
        "18-bit",
        "golden",
        1,
        "pool",
    )
    assert report["trained_parameters"] == 2 * (6 * 16 + 32 + 16 + 2 * 2 * 16 - 32) + 2 * 16 + 2
    assert max(report["errors"].values()) < 1e-3
    assert report["loss_base"] == pytest.approx(report["loss_float"], abs=1e-3)
    delta = ("delta", "apply", "d.safetensors")
    assert fabtune(*delta, "--model", tiny_transformer, "-o", "tuned.safetensors")[0] == 0
    again, tuned = (load_saved(tmp_path / name)[0] for name in ("tuned.safetensors", "all.safetensors"))
    assert all(np.array_equal(again[name], tuned[name]) for name in tuned)
    assert len(again) > len(tuned)
    assert "fabtune: give --weights FILE, or for a transformer --model" in fabtune(*delta, "-o", "b.safetensors")[2]


def test_label_words_of_a_decoder(fabtune, tmp_path, tiny_decoder):
    """Language model head with label words, unless prompts are requested; a delta restores the run's tensors."""
    (tmp_path / "label-words.txt").write_text("{0} It was\n bad\n great\n")
    task = ("--data", f"csv:{tmp_path}", "--model", tiny_decoder, "--shots", 8, "--steps", 4, "--json", "--force")
    status, out, err = fabtune("tune", "--method", "pezo-otf", *task, "--delta", "d.safetensors")
    assert status == 0, err
    found = json.loads(out)
    body = 2 * (4 * 16 * 16 + 3 * 16 * 32 + 2 * 16) + 16
    assert found["trained_parameters"] == body + 2 * 16  # two rows of the head, without biases
    assert fabtune("delta", "apply", "d.safetensors", "--model", tiny_decoder, "-o", "tuned.safetensors")[0] == 0
    again, tuned = load_saved(tmp_path / "tuned.safetensors")[0], load_saved(tmp_path / found["weights"])[0]
    assert all(np.array_equal(again[name], tuned[name]) for name in tuned)
    assert "label_words.weight" in tuned
    status, out, err = fabtune("tune", "--method", "pezo-otf", *task, "--prompt", "sentences")
    assert status == 0, err
    assert json.loads(out)["trained_parameters"] == body + 2 * 16 + 2


def test_label_words_that_do_not_apply(refused, tmp_path, tiny_decoder, tiny_transformer):
    command = "tune --method pezo-otf --data csv:. --prompt label-words --model"
    assert "has no label words: write a file label-words.txt" in refused(f"{command} {tiny_decoder}")
    (tmp_path / "label-words.txt").write_text("{0} It was\n bad\n great\n")
    assert "is no decoder: a head for masked words is not computed" in refused(f"{command} {tiny_transformer}")
    assert "chooses weights by a classifier's gradients" in refused(command.replace("pezo-otf", "sparse-zo") + " .")
    # decoders default to label words; sensitive weights therefore request prompts explicitly
    command = command.replace("pezo-otf", "sparse-zo").replace("--prompt label-words ", "")
    assert "takes no label words: give --prompt sentences" in refused(f"{command} {tiny_decoder}")


def test_sensitive_weights_in_integers(fabtune, tmp_path, tiny_transformer):
    task = ("--data", "sst-2", "--data-dir", "data", "--model", tiny_transformer, "--fraction", "0.01", "--steps", 3)
    status, out, err = fabtune("tune", "--method", "sparse-zo", *task, "--delta", "d.safetensors", "--json")
    assert status == 0, err
    assert json.loads(out)["trained_parameters"] == 2 * (4 * round(0.01 * 256) + 2 * round(0.01 * 512))
    assert json.loads(fabtune("delta", "show", "d.safetensors", "--json")[1])["parameters"] == 2 * (4 * 3 + 2 * 5)


def test_sensitive_weights(fabtune, tmp_path, tiny_transformer):
    task = (
        "--data",
        "sst-2",
        "--data-dir",
        "data",
        "--model",
        tiny_transformer,
        "--precision",
        "bfloat16",
        "--engine",
        "float",
    )
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
    "tune --method mezo --seed 99999999999999999999999": "'--seed': 99999999999999999999999 is not in the range",
    "tune --method pezo-otf --steps 1000000000": "'--steps': 1000000000 is not in the range 1<=x<=1000000",
    "tune --method mezo --queries 1000000000": "'--queries': 1000000000 is not in the range 1<=x<=65536",
    "tune --method mezo --rate 0": "rate = 0.0: a learning rate is above 0",
    "tune --method mezo --eps 0": "eps = 0.0",
    "tune --method mezo --engine golden": "take one of pool, otf8, otf14",
    "tune --method mezo --engine rtl": "gaussian numbers are floats",
    "tune --method sparse-zo --engine rtl": "--engine rtl tunes all parameters",
    "tune --method pezo-otf --cut 3 --core tiny": "cut = 3: digits of 3 stages is cut at 0 to 2",
    "tune --method pezo-otf --p2 2 --core tiny": "P2 = 2 without a second part: give a cut, or P1 alone",
    "tune --method pezo-otf --cut 1 --p1 17 --core tiny": "P1 = 17 is not in 1 to 16",
    "tune --method pezo-otf --cut 1 --batch 21 --core tiny": "1280 keep outputs of 20 samples, a batch of 21",
    "tune --method mezo --cut 1": "--cut belongs to integers of all parameters",
    "tune --method pezo-otf --core large": "fold = true: digits is too small to fold: its parameters are 77 words",
    "tune --method pezo-otf --engine verilog": "there is no engine 'verilog'; there are: float, golden, rtl",
    "tune --method pezo-otf --data csv:. --core chip": "there is no core 'chip'; there are: tiny, small, fast",
    "tune --method pezo-otf --engine float --core tiny": "--core belongs to integers of all parameters",
    "tune --method mezo --core tiny": "--core belongs to integers of all parameters",
    "tune --method pezo-otf --core chip": "there is no core 'chip'; there are: tiny, small, fast, large",
    "tune --method pezo-otf --queries 2": "queries = 2: a core counts perturbations of a step with --p1 and --p2",
    "tune --method pezo-otf --eps 0.001": "eps = 0.001: a core's is a power of two",
    "tune --method pezo-otf --batch 300": "batch = 300: a core's step has at most 256 samples",
    "tune --method pezo-otf --set scale.urng.n=7": "a generator of 7 numbers a cycle",
    "tune --method pezo-pool --set pool.p=8": "a generator of 8 numbers a cycle",
    "tune --method pezo-otf --set replay=false": "generator.replay = false",
    "tune --method mezo --generator dice": "there is no generator 'dice'",
    "tune --method pezo-otf --set scale.urng.n=0": "n = 0",
    "tune --method pezo-otf --rank 4": "--rank has no meaning with --method pezo-otf",
    "tune --method pezo-otf --fraction 0.1": "--fraction has no meaning with --method pezo-otf",
    "tune --method sparse-zo --data csv:. --mask task --generic a.txt": "--generic has no meaning with --mask task",
    "tune --method mezo --shots 16": "--shots belongs to a text task",
    "tune --method mezo --shots 3": "--shots belongs to a text task",
    "tune --method pezo-otf --base nf4": "--base belongs to a text task",
    "tune --method pezo-otf --data csv:. --precision bfloat16": "--precision belongs to --engine float",
    "tune --method pezo-otf --data csv:. --engine float --base nf4": "--base belongs to integers: --method pezo-otf",
    "tune --method mezo --data csv:. --from-layer 1": "--from-layer belongs to integers",
    "tune --method sparse-zo --data csv:. --tune norms": "--tune chooses tensors, and --method sparse-zo the weights",
    "tune --method pezo-otf --data csv:. --cache nf4": "--cache keeps what is below the first layer that is tuned",
    "tune --method pezo-otf --data csv:. --from-layer 0 --cache nf4": "--cache keeps what is below",
    "tune --method pezo-otf --data csv:. --base int8": "base = 'int8' is not one of nf4, 18-bit",
    "tune --method pezo-otf --data csv:. --prompt words": "--prompt words is not one of label-words, sentences",
    "tune --method mezo --data csv:. --prompt label-words": "--prompt belongs to integers",
    "tune --method mezo --data csv:. --model a.gguf": "--model a.gguf is read in integers: --method pezo-otf",
    "tune --method sparse-zo --data csv:. --model a.gguf": "--model a.gguf is read in integers",
    "tune --method pezo-otf --data csv:. --model a.gguf": "a.gguf is missing",
    "tune --method pezo-otf --prompt sentences": "--prompt belongs to a text task",
    "tune --method pezo-otf --data csv:. --tune biases": "--tune biases is not one of all, norms",
    "tune --method pezo-otf --data csv:. --eps 0.0078125": "eps = 0.0078125: a transformer's slope",
    "tune --method pezo-otf --data csv:. --p2 2": "P2 = 2 without a second part",
    "tune --method pezo-otf --data csv:. --queries 2": "queries = 2: a core counts perturbations of a step with --p1",
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            "--method mezo --rate 10",
            "fine-tuning diverged in step 2 of 20: the loss is 2.606e+08; lower the rate 10 or ",
        ),
        ("--method mezo --rate 1e30", "fine-tuning diverged in step 2 of 20: the loss is nan and nan"),
        ("--method mezo --eps 1e30", "fine-tuning diverged in step 1 of 20: the loss is nan and nan"),
        ("--method pezo-otf --engine float --rate 1e5", "fine-tuning diverged in step 2 of 20: the loss is"),
        ("--method sparse-zo --mask random --rate 1e9", "fine-tuning diverged in step 1 of 20: moving by"),
        ("--method instantft --engine float --rate 1e6", "fine-tuning diverged in epoch 1: the loss is nan; lower the"),
        ("--method skip2-lora --engine float --rate 1e30", "fine-tuning diverged in epoch 1: the loss is nan"),
        ("--method ft-all --engine float --rate 100", "fine-tuning diverged in epoch 1: the loss is 2.15"),
        ("--pretrain-rate 1e10", "pre-training diverged in epoch 1: the loss is nan; lower the rate 1"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_that_diverges_is_one_line_and_leaves_nothing(refused, options, line, as_json):
    length = "--epochs 3" if "-zo" not in options and "ezo" not in options else "--steps 20"
    asked = f"tune {options} {length} -o tuned.safetensors --plot a.png" + " --json" * as_json
    assert line in refused(asked)


@pytest.mark.parametrize("options", ["--method pezo-otf --steps 20 --rate 1", "--epochs 3 --rate 2"])
def test_integers_that_diverge_come_with_a_warning(fabtune, options):
    """Saturating integers: the run ends normally with a result."""
    status, out, err = fabtune("tune", *options.split(), "--json")
    assert status == 0
    warning = json.loads(out)["warning"]
    assert warning.startswith("fine-tuning spoilt the network: 45.7% right before and ")
    assert "where guessing has 2.3: lower --rate " in warning
    assert err.splitlines()[-1] == f"fabtune: warning: {warning}"


def test_a_run_that_learns_has_no_warning(fabtune):
    status, out, err = fabtune("tune", "--method", "pezo-otf", "--steps", 100, "--json")
    assert status == 0
    assert json.loads(out)["warning"] is None
    assert "warning" not in err
