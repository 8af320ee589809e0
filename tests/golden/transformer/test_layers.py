"""First operations of a transformer's layers, and products of its operations."""

import pytest

from fabtune.golden.transformer.layers import layer_starts, products

from ...own_transformers import connected, decoder, encoder, vision


@pytest.mark.parametrize(
    ("made", "starts"),
    [
        (encoder, ["0.q", "1.q"]),  # norms after the sums belong to the previous layer
        (decoder, ["0.norm", "1.norm"]),
        (vision, ["0.norm"]),
        (connected, ["0", "2", "4"]),  # without attention each fully connected layer counts as a layer
    ],
)
def test_a_layer_begins_with_its_norm_or_its_queries(made, starts):
    network, _ = made()
    assert [network.titles[start] for start in layer_starts(network)] == starts
    assert all(network.crossing(start) == start - 1 for start in layer_starts(network) if start)


def test_products_by_hand():
    network, _ = encoder()
    found = dict(zip(network.titles, products(network, (3, 5)), strict=True))
    assert found["0.q"] == 8 * 24 * 24
    assert found["0.attention"] == 2 * (9 + 25) * 24
    assert found["0.up"] == found["0.down"] == 8 * 24 * 40
    assert found["head"] == 2 * 24 * 5
    assert found["norm"] == found["0.gelu"] == found["0.sum"] == 0


def test_a_causal_token_sees_those_before_it():
    network, _ = decoder()
    found = dict(zip(network.titles, products(network, (3, 5)), strict=True))
    assert found["0.attention"] == 2 * (6 + 15) * 24
    assert found["0.k"] == 8 * 24 * 12
