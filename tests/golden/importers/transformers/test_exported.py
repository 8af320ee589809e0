"""Users' PyTorch transformers compared with PyTorch: equal, or refused at their line; never wrong."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.own_model import transformer_of
from fabtune.golden.transformer.blocks import (
    Activation,
    Linear,
    Normalisation,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
)

from .... import own_transformer_modules as own


def randomised(module, seed=0):
    """Module in evaluation mode with distinct parameters, including norm factors and biases."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for one in module.parameters():
            one += torch.randn_like(one) * 0.1
    return module.eval()


def compare(module, shape):
    """Import a module and compare outputs; returns the import."""
    found = transformer_of(module, shape, "own")
    network, parameters = found.builder.finish()
    samples = torch.randn(3, *shape)
    with torch.no_grad():
        expected = module.double()(samples.double()).numpy()
    outputs = own.outputs_of(found, samples.numpy()).reshape(expected.shape)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)
    state = module.state_dict()
    for name, title in found.tensor_names.items():
        whole, _, part = title.partition("[")
        values = state[whole].numpy()
        if part:
            first, _, last = part.rstrip("]").partition(":")
            values = values[int(first) : int(last)]
        np.testing.assert_array_equal(parameters[name].reshape(-1), values.reshape(-1).astype(np.float32))
    return found, network


def drawn(seed):
    """A random module, and its sample shape."""
    random = np.random.default_rng(seed)

    def one(*values):
        return values[random.integers(len(values))]

    block = own.Block(
        16,
        one(*own.WAYS),
        one(True, False),
        one("gelu", "tanh", "relu", "squared", "erf", "silu", "gate"),
        one(*own.NORMS),
        one(True, False),
        one(True, False),
    )
    if one(True, True, False):
        vision = own.Vision(
            block,
            16,
            one("convolution", "reshaping"),
            one("first", "last", "none"),
            one("first", "last", "mean"),
        )
        return randomised(vision, seed), (2, 8, 8)
    return randomised(own.Rows(block), seed), (5, 16)


@pytest.mark.parametrize("seed", range(2))
def test_random_modules_are_equal(seed):
    compare(*drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 120))
def test_more_random_modules_are_equal(seed):
    compare(*drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_encoders_of_pytorch_are_equal(before, kind):
    layer = nn.TransformerEncoderLayer(16, 4, 24, activation=kind, norm_first=before, batch_first=True)
    found, network = compare(randomised(nn.TransformerEncoder(layer, 2, enable_nested_tensor=not before)), (5, 16))
    assert not found.pooled
    assert len(network.operations) == 24
    assert set(found.tensor_names) == set(network.parameter_shapes)


class _Masked(nn.Module):
    """PyTorch encoder with an unmarked mask."""

    def __init__(self, mask):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        return self.encoder(x, mask=self.mask)


@pytest.mark.slow
def test_masks_of_an_encoder_of_pytorch_are_looked_at():
    for mask in (torch.ones(5, 5).triu(1) > 0, nn.Transformer.generate_square_subsequent_mask(5)):
        _, network = compare(randomised(_Masked(mask)), (5, 16))
        assert [one.causal for one in network.operations if isinstance(one, SelfAttention)] == [True]
    with pytest.raises(UserError, match="neither none nor the one that hides all later tokens"):
        transformer_of(randomised(_Masked(torch.ones(5, 5).triu(2) > 0)), (5, 16), "own")


@pytest.mark.slow
def test_a_module_that_decides_by_values_is_refused_in_one_line(capfd):
    module = _Wrong(lambda self, x: self.first(x) if x.sum() > 0 else self.second(x))
    with pytest.raises(
        UserError,
        match=r"test_exported\.py:\d+: cannot be exported, as it decides by .* tensors: \w",
    ):
        transformer_of(randomised(module), (4, 4), "own")
    assert capfd.readouterr() == ("", "")


def test_what_a_vision_transformer_becomes():
    block = own.Block(16)
    found, network = compare(randomised(own.Vision(block)), (2, 8, 8))
    kinds = [type(one) for one in network.operations]
    assert found.places.shape == (5, 32)
    assert (found.places[0] == -1).all()
    assert kinds[:2] == [Linear, Positions]
    assert SelfAttention(4, 4, 4) in network.operations
    assert PoolTokens("first") in network.operations
    assert {title for title in found.tensor_names.values() if "qkv" in title} == {
        f"block.attention.qkv.{kind}[{at}:{at + 16}]" for kind in ("weight", "bias") for at in (0, 16, 32)
    }
    assert "positions" not in found.tensor_names.values()


def test_fully_connected_layers_are_a_network_of_one_token():
    layers = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    found, network = compare(randomised(layers), (3, 4))
    assert found.pooled
    assert network.features == 12


class _Wrong(nn.Module):
    """A layer outside the normal form, by the user's code."""

    def __init__(self, function):
        super().__init__()
        self.first, self.second, self.function = nn.Linear(4, 4), nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self, x)


