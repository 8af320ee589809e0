"""Spec read back from the file of `fabtune emit` and `fabtune package`."""

import dataclasses
import json

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.golden.spec_file import load_core, load_spec, signature_text, top_module

CASES = [(name, preset) for name, kind in BLOCKS.items() for preset in (None, *kind.presets)]


def written(spec, folder, **changes):
    """The file with changed parameters."""
    parameters = dataclasses.asdict(spec) | changes
    file = folder / "spec.json"
    file.write_text(json.dumps({"block": spec.name, "parameters": parameters}))
    return file


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_every_preset_comes_back(name, preset, tmp_path):
    spec = build(BLOCKS[name], [], preset)
    assert load_spec(written(spec, tmp_path)) == spec
    assert load_spec(tmp_path) == spec


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": "16"}, "lanes = '16' is not an integer"),
        ({"lanes": True}, "lanes = True is not an integer"),
        ({"lanes": 16.5}, "lanes = 16.5 is not an integer"),
        ({"fold": 1}, "fold = 1 is not true or false"),
        ({"network": 7}, "network = 7 is not a text"),
        ({"colour": 1}, "zotrain has no parameter 'colour'; it has: address, monitor"),
        ({"address": 70}, "address = 70 is not in 33 to 62"),
        ({"loss": "l1"}, "loss = 'l1' is not one of cross_entropy, mse"),
        ({"generator": {}}, "the parameter 'generator.strategy' of zotrain is missing"),
        ({"generator": 3}, "zotrain has no parameter 'generator'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(changes, message, tmp_path):
    file = written(BLOCKS["zotrain"](), tmp_path, **changes)
    with pytest.raises(UserError) as refusal:
        load_spec(file)
    assert message in str(refusal.value)
    assert str(refusal.value).startswith(str(file))
    assert "\n" not in str(refusal.value)


def test_a_seed_that_is_no_integer_is_refused(tmp_path):
    parameters = json.loads(json.dumps(dataclasses.asdict(BLOCKS["urng"]())))
    parameters["seeds"][0] = 1.5
    (tmp_path / "spec.json").write_text(json.dumps({"block": "urng", "parameters": parameters}))
    with pytest.raises(UserError, match=r"seeds = \[1.5, .* is not a list of integers"):
        load_spec(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "spec.json is missing"),
        ("{", "spec.json is not JSON"),
        ("[" * 100_000, "spec.json is not JSON"),
        ("[]", "has no block with parameters"),
        ('{"block": "urng"}', "has no block with parameters"),
        ('{"block": "toaster", "parameters": {}}', "there is no block 'toaster'"),
    ],
)
def test_a_file_that_is_none_of_fabtune_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "spec.json").write_text(content)
    with pytest.raises(UserError, match=message):
        load_spec(tmp_path / "spec.json")


def test_a_core_of_another_signature_is_refused(tmp_path):
    spec = BLOCKS["zotrain"]()
    settings = json.loads(written(spec, tmp_path).read_text())
    (tmp_path / "spec.json").write_text(json.dumps(settings | {"signature": signature_text(spec)}))
    assert load_core(tmp_path) == spec
    (tmp_path / "spec.json").write_text(json.dumps(settings | {"signature": "0x00000001"}))
    with pytest.raises(UserError, match="its signature is 0x00000001, these parameters have 0x"):
        load_core(tmp_path)


def test_a_block_is_no_core(tmp_path):
    written(BLOCKS["urng"](), tmp_path)
    with pytest.raises(UserError, match="urng is a block without registers"):
        load_core(tmp_path)


def test_the_top_module_is_the_block_s_or_its_own(tmp_path):
    written(BLOCKS["zotrain"](), tmp_path)
    assert top_module(tmp_path) == "zotrain"
    settings = json.loads((tmp_path / "spec.json").read_text())
    (tmp_path / "spec.json").write_text(json.dumps(settings | {"name": "zotrain_mine"}))
    assert top_module(tmp_path / "spec.json") == "zotrain_mine"
