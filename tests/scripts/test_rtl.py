"""`fabtune tune --engine rtl`: a user's own network in the compiled core; and what it refuses."""

import json

import pytest

MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
"""


def test_own_network_in_rtl(fabtune, tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    asked = ["--model", "mine.py:build", "--epochs", "2", "--pretrain-epochs", "5", "--method", "skip2-lora", "--json"]
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
        ("--engine rtl --method lora-last", "--engine rtl runs --method instantft or skip2-lora, not lora-last"),
        ("--engine rtl --stochastic", "rounds to nearest"),
        ("--engine rtl --rank 9", "columns = 16"),
        ("--engine verilog", "there is no engine 'verilog'; there are: float, golden, rtl"),
    ],
)
def test_refused(refused, options, message):
    assert message in refused(f"tune {options}")
