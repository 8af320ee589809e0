"""Normal form of transformers: refusals name the operation in the user's model."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.transformer.blocks import PoolTokens, Residual, SelfAttention
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.transformer.float_model import run_float

from ...own_transformers import NETWORKS, Drawn, decoder, encoder, rows_of


def attention(made, heads, key_heads, width):
    drawn = Drawn(1)
    counts = heads, key_heads, key_heads
    reads = tuple(made.linear(one, INPUTS, drawn.weight(8, 8)) for one in "qkv")
    assert len(counts) == len(reads)
    return made.attention("attention", reads, SelfAttention(heads, key_heads, width))


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda made: made.residual("sum", INPUTS, made.linear("l", INPUTS, np.ones((3, 8)))), "of 8 and 3 features"),
        (lambda made: attention(made, 3, 2, 4), "3 heads for 2 of keys"),
        (lambda made: attention(made, 2, 0, 4), "2 heads for 0 of keys"),
        (lambda made: attention(made, 2, 2, 3), "heads of 3 features, not"),
        (lambda made: made.positions("p", made.pool("pool", INPUTS, "mean"), np.ones((9, 8))), "a row for each token"),
        (lambda made: made.add("pool", PoolTokens("mean"), 3), r"reads \(3,\)"),
        (lambda made: made.add("sum", Residual(), INPUTS), r"reads \(-1,\), not 2"),
        (lambda made: made.linear("l", INPUTS, np.ones((3, 7))), r"l has no weight of \(3, 8\)"),
        (lambda made: made.linear("l", INPUTS, np.ones((3, 8)), np.ones(2)), r"l has no bias of \(3,\)"),
        (lambda made: made.linear("l", INPUTS, np.full((3, 8), np.nan)), "l has a weight with NaN"),
        (lambda made: None, "has no operations"),
    ],
)
def test_networks_that_are_refused(add, message):
    made = TransformerBuilder("mine", 8)
    add(made)
    with pytest.raises(UserError, match=f"^mine.*{message}"):
        made.finish()


def test_tensors_of_another_network_are_refused():
    network, parameters = encoder()
    with pytest.raises(UserError, match="encoder has no tensor"):
        network.check({**parameters, (99, "weight"): np.ones(3)})


@pytest.mark.parametrize("lengths", [(0,), (17,), (3, 17)])
def test_sentences_of_other_lengths_are_refused(lengths):
    network, parameters = encoder()
    with pytest.raises(UserError, match=r"sentences of 1 to 16 tokens, not of (0|17)"):
        run_float(network, parameters, rows_of(network, lengths), lengths)


def test_empty_sentences_are_refused_without_positions():
    network, parameters = decoder()
    with pytest.raises(UserError, match="at least one token, not of 0"):
        run_float(network, parameters, rows_of(network, (2, 0)), (2, 0))


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes_are_those_of_the_outputs(name):
    network, parameters = NETWORKS[name]()
    outputs = run_float(network, parameters, rows_of(network, (4, 2)), (4, 2))
    assert [one.shape for one in outputs] == [(2 if pooled else 6, features) for features, pooled in network.shapes]
