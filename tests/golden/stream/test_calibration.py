"""Formats of large activations: a decoder with a residual outlier in integers, with and without calibration."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format
from fabtune.golden.stream.calibration import activation_formats, largest_outputs
from fabtune.golden.stream.forward import IntegerTransformer, weight_formats
from fabtune.golden.transformer.blocks import Gate, Linear, PoolTokens, Residual
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.transformer.float_model import run_float
from tests.own_transformers import NETWORKS, decoder, rows_of

LENGTHS = 5, 1, 3


def outlying(kind, factor):
    """A decoder with a large feature in gate and residual of its second layer."""
    network, parameters = decoder(kind=kind)
    moved = dict(parameters)
    for title in ("0.up", "0.gate", "0.down"):
        name = network.titles.index(title), "weight"
        moved[name] = parameters[name].copy()
        rows = (slice(None), 3) if title == "0.down" else 3
        moved[name][rows] *= factor
    return network, moved


def errors(network, parameters, activations):
    """Relative maximal error of an operation's outputs; saturations; and the integer network."""
    rows = rows_of(network, LENGTHS)
    exact = run_float(network, parameters, rows, LENGTHS)
    own = replace(IntegerTransformer(network, weight_formats(parameters)), activations=activations)
    outputs, saturations = own.run(own.convert(parameters)[0], Q8_16.from_float(rows), LENGTHS)
    found = [form.to_float(one) for form, one in zip(own.formats, outputs, strict=True)]
    off = [np.abs(one - wanted).max() / np.abs(wanted).max() for one, wanted in zip(found, exact, strict=True)]
    return max(off), sum(saturations), own


def formats(network, parameters):
    own = IntegerTransformer(network, weight_formats(parameters))
    return activation_formats(own, largest_outputs(network, parameters, rows_of(network, LENGTHS), LENGTHS))


@pytest.mark.parametrize(("kind", "factor"), [("silu", 40), ("relu-squared", 10)])
def test_outliers_saturate_without_shifts_and_not_with_them(kind, factor):
    network, parameters = outlying(kind, factor)
    chosen = formats(network, parameters)
    shifted = {type(network.operations[number]) for number in chosen}
    assert {Gate, Residual, Linear} <= shifted
    assert all(form.width in (24, 27) for form in chosen.values())
    before, clipped, _ = errors(network, parameters, {})
    after, none, own = errors(network, parameters, chosen)
    assert clipped > 0
    assert none == 0
    assert before > 0.2
    assert after < 0.03  # weights are large too
    for number, form in chosen.items():
        assert own.formats[number] == form


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_that_fit_keep_their_formats(name):
    network, parameters = NETWORKS[name]()
    assert formats(network, parameters) == {}


def test_a_format_holds_nine_eighths_of_the_largest():
    network, parameters = decoder()
    own = IntegerTransformer(network, weight_formats(parameters))
    largest = dict.fromkeys(range(len(network.operations)), 1.0)
    residual = next(number for number, one in enumerate(network.operations) if isinstance(one, Residual))
    assert own.formats[residual] == Format(11, 16)
    for value, integer in ((910.0, 11), (911.0, 12), (1820.0, 12), (1821.0, 13), (26671.3, 16)):
        chosen = activation_formats(own, largest | {residual: value}).get(residual, Format(11, 16))
        assert chosen == Format(integer, 27 - integer)


def test_what_pools_has_the_format_of_what_it_reads():
    network, parameters = decoder()
    pool = next(number for number, one in enumerate(network.operations) if isinstance(one, PoolTokens))
    own = IntegerTransformer(network, weight_formats(parameters), {pool - 1: Format(10, 14)})
    assert own.formats[pool] == Format(10, 14)
    assert pool not in activation_formats(own, dict.fromkeys(range(len(network.operations)), 1e4))


def test_biases_of_coarse_layers_are_exact():
    """A bias has 16 fraction bits, the product 2: 3 x 60,000 plus 100.25, rounded after the sum."""
    made = TransformerBuilder("coarse", 1)
    first = made.linear("first", INPUTS, np.array([[3000.0]]))
    made.linear("second", first, np.array([[60000.0], [1.0]]), np.array([100.25, -3.625]))
    network, parameters = made.finish()
    own = IntegerTransformer(network, weight_formats(parameters), {0: Format(22, 2), 1: Format(21, 3)})
    assert own.weights[1, "weight"].fraction == 0
    outputs, _ = own.run(own.convert(parameters)[0], Q8_16.from_float(np.array([[0.001]])), (1,))
    assert own.formats[0].to_float(outputs[0]).tolist() == [[3.0]]
    assert own.formats[1].to_float(outputs[1]).tolist() == [[180100.25, -0.625]]


@pytest.mark.parametrize("form", [Format(9, 16), Format(7, 17), Format(12, 15)])
def test_other_widths_are_refused(form):
    network, parameters = decoder()
    with pytest.raises(UserError, match=rf"0\.norm has outputs of {form}, which is not Q8\.16 shifted"):
        IntegerTransformer(network, weight_formats(parameters), {0: form})
