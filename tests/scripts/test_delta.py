"""`fabtune delta`, and the files of `fabtune tune --delta`."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset

TUNE = ("tune", "--method", "pezo-otf", "--steps", 20, "--weights", "base.safetensors", "--json")


@pytest.fixture
def base(tmp_path):
    """Untrained weights of the digits network."""
    import torch

    torch.manual_seed(0)
    state = {name: one.numpy() for name, one in module_of(preset("digits")).state_dict().items()}
    save_file(state, tmp_path / "base.safetensors")
    return state


def test_base_and_delta_are_the_tuned_weights(fabtune, base, tmp_path):
    status, out, err = fabtune(*TUNE, "--delta", "d.safetensors", "-o", "tuned.safetensors")
    assert status == 0, err
    assert json.loads(out)["delta"] == "d.safetensors"
    assert (
        fabtune("delta", "apply", "d.safetensors", "--weights", "base.safetensors", "-o", "again.safetensors")[0] == 0
    )
    tuned, again = (load_file(tmp_path / f"{name}.safetensors") for name in ("tuned", "again"))
    assert tuned.keys() == again.keys() == base.keys()
    assert all(np.array_equal(tuned[name], again[name]) for name in tuned)
    assert not all(np.array_equal(tuned[name], base[name]) for name in tuned)

    status, out, _ = fabtune("delta", "show", "d.safetensors", "--json")
    shown = json.loads(out)
    assert (shown["deltas"], shown["parameters"], shown["format"]) == (7905, 4538, "Q4.28")
    assert shown["bytes"] < 33_000
    assert "scale.urng.bits=8" in fabtune("delta", "show", "d.safetensors")[1]


def test_two_runs_add_up_and_come_apart_again(fabtune, base, tmp_path):
    for seed in (1, 2):
        assert fabtune(*TUNE, "--seed", seed, "--delta", f"{seed}.safetensors")[0] == 0
    status, out, _ = fabtune("delta", "add", "1.safetensors", "2.safetensors", "-o", "both.safetensors", "--json")
    assert (status, json.loads(out)) == (0, {"output": "both.safetensors"})
    both, one, two = (load_file(tmp_path / f"{name}.safetensors")["deltas"] for name in ("both", "1", "2"))
    assert np.array_equal(both, one + two)
    assert (one != two).any()
    assert fabtune("delta", "add", "both.safetensors", "--minus", "2.safetensors", "-o", "first.safetensors")[0] == 0
    assert (tmp_path / "first.safetensors").read_bytes() == (tmp_path / "1.safetensors").read_bytes()


def test_nothing_is_replaced(fabtune, base, tmp_path):
    assert fabtune(*TUNE, "--delta", "d.safetensors")[0] == 0
    for command in (
        (*TUNE, "--delta", "d.safetensors"),
        ("delta", "add", "d.safetensors", "-o", "d.safetensors"),
        ("delta", "apply", "d.safetensors", "--weights", "base.safetensors", "-o", "d.safetensors"),
    ):
        status, _, err = fabtune(*command)
        assert status == 2
        assert "d.safetensors exists" in err
        assert err.count("\n") == 1
    assert fabtune("delta", "add", "d.safetensors", "-o", "d.safetensors", "--force")[0] == 0


def test_another_base_is_refused(fabtune, base, tmp_path):
    assert fabtune(*TUNE, "--delta", "d.safetensors")[0] == 0
    name = next(iter(base))
    save_file(base | {name: base[name] + np.float32(1e-6)}, tmp_path / "other.safetensors")
    status, _, err = fabtune("delta", "apply", "d.safetensors", "--weights", "other.safetensors", "-o", "t.safetensors")
    assert status == 2
    assert "this is another base" in err
    assert not (tmp_path / "t.safetensors").exists()


MISTAKES = {
    "delta show gone.safetensors": "gone.safetensors",
    "delta show base.safetensors": "is not a delta file",
    "delta add": "Missing argument 'FILE...'",
    "delta apply base.safetensors -o x.safetensors": "give --weights FILE, or for a transformer --model FOLDER",
    "tune --method mezo --delta d.safetensors": "--delta belongs to integers of all parameters",
    "tune --method sparse-zo --delta d.safetensors": "--delta belongs to integers of all parameters",
    "tune --method pezo-otf --engine float --delta d.safetensors": "--delta belongs to integers of all parameters",
    "tune --method instantft --delta d.safetensors": "--delta has no meaning with --method instantft",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, base, mistake):
    assert MISTAKES[mistake] in refused(mistake)
