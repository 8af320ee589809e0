"""`fabtune federate` and `fabtune table fedspzo`, from a user's view."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest

from fabtune.scripts.tables import table_of
from fabtune.scripts.tables.options import Options

FIGURES = {"upload_bytes", "forward_flops", "accuracy_before", "accuracy_after", "loss_before", "loss_after"}
MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Dropout(), nn.Linear(8, 3))
"""


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_federate_reports_and_repeats(fabtune, tmp_path, times):
    reports = []
    for _ in range(times):
        status, out, _ = fabtune("federate", "--json", "--mishaps", "--plot", "curves.png", "--force")
        assert status == 0
        reports.append(json.loads(out))
    report = reports[0]
    assert report == reports[-1]
    assert report["bit_identical"] is True
    assert report["upload_bytes"] == 5 * 2 * 240
    assert len(report["refused"]) == 5
    assert len(report["missing"]) == 1
    assert report["accuracy_after"] > report["accuracy_before"] + 0.2
    assert report["memory_over_mezo_percent"] <= 0.5
    for one in (report, *report["baselines"].values()):
        assert set(one) >= FIGURES
        assert one["accuracy_before"] == pytest.approx(report["accuracy_before"], abs=0.01)
    assert set(report["baselines"]) == {"FedZO", "FedAvg"}
    assert report["baselines"]["FedAvg"]["upload_bytes"] == 5 * 2 * 4 * 4538
    plain = report["baselines"]["FedZO"]
    assert plain["forward_flops"] == pytest.approx(report["forward_flops"], rel=0.03)
    assert report["loss_after"] < plain["loss_after"]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_federate_prints_a_sheet(fabtune):
    status, out, err = fabtune("federate", "--alone", "--rounds", "1", "--clients", "4", "--steps", "2")
    assert status == 0
    assert "equal in every bit" in out
    assert "FedSPZO, loss" in err


@pytest.mark.parametrize("generator", ["pool", "otf14"])
def test_a_users_network_and_samples(fabtune, tmp_path, generator):
    (tmp_path / "mine.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    samples = {}
    for part in ("train", "tune", "test"):
        labels = rng.integers(0, 3, 60)
        centre = np.array([1.0, -1.0 if part == "train" else 0.5, 0.2])[labels, None]
        samples |= {f"x_{part}": (centre + rng.normal(0, 0.3, (60, 6))).astype(np.float32), f"y_{part}": labels}
    np.savez("mine.npz", **samples)
    mine = ("--model", "mine.py:build", "--data", "npz:mine.npz", "--rate", "0.1", "--generator", generator)
    status, out, _ = fabtune(
        "federate", *mine, "--rounds", "3", "--steps", "4", "--clients", "5", "--fraction", "0.6", "--alone", "--json"
    )
    assert status == 0
    report = json.loads(out)
    assert report["bit_identical"] is True
    assert report["loss_after"] < report["loss_before"]


def test_the_baseline_fits_a_message():
    """On digits the same work needs 1.7 times FedSPZO's steps; a message holds 65,535."""
    from rich.console import Console

    from fabtune.scripts import federate

    request = federate.FederateRequest(
        **dict.fromkeys(field.name for field in dataclasses.fields(federate.FederateRequest))
    )
    options = {"data": "digits", "rounds": 1, "clients": 10, "fraction": 0.2, "batch": 20, "eps": 1e-3}
    options |= {"first": 2, "second": 8, "steps": 60_000, "generator": "otf8", "alpha": 1.0, "scale": 1.0, "seed": 0}
    request = dataclasses.replace(request, **options)
    assert federate.experiment_of(request, Console(quiet=True)).fedzo_config(rate=0.01).steps == 65_535


MISTAKES = {
    "federate --rounds 0": "rounds = 0",
    "federate --clients 501": "500 samples are not enough for 501 clients",
    "federate --fraction 2": "fraction = 2.0",
    "federate --alpha 0": "alpha = 0.0",
    "federate --rate 0": "rate = 0.0: a learning rate is above 0",
    "federate --plain-rate -1": "-1 is no learning rate: --rate, --plain-rate and --fedavg-rate are above 0",
    "federate --fedavg-rate nan": "nan is no learning rate",
    "federate --stage -1": "'--stage': -1 is not in the range x>=0",
    "federate --eps 1e-9": "eps = 1e-09 is below",
    "federate --stage 3": "stage = 3: digits has 3 layers with weights",
    "federate --first 300": "first = 300",
    "federate --second 0": "second = 0",
    "federate --seed 99999999999999999999999": "'--seed': 99999999999999999999999 is not in the range",
    "federate --core bogus": "there is no core 'bogus'; there are: tiny, small, fast, large",
    "federate --core tiny --simulated 11": "--simulated 11: there are 10 clients",
    "federate --simulated 1": "name one with --core",
    "federate --generator none": "there is no generator 'none'",
    "federate --data nosuch": "there is no task 'nosuch'",
    "federate --network fan": "fan takes samples of (256,), digits has (1, 8, 8)",
    "federate --network fan --model mine.py:build": "not both",
    "federate --plot curve.bmp": "a plot ends in .png, .svg, .pdf",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)


def test_a_rate_that_is_too_high_ends_in_one_line(fabtune, tmp_path):
    status, out, err = fabtune("federate", "--rate", "1e9", "--plot", "a.png")
    assert status == 2
    assert out == ""
    assert "lower the rate" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "a.png").exists()


