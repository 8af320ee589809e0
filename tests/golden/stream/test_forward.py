"""Integer transformers compared with float64 on the same rounded weights."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format
from fabtune.golden.nn.arithmetic.products import PRODUCTS
from fabtune.golden.stream.attention import Q6_12
from fabtune.golden.stream.forward import WEIGHT_BITS, IntegerTransformer, weight_formats
from fabtune.golden.stream.norms import Q11_16
from fabtune.golden.transformer.blocks import Linear, SelfAttention
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.transformer.float_model import run_float

from ...own_transformers import NETWORKS, Drawn, decoder, encoder, rows_of, vision

LENGTHS = (3, 1, 9)


def model_of(network, parameters, bits=WEIGHT_BITS):
    return IntegerTransformer(network, weight_formats(parameters, bits))


def both(network, parameters, lengths=LENGTHS, bits=WEIGHT_BITS, rows=None):
    """Float outputs of all operations, by integers and by floats with the integers' weights."""
    model = model_of(network, parameters, bits)
    integers, clipped = model.convert(parameters)
    assert not clipped
    rows = rows_of(network, lengths) if rows is None else rows
    found, saturations = model.run(integers, Q8_16.from_float(rows), lengths)
    same = {name: model.format_of(name).to_float(one) for name, one in integers.items()}
    exact = run_float(network, same, rows, lengths)
    return [form.to_float(one) for form, one in zip(model.formats, found, strict=True)], exact, saturations


@pytest.mark.parametrize("name", NETWORKS)
def test_every_operation_is_near_the_floats(name):
    network, parameters = NETWORKS[name]()
    found, exact, saturations = both(network, parameters)
    assert not any(saturations)
    for number, (one, other) in enumerate(zip(found, exact, strict=True)):
        assert one.shape == other.shape
        error = np.sqrt(((one - other) ** 2).mean())
        # keys and values have 12 fraction bits; later operations inherit the error
        assert error < 2e-4, network.titles[number]


@pytest.mark.parametrize("kind", ["gelu", "gelu-tanh", "relu", "relu-squared", "silu"])
def test_every_activation(kind):
    found, exact, _ = both(*vision(kind=kind))
    assert np.abs(found[-1] - exact[-1]).max() < 2e-4


@pytest.mark.parametrize("settings", [{"heads": 1}, {"hidden": 33, "heads": 11}, {"layers": 1, "wide": 7}])
def test_encoders_of_other_sizes(settings):
    found, exact, _ = both(*encoder(**settings))
    assert np.abs(found[-1] - exact[-1]).max() < 1e-3


def test_a_sentence_alone_is_that_of_the_batch():
    """No sentence reads another, or padding."""
    for network, parameters in (encoder(), decoder()):
        model = model_of(network, parameters)
        integers, _ = model.convert(parameters)
        rows = Q8_16.from_float(rows_of(network, LENGTHS))
        together = model.run(integers, rows, LENGTHS)[0][-1]
        ends = np.cumsum(LENGTHS)
        for number, (end, length) in enumerate(zip(ends, LENGTHS, strict=True)):
            alone = model.run(integers, rows[end - length : end], (length,))[0][-1]
            assert (alone == together[number]).all()


@pytest.mark.parametrize("product", ["int64", "torch"])
def test_products_are_exact_however_they_are_made(product):
    network, parameters = encoder()
    model = model_of(network, parameters)
    integers, _ = model.convert(parameters)
    rows = Q8_16.from_float(rows_of(network, LENGTHS))
    expected, found = (model.run(integers, rows, LENGTHS, PRODUCTS[one])[0] for one in ("blas", product))
    assert all((one == other).all() for one, other in zip(expected, found, strict=True))


def test_formats_are_what_readers_take():
    network, parameters = encoder(layers=1)
    formats = dict(zip(network.titles, model_of(network, parameters).formats, strict=True))
    assert [formats[f"0.{one}"] for one in "qkv"] == [Q8_16, Q6_12, Q6_12]
    assert formats["0.output"] == formats["0.down"] == formats["0.sum"] == formats["positions"] == Q11_16
    assert formats["0.norm"] == formats["0.up"] == formats["0.gelu"] == formats["head"] == Q8_16


def test_coarser_weights_are_less_exact():
    network, parameters = encoder()
    rows = rows_of(network, LENGTHS)
    exact = run_float(network, parameters, rows, LENGTHS)[-1]
    errors = [np.abs(both(network, parameters, bits=bits)[0][-1] - exact).max() for bits in (12, 15, 18)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]


def test_values_that_saturate_are_counted_at_their_operation():
    network, parameters = encoder()
    rows = rows_of(network, LENGTHS)
    model = model_of(network, parameters)
    up = network.titles.index("0.up")
    integers, clipped = model.convert({**parameters, (up, "bias"): np.full(40, 127.9999)})
    assert not clipped
    _, saturations = model.run(integers, Q8_16.from_float(rows), LENGTHS)
    assert saturations[up] > 100
    assert not any(saturations[:up])


def test_weights_beyond_their_format_are_counted():
    network, parameters = encoder()
    head = network.titles.index("head")
    outlier = {**parameters, (head, "weight"): parameters[head, "weight"].copy()}
    outlier[head, "weight"][0, :2] = 9.0, -8.0
    formats = {**weight_formats(parameters), (head, "weight"): Format(4, 14)}
    _, clipped = IntegerTransformer(network, formats).convert(outlier)
    assert clipped == {(head, "weight"): 1}


def test_a_tensor_s_format_is_the_finest_that_holds_it():
    parameters = {
        (0, "weight"): np.array([[0.4, -0.1]]),
        (1, "weight"): np.array([[7.0]]),
        (1, "bias"): np.array([9.0]),
    }
    formats = {(0, "weight"): Format(1, 17), (1, "weight"): Format(4, 14)}
    assert weight_formats(parameters) == formats
    assert weight_formats({(1, "weight"): np.array([[7.2]])}) == {(1, "weight"): Format(5, 13)}
    assert weight_formats({(1, "factor"): np.zeros(3)}, 12) == {(1, "factor"): Format(1, 11)}


def test_weights_that_do_not_fit_the_port_are_refused():
    network, parameters = encoder()
    with pytest.raises(UserError, match=r"encoder: norm has a factor of Q2\.17, which has more than 18 bits"):
        model_of(network, parameters, 19)


def test_keys_that_a_residual_reads_too_are_refused():
    made, drawn = TransformerBuilder("own", 8), Drawn(1)
    reads = tuple(made.linear(one, INPUTS, drawn.weight(8, 8)) for one in "qkv")
    mixed = made.attention("attention", reads, SelfAttention(2, 2, 4))
    made.residual("sum", mixed, reads[1])
    with pytest.raises(UserError, match="own: attention has keys or values"):
        model_of(*made.finish())


def test_a_sum_that_a_linear_layer_reads_is_refused():
    made, drawn = TransformerBuilder("own", 8), Drawn(1)
    made.add("last", Linear(3, False), made.residual("sum", INPUTS, INPUTS), weight=drawn.weight(3, 8))
    with pytest.raises(UserError, match=r"own: last reads Q11\.16"):
        model_of(*made.finish())


def test_norms_of_more_features_than_are_exact_are_refused():
    made = TransformerBuilder("own", 8192)
    made.rms_norm("norm", INPUTS, np.ones(8192), 1e-5)
    with pytest.raises(UserError, match="own: norm cannot be computed: a norm has 1 to 4096 features, not 8192"):
        model_of(*made.finish())
