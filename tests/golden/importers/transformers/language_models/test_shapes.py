"""Networks from sizes only equal those of folders; published networks have their known parameter counts."""

import json
from math import prod

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.language_models.folder import read_folder
from fabtune.golden.importers.transformers.language_models.shapes import PUBLISHED, shapes_of
from tests.golden.importers.transformers.language_models.test_folder import MODELS, saved


@pytest.mark.parametrize("kind", MODELS)
def test_shapes_are_those_of_the_folder(tmp_path, kind):
    saved(tmp_path, kind)
    found, whole = shapes_of(tmp_path), read_folder(tmp_path)
    network, (expected, _) = found.builder.network(), whole.builder.finish()
    assert network == expected
    assert found.words.shape == whole.words.shape
    assert (found.last, found.causal) == (whole.last, whole.causal)


@pytest.mark.parametrize("kind", ["opt"])
def test_shapes_without_biases(tmp_path, kind):
    saved(tmp_path, kind, enable_bias=False)
    assert shapes_of(tmp_path).builder.network() == read_folder(tmp_path).builder.finish()[0]


@pytest.mark.parametrize(
    ("name", "beside", "parameters"),
    [
        ("llama-2-7b", 32_000 * 4_096, 6_738_415_616),  # a separate head
        ("smollm2-135m", 0, 134_515_008),
        ("opt-125m", 2 * 768, 125_239_296),  # two rows of padding before the positions
        ("opt-1.3b", 2 * 2_048, 1_315_758_080),
        ("roberta-large", 1_024 + 2 * 1_024, 354_310_144),  # one row of types
        ("minilm", 2 * 384, 22_565_376),
    ],
)
def test_published_models_have_their_parameters(name, beside, parameters):
    found = shapes_of(PUBLISHED[name], name)
    own = sum(prod(shape) for shape in found.builder.network().parameter_shapes.values())
    assert own + prod(found.words.shape) + beside == parameters


def test_quantised_folders_have_their_shapes(tmp_path):
    settings = {**PUBLISHED["smollm2-135m"], "quantization_config": {"quant_method": "gptq"}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    shapes = shapes_of(tmp_path).builder.network().parameter_shapes
    assert shapes == shapes_of(PUBLISHED["smollm2-135m"]).builder.network().parameter_shapes
    with pytest.raises(UserError, match="quant_method = 'gptq'"):
        read_folder(tmp_path)


def test_a_folder_needs_its_settings_alone(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        shapes_of(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["minilm"]))
    assert len(shapes_of(tmp_path).builder.network().operations) == 2 + 6 * 12
    (tmp_path / "config.json").write_text(json.dumps({**PUBLISHED["minilm"], "vocab_size": 0}))
    with pytest.raises(UserError, match="vocab_size = 0"):
        shapes_of(tmp_path)
