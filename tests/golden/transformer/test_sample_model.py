"""Transformers on samples: patches and class token, the module trained by PyTorch, refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.transformer.float_model import run_float
from fabtune.golden.transformer.layers import layer_starts
from fabtune.golden.transformer.sample_model import SampleModule, SampleTransformer, mlp_20m, patches, vit_digits

RANDOM = np.random.default_rng(5)


def test_patches_are_those_of_a_convolution_behind_a_token_of_zeros():
    images = RANDOM.normal(size=(3, 2, 6, 6)).astype(np.float32)
    weight = RANDOM.normal(size=(5, 2, 3, 3)).astype(np.float32)
    convolved = torch.nn.functional.conv2d(torch.from_numpy(images), torch.from_numpy(weight), stride=3)
    made = TransformerBuilder("patches", 18)
    made.pool("first", INPUTS, "first")
    places = patches(2, 6, 3)
    model = SampleTransformer(*made.finish(), (2, 6, 6), places, {})
    rows = model.rows(images)
    assert rows.shape == (3, 5, 18)
    assert not rows[:, 0].any()
    expected = convolved.flatten(2).transpose(1, 2).numpy()
    np.testing.assert_allclose(rows[:, 1:] @ weight.reshape(5, -1).T, expected, atol=1e-5)


def test_the_module_computes_the_normal_form_and_is_trained():
    model = vit_digits(3)
    module = SampleModule(model)
    images = RANDOM.uniform(size=(4, 1, 8, 8)).astype(np.float32)
    rows = model.rows(images).reshape(-1, 4)
    expected = run_float(model.network, model.parameters, rows, (17,) * 4)[-1]
    logits = module(torch.from_numpy(images))
    np.testing.assert_allclose(logits.detach().numpy(), expected, atol=1e-5)
    logits.square().sum().backward()
    assert all(one.grad is not None and one.grad.abs().max() > 0 for one in module.parameters())
    kept = module.parameters_as_trained()
    assert all((kept[name] == one).all() for name, one in model.parameters.items())


def test_samples_of_another_shape_and_places_of_another_network_are_refused():
    model = vit_digits()
    with pytest.raises(UserError, match=r"takes samples of \(1, 8, 8\), not of \(8, 8\)"):
        model.rows(np.zeros((2, 8, 8)))
    with pytest.raises(UserError, match="takes 4 features"):
        replace(model, places=patches(1, 8, 4))
    with pytest.raises(UserError, match="takes sentences of 1 to 17 tokens, not of 65"):
        replace(model, places=np.tile(patches(1, 8, 2)[1:], (4, 1))[[*range(64), 0]])
    made = TransformerBuilder("tokens", 4)
    made.linear("head", INPUTS, np.zeros((3, 4)))
    with pytest.raises(UserError, match="gives outputs for each token"):
        SampleTransformer(*made.finish(), (1, 8, 8), patches(1, 8, 2), {})


def test_a_perceptron_takes_an_image_as_one_token():
    made = mlp_20m()
    weights = [one.shape for name, one in made.parameters.items() if name[1] == "weight"]
    assert weights == [(4096, 784), (4096, 4096), (10, 4096)]
    image = np.arange(784).reshape(1, 1, 28, 28)
    assert np.array_equal(made.rows(image), np.arange(784).reshape(1, 1, 784))
    assert (made.tokens, made.classes) == (1, 10)
    assert len(layer_starts(made.network)) == 3