def test_a_plot_that_is_there_is_kept(fabtune, tmp_path):
    (tmp_path / "a.png").write_text("precious")
    status, _, err = fabtune("federate", "--plot", "a.png")
    assert status == 2
    assert "a.png exists" in err
    assert (tmp_path / "a.png").read_text() == "precious"


def test_the_table_stands_beside_the_paper(monkeypatch):
    """One trial, few rounds and one rate in this process; docs/papers.md has the figures."""
    from fabtune.scripts.tables import fedspzo

    case = dataclasses.replace(fedspzo._CASES["digits"], budget=0.1, losses=(2.5, 0.0001), rates=((0.005,),) * 4)
    monkeypatch.setattr(fedspzo, "_CASES", {"digits": case})
    monkeypatch.setattr(fedspzo, "_ROUNDS", 4)
    monkeypatch.setattr(
        fedspzo, "kept_trials", lambda work, arguments, _: {at: work(*a) for at, a in arguments.items()}
    )
    rows = table_of("fedspzo")(Options(seeds=1))["rows"]
    assert len({tuple(row) for row in rows}) == 1
    named = {row["method"]: row for row in rows}
    ours = named["FedSPZO P1 = 2, P2 = 8"]
    assert ours["10^9 to A"] > 0
    assert ours["10^9 to B"] is None
    assert named["FedZO 5 perturbations"]["5-FedZO / this, A"] == 1
    assert ours["upload"] == 240
    assert ours["over MeZO %"] < 0.5
    assert named["FedAvg"]["upload"] == 4 * 4538
    json.dumps(rows, allow_nan=False)


@pytest.mark.skipif("FABTUNE_DATA" not in os.environ, reason="needs the real data: set FABTUNE_DATA")
def test_lenet_cut_behind_its_convolutions_takes_half_the_forward_work():
    """Two seeds, each method at its best rate; docs/papers.md has the complete table."""
    from fabtune.scripts.tables import fedspzo

    target = 0.9
    needed = {}
    for method, rate in (("FedSPZO P1 = 2, P2 = 8", 0.0075), ("FedZO 5 perturbations", 0.0042)):
        runs = [
            fedspzo._trial("lenet5-mnist", method, rate, seed, Path(os.environ["FABTUNE_DATA"])) for seed in range(2)
        ]
        work, losses = (np.mean([run[at] for run in runs], axis=0) for at in (0, 1))
        needed[method] = fedspzo._reached(work, losses, target)
    ours, theirs = needed.values()
    assert 2 * ours <= theirs


def test_operations_to_a_loss():
    from fabtune.scripts.tables.fedspzo import _reached

    work, losses = np.array([0.0, 1.0, 2.0, 3.0]), np.array([3.0, 3.0, 0.0, 0.0])
    # smoothed losses: 3, 2, 1, 0
    assert _reached(work, losses, 1.5) == 1.5
    assert _reached(work, losses, -1) == np.inf


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(sentences, tiny_transformer):
    """Options of a short federation of a tiny transformer on a user's sentences."""
    options = "--data csv:. --shots 10 --rounds 2 --clients 4 --fraction 0.5 --steps 3 --batch 4"
    return ("federate", "--model", tiny_transformer, *options.split())


