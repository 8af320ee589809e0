"""A user's network in every command: the resulting spec, and one-line mistakes."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.settings import build
from fabtune.scripts.own_network import OwnNetwork, core_spec

MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 4))

def autoencoder():
    return nn.Sequential(nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 6))
"""
LINE = "1x8x8 conv4k3p1 relu flatten fc4"


@pytest.fixture(autouse=True)
def _folder(fabtune, tmp_path):
    """A folder with a user's models."""
    (tmp_path / "mine.py").write_text(MODEL)


@pytest.mark.parametrize("kind", [InstantftSpec, ZotrainSpec])
def test_the_spec_is_that_of_the_description_with_batch_norm_folded(kind, capsys):
    own = OwnNetwork("mine.py:build", shape=(1, 8, 8))
    found = core_spec(kind, own, ["lanes=32"], "tiny")
    assert found == build(kind, [f"network={LINE}", "lanes=32"], "tiny")
    said = f"{kind.name} reads samples as bytes that stand for 0 to 1, the default of {kind.name}"
    assert said in capsys.readouterr().err


def test_samples_are_read_as_the_data_has_them_unless_a_setting_decides(capsys):
    own = OwnNetwork(LINE)
    assert not core_spec(ZotrainSpec, own, [], "tiny", byte_inputs=False).byte_inputs
    assert "as Q8.16 in four bytes, as the data has them; --set byte_inputs=true" in capsys.readouterr().err
    assert core_spec(ZotrainSpec, own, ["byte_inputs=true"], "tiny", byte_inputs=False).byte_inputs
    assert not capsys.readouterr().err


def test_an_autoencoder_gets_its_loss_and_is_not_cut():
    spec = core_spec(ZotrainSpec, OwnNetwork("mine.py:autoencoder", shape=(6,)), [], "tiny")
    assert (spec.loss, spec.cut_rows, spec.network) == ("mse", 0, "6 fc2 relu fc6")


def test_weights_are_loaded_into_the_module(tmp_path):
    own = OwnNetwork("mine.py:build", Path("mine.pt"), (1, 8, 8))
    network, module = own.built()
    torch.save({name: one * 0 + 1 for name, one in module.state_dict().items()}, "mine.pt")
    loaded, taken = own.load()
    assert loaded == network
    assert not taken.training
    assert all((one == 1).all() for one in taken.state_dict().values())
    with torch.no_grad():
        nn.init.constant_(taken[0].weight, float("nan"))
    torch.save(taken.state_dict(), "mine.pt")
    with pytest.raises(Exception, match=r"mine.pt: 0.weight has NaN or infinity"):
        own.load()


OWN = "--model mine.py:build --input 1x8x8"
BLOCKS = {
    "emit urng": "",
    "package urng": "--board kv260",
    "estimate urng": "",
    "verify urng": "",
    "activity urng": "",
    "compare urng any.csv": "",
    "mutate urng": "",
    "prove urng": "",
    "utilisation any.rpt urng": "",
}
MISTAKES = {
    **{f"{words} {OWN} {more}": "urng has no network: leave --model out" for words, more in BLOCKS.items()},
    "emit zotrain --model mine.py:build": "mine.py:build does not say which samples it takes: give --input",
    f"emit zotrain --set network=digits {OWN}": "--set network= and --model mine.py:build both name the network",
    f"estimate instantft {OWN} --weights any.pt": "--weights has no effect on estimate: a core loads its parameters",
    "verify zotrain --input 1x8x8": "--input is the shape of your own network's samples: give it with --model",
    f"emit zotrain --preset gone {OWN}": "zotrain has no preset 'gone'; it has: tiny",
    f"emit zotrain --preset large {OWN}": "fold = true: mine.py:build is too small to fold",
    f"estimate --verilog any.v --top any {OWN}": "--set, --preset and --model belong to a BLOCK, not to --verilog",
    "emit zotrain --model digits --input 1x8x8": "--input has no meaning with the preset digits: leave it out",
    "prove --model mine.py:build": "--preset, --set, --model and --rule are for one BLOCK: name it",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