def _scores(self, x):
    return self.first(x) @ self.second(x).transpose(-2, -1) / 2


WRONG = {
    "softmax over queries": (lambda self, x: _scores(self, x).softmax(-2) @ self.first(x), "aten.softmax .* the keys"),
    "keys not transposed": (lambda self, x: (self.first(x) @ self.second(x)).softmax(-1) @ x, "aten.matmul .* axes"),
    "no softmax": (lambda self, x: _scores(self, x) @ self.first(x), "without a softmax"),
    "scaled softmax": (lambda self, x: (_scores(self, x).softmax(-1) * 2) @ self.first(x), "softmax by a number"),
    "scores as features": (lambda self, x: self.first(_scores(self, x)), "aten.linear reads scores"),
    "window": (
        lambda self, x: (_scores(self, x) + torch.triu(torch.full((4, 4), -torch.inf), 2)).softmax(-1) @ self.first(x),
        "aten.add has a mask that is neither none nor",
    ),
    "replaced by 0": (
        lambda self, x: _scores(self, x).masked_fill(torch.ones(4, 4).triu(1).bool(), 0).softmax(-1) @ self.first(x),
        "aten.masked_fill replaces scores by 0: only -10000 and below",
    ),
    "chosen by a mask": (
        lambda self, x: torch.where(torch.ones(4, 4).tril() > 0, _scores(self, x), 0.0).softmax(-1) @ self.first(x),
        "aten.where replaces scores by 0: only -10000 and below",
    ),
    "a mask of NaN": (
        lambda self, x: _scores(self, x).masked_fill(torch.ones(4, 4).triu(1) > 0, torch.nan).softmax(-1) @ x,
        "replaces scores by nan",
    ),
    "a mask of one query": (
        lambda self, x: (_scores(self, x)[:, :1] + torch.eye(4)[:1]).softmax(-1) @ self.first(x),
        "masks some of the scores",
    ),
    "logarithm of the softmax": (
        lambda self, x: _scores(self, x).log_softmax(-1) @ self.first(x),
        "aten.log_softmax is the logarithm of the softmax of scores",
    ),
    "no token": (lambda self, x: self.second(self.first(x)[:, 4:]), "reads none of a sample's 4 x 4 values"),
    "softmax of all tokens": (
        lambda self, x: self.first(x).flatten(1).softmax(-1),
        "own: its output: is the softmax of 4",
    ),
    "a negative eps": (lambda self, x: functional.layer_norm(x, (4,), eps=-1.0), "adds -1 to the mean square"),
    "mean of everything": (lambda self, x: self.first(x) + x.mean(()), "aten.mean is a mean over"),
    "softmax in short floats": (
        lambda self, x: _scores(self, x).softmax(-1, dtype=torch.bfloat16).float() @ self.first(x),
        "aten.softmax computes in torch.bfloat16",
    ),
    "sum with a factor": (
        lambda self, x: torch.add(self.first(x), x, alpha=2),
        "aten.add has alpha = 2, which is not known here: leave it at its default",
    ),
    "another function": (
        lambda self, x: self.second(self.first(x) * torch.tanh(self.first(x))),
        "of functions of different values",
    ),
    "tanh": (lambda self, x: self.second(self.first(x).tanh()), "reads a function of values that is neither GELU"),
    "soft mask": (lambda self, x: (_scores(self, x) + torch.eye(4)).softmax(-1) @ self.first(x), "neither none nor"),
    "tokens as features": (lambda self, x: self.first(x.transpose(1, 2)) + x, "not the same tokens and features"),
    "mixed samples": (lambda self, x: self.first(x) + self.first(x).flip(0), "not the same tokens and features"),
    "second token": (lambda self, x: self.first(x)[:, 1].relu(), "aten.relu reads token 1 of 4"),
    "some tokens": (lambda self, x: self.first(x)[:, 1:].relu(), "aten.relu reads 12 of a sample's 4 x 4 values"),
    "largest": (lambda self, x: self.first(x).amax(1), "aten.amax has no place"),
    "norm of a mean": (
        lambda self, x: functional.layer_norm((self.first(x) + x).mean(1), (4,)),
        "aten.layer_norm is behind the mean of a sum's tokens, which has no hardware: take it of each token",
    ),
    "mean of features": (lambda self, x: self.first(x).mean(2), "aten.mean is a mean over"),
    "random": (lambda self, x: self.first(x) + torch.rand(4), "draws random numbers"),
    "dropout": (lambda self, x: functional.dropout(self.first(x), 0.5, True), "active in evaluation mode"),
    "short floats": (lambda self, x: self.first(x).bfloat16().float(), "converts to torch.bfloat16"),
    "sample variance": (lambda self, x: self.first(x) / self.first(x).var(-1, keepdim=True).sqrt(), "correction=0"),
    "no eps": (lambda self, x: x * x.pow(2).mean(-1, keepdim=True).rsqrt(), "a norm without eps"),
    "norm of another": (
        lambda self, x: self.first(x) * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt(),
        "the inverse root of something else",
    ),
    "another norm": (lambda self, x: functional.group_norm(self.first(x), 2), "aten.group_norm has no place"),
    "two axes": (lambda self, x: functional.layer_norm(x, (4, 4)), "over the last 2 axes"),
    "scaled sum": (lambda self, x: self.first(x) + 0.5 * x, "reads a product with 0.5"),
    "quick gelu": (lambda self, x: x * torch.sigmoid(1.702 * self.first(x)), "functions of different values"),
    "other axis": (lambda self, x: functional.normalize(self.first(x), dim=1), "is over"),
    "part": (lambda self, x: self.first(x).relu()[..., :2].sigmoid(), "its output: reads a function of values"),
}


