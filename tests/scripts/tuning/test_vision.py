"""`fabtune tune --network vit-digits`, from a user's view."""

import json

import numpy as np
import pytest
from safetensors.torch import save_file

from fabtune.golden.models.checkpoint import load_saved
from fabtune.golden.transformer.sample_model import SampleModule, vit_digits

pytestmark = pytest.mark.usefixtures("sentences")


@pytest.fixture
def weights(tmp_path):
    """Untrained weights, which avoid pre-training."""
    save_file(SampleModule(vit_digits(2)).state_dict(), tmp_path / "vit.safetensors")
    return "vit.safetensors"


@pytest.mark.parametrize(
    ("method", "engine"), [("pezo-otf", "golden"), pytest.param("mezo", "float", marks=pytest.mark.slow)]
)
def test_a_run(fabtune, tmp_path, weights, method, engine):
    asked = ("--network", "vit-digits", "--weights", weights, "--method", method, "--steps", 2, "--batch", 4)
    delta = ("--delta", "delta.safetensors") if engine == "golden" else ()
    extra = () if engine == "golden" else ("--engine", "float")
    status, out, err = fabtune("tune", *asked, *delta, *extra, "--json")
    assert status == 0, err
    report = json.loads(out)
    assert (report["network"], report["engine"], report["data"]) == ("vit-digits", engine, "digits")
    tensors, metadata = load_saved(tmp_path / report["weights"])
    assert metadata["model"] == "vit-digits"
    assert set(tensors) == set(SampleModule(vit_digits()).state_dict())
    assert ("base" in report) == (engine == "golden")
    if engine == "golden":
        assert report["base"] == "nf4"
        assert 0.08 < report["errors"]["0.query.weight"] < 0.12
        assert load_saved(tmp_path / "delta.safetensors")[0]["deltas"].shape == (255, 31)
        assert "base nf4: matrices up to" in fabtune("tune", *asked)[1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--method", "pezo-otf", "--core", "chip"), "there is no core 'chip'; there are: tiny, small, fast"),
        (("--method", "pezo-otf", "--from-layer", "2"), "--from-layer 2: vit-digits has the layers 0 to 1"),
        (("--method", "pezo-otf", "--cut", "99"), "cut = 99: vit-digits of 29 operations is cut at 1 or above"),
        (("--method", "pezo-otf", "--cut", "6"), "is no place for a cut (6): behind it"),
        (("--method", "pezo-otf", "--cut", "15", "--from-layer", "1"), "--cut 15: with --from-layer, 1 or above, a"),
        (("--method", "mezo", "--cut", "15"), "--cut belongs to integers of all parameters"),
        (("--method", "pezo-otf", "--base", "fp8"), "base = 'fp8' is not one of nf4, 18-bit"),
        (("--method", "pezo-otf", "--prompt", "sentences"), "--prompt belongs to a text task"),
        (("--method", "pezo-otf", "--cache", "nf4"), "--cache keeps what is below the first layer that is tuned"),
        (
            ("--method", "sparse-zo", "--engine", "float"),
            "sparse-zo tunes vit-digits in integers alone: --engine golden",
        ),
        (("--method", "mezo", "--base", "nf4"), "--base belongs to integers: --method pezo-otf"),
        (("--method", "instantft"), "vit-digits is a transformer, which zeroth order tunes: --method pezo-otf"),
        (("--method", "pezo-otf", "--input", "1x8x8"), "--input is the shape of your own network's samples"),
        (("--method", "pezo-otf", "--data", "digits", "--model", "digits"), "give --network or --model, not both"),
    ],
)
def test_options_that_do_not_fit_are_refused(fabtune, weights, options, reason):
    status, out, err = fabtune("tune", "--network", "vit-digits", "--weights", weights, *options)
    assert (status, out) == (2, "")
    assert reason in err


@pytest.mark.parametrize(
    "options",
    [("--method", "pezo-otf", "--from-layer", 1, "--tune", "norms"), ("--method", "sparse-zo", "--mask", "task")],
)
def test_a_part_of_the_weights(fabtune, weights, options):
    asked = ("--network", "vit-digits", "--weights", weights, "--steps", 1, "--batch", 2, "--json")
    status, out, err = fabtune("tune", *asked, *options)
    assert status == 0, err
    report = json.loads(out)
    assert report["engine"] == "golden"
    assert 0 < report["trained_parameters"] < 1000
    assert ("cache" in report) == ("--from-layer" in options)


@pytest.mark.slow
def test_it_learns(fabtune):
    asked = ("--network", "vit-digits", "--method", "pezo-otf", "--steps", 1000, "--json")
    status, out, err = fabtune("tune", *asked)
    assert status == 0, err
    report = json.loads(out)
    assert report["accuracy_before"] < 0.5
    assert report["accuracy_after"] > report["accuracy_before"] + 0.1


@pytest.mark.slow
def test_the_core_is_the_integer_job(fabtune, tmp_path, weights):
    asked = ("--network", "vit-digits", "--weights", weights, "--method", "pezo-otf", "--core", "tiny")
    asked += ("--steps", 3, "--batch", 4, "--json")
    found = {}
    for engine in ("rtl", "golden"):
        status, out, err = fabtune("tune", *asked, "--engine", engine, "--delta", f"{engine}.safetensors")
        assert status == 0, err
        found[engine] = json.loads(out)
    rtl, golden = found["rtl"], found["golden"]
    assert (rtl["mismatches"], rtl["steps_compared"], rtl["logits_compared"]) == (0, 3, 8)
    for name in ("accuracy_before", "accuracy_after", "loss_last", "saturations", "trained_parameters", "array"):
        assert rtl[name] == golden[name], name
    deltas = [load_saved(tmp_path / f"{engine}.safetensors")[0]["deltas"] for engine in ("rtl", "golden")]
    assert np.array_equal(*deltas)
    assert deltas[0].any()