def test_a_transformer_on_a_users_sentences(fabtune, tmp_path, own):
    rates = ("--rate", 0.01, "--plain-rate", 0.005, "--fedavg-rate", 0.02)
    status, out, _ = fabtune(*own, *rates, "--fault-injection", "--plot", "curves.png", "--json")
    assert status == 0
    report = json.loads(out)
    assert report["bit_identical"] is True
    assert (len(report["refused"]), len(report["missing"])) == (2, 1)
    assert set(report["baselines"]) == {"FedZO", "DeComFL", "FedAvg, LoRA"}
    for one in (report, *report["baselines"].values()):
        assert set(one) >= FIGURES
    assert (report["cut"], report["base"], report["stage"]) == ("head", "nf4", 28)
    assert report["upload_bytes_per_client_round"] == 36 + 3 * 17
    lora = report["baselines"]["FedAvg, LoRA"]
    assert lora["upload_bytes_per_client_round"] == report["lora_upload_bytes"] == 4 * 2 * 2 * 4 * 32
    assert lora["loss_after"] < lora["loss_before"]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


OTHERS = {
    "--cut encoder.layer.1 --base 18-bit": 6_754,
    "--alpha inf --generator pool --first 1": 6_754,
    "--sensitive 0.02 --data-dir data --cut encoder.layer.1 --rate 0.5": 2 * (4 * 5 + 2 * 10),
}


@pytest.mark.parametrize("how", OTHERS)
def test_other_cuts_bases_and_shares(fabtune, own, how):
    status, out, err = fabtune(*own, "--alone", "--rate", "0.01", *how.split(), "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["bit_identical"] is True
    assert report["baselines"] == {}
    assert report["loss_after"] != report["loss_before"]
    assert report["trained_parameters"] == OTHERS[how]


def test_label_words_of_a_decoder(fabtune, tmp_path, own, tiny_transformer, tiny_decoder):
    """Only the label words' rows of the language model head are tuned; LoRA is counted, not run."""
    (tmp_path / "label-words.txt").write_text("{0} It was\n bad\n good\n")
    options = [tiny_decoder if one is tiny_transformer else one for one in own]
    status, out, err = fabtune(*options, "--rate", "0.02", "--plain-rate", "0.01", "--fault-injection", "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["bit_identical"] is True
    assert report["cut"] == "label_words"
    assert set(report["baselines"]) == {"FedZO", "DeComFL"}
    assert all(one["loss_after"] != one["loss_before"] for one in (report, *report["baselines"].values()))
    assert report["lora_upload_bytes"] == 4 * 2 * 2 * 4 * 32


MISTAKES_OF_TEXT = {
    "--network digits": "--network has no meaning with --data csv:.: leave it out",
    "--stage 1": "--stage has no meaning with --data csv:.",
    "--core tiny": "--core has no meaning with --data csv:.",
    "--drift camera": "--drift has no meaning with --data csv:.",
    "--base q4": "--base q4 is not one of nf4, 18-bit",
    "--cut lm_head": "no operation of that name; it can be cut before",
    "--cut encoder.layer.1.output.dense": "is no place for a cut (23)",
    "--cut embeddings.position_embeddings": "cut = 0",
    "--eps 0.001": "eps = 0.001: a core's is a power of two",
    "--eps 0.0078125": "a transformer's slope is true up to 0.00390625",
    "--first 17": "P1 = 17 is not in 1 to 16",
    "--second 33": "P2 = 33 is not in 1 to 16",
    "--generator gaussian": "are floats",
    "--rate 0": "rate = 0.0: a learning rate is above 0",
    "--model nowhere": "nowhere",
    "--prompt words": "--prompt words is not one of label-words, sentences",
    "--prompt label-words": "has no label words: write a file label-words.txt",
    "--sensitive 0.1 --model a.gguf": "--sensitive chooses weights by a classifier's gradients",
    "--sensitive 0.1": "--sensitive needs generic text",
    "--sensitive 2": "2",
    "--generic x.txt": "--generic has no meaning with all weights tuned",
    "--clients 21": "20 samples are not enough for 21 clients",
}


@pytest.mark.parametrize("mistake", MISTAKES_OF_TEXT)
def test_a_mistake_with_text_is_one_line(refused, own, mistake):
    assert MISTAKES_OF_TEXT[mistake] in refused(f"{' '.join(map(str, own))} {mistake}")


@pytest.mark.parametrize("option", ["--shots 8", "--base nf4", "--cut head", "--prompt sentences"])
def test_options_of_text_are_refused_with_a_network(refused, option):
    assert f"{option.split()[0]} has no meaning with --data digits: leave it out" in refused(f"federate {option}")