FAST = (
    "norm of a mean",
    "softmax over queries",
    "replaced by 0",
    "logarithm of the softmax",
    "mixed samples",
    "second token",
    "random",
)


@pytest.mark.parametrize("which", [one if one in FAST else pytest.param(one, marks=pytest.mark.slow) for one in WRONG])
def test_what_is_no_transformer_is_refused_at_its_line(which):
    function, reason = WRONG[which]
    with pytest.raises(UserError, match=rf"test_exported\.py:\d+: .*{reason}|own: {reason}|{reason}"):
        transformer_of(randomised(_Wrong(function)), (4, 4), "own")


ALSO = {
    "constant in the shape of values": lambda self, x: self.first(x) + self.first.bias.view(1, 1, 4).expand_as(x),
    "number of a tensor": lambda self, x: self.second(self.first(x) * self.first.bias[0].item()),
    "inactive dropout": lambda self, x: self.second(torch.native_dropout(self.first(x), 0.5, False)[0]),
    "softmax in float64": lambda self, x: (
        (_scores(self, x).softmax(-1, dtype=torch.float64).to(x.dtype)) @ self.first(x)
    ),
    "difference": lambda self, x: self.first(x) - self.second(x),
    "number less values": lambda self, x: self.second(1 - self.first(x)),
    "norm by a power": lambda self, x: x * ((x * x).mean(-1, keepdim=True) + 1e-5).pow(-0.5),
    "norm by a variance": lambda self, x: (
        (x - x.mean(-1, True)) * (x.var(-1, keepdim=True, correction=0) + 1e-5) ** -0.5
    ),
    "square of a scaled ReLU": lambda self, x: self.second((self.first(x) * 2).relu() ** 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", ALSO)
def test_forms_that_are_read(which):
    compare(randomised(_Wrong(ALSO[which])), (4, 4))


@pytest.mark.parametrize("token", [0, -1])
def test_a_norm_of_one_token_of_a_sum_is_that_of_all_tokens(token):
    """A pool takes fewer bits than a sum."""
    module = _Wrong(lambda self, x: functional.layer_norm((self.first(x) + self.second(x))[:, token], (4,)))
    _, network = compare(randomised(module), (4, 4))
    assert [type(one) for one in network.operations][2:] == [Residual, Normalisation, PoolTokens]


@pytest.mark.slow
def test_gelu_of_operators_is_gelu():
    def written(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))

    module = _Wrong(lambda self, x: self.second(written(self.first(x))))
    _, network = compare(randomised(module), (4, 4))
    assert network.operations[1] == Activation("gelu-tanh")


def test_weights_that_are_not_finite_are_refused():
    module = randomised(_Wrong(lambda self, x: self.second(self.first(x).relu()).mean(1)))
    with torch.no_grad():
        module.second.weight[1, 2] = torch.nan
    with pytest.raises(UserError, match=r"own: second\.weight has NaN or infinity"):
        transformer_of(module, (4, 4), "own")
