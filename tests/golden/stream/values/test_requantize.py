"""`requantize` compared with Python fractions, and with a linear layer of the integer transformer; its limits."""

from fractions import Fraction

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format
from fabtune.golden.stream.forward import IntegerTransformer
from fabtune.golden.stream.values.requantize import FORMATS, SUM, RequantizeSpec
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder


def outputs(total, bias, fraction, form, input_shift=0, output_shift=0):
    """Values and flags of sums, one per word."""
    settings = {"fraction": fraction, "form": form, "input_shift": input_shift, "output_shift": output_shift}
    given = {"sum": np.array(total)[:, None], "bias": np.array(bias)[:, None]}
    given |= {name: np.full((len(total), 1), one) for name, one in settings.items()}
    found = RequantizeSpec(lanes=1).run({"i": given}, len(total))["o"]
    return found["value"][:, 0], found["clipped"][:, 0]


@pytest.mark.parametrize(("form", "result"), [*enumerate(FORMATS)])
@pytest.mark.parametrize(("fraction", "input_shift", "output_shift"), [(14, 0, 0), (0, 3, 0), (17, 0, 7), (10, 7, 2)])
def test_values_are_exact_fractions_rounded_once(form, result, fraction, input_shift, output_shift):
    rng = np.random.default_rng(2)
    total = rng.integers(SUM.minimum, SUM.maximum, 300) >> rng.integers(0, 40, 300)
    bias = rng.integers(Q8_16.minimum, Q8_16.maximum, 300)
    value, clipped = outputs(total, bias, fraction, form, input_shift, output_shift)
    unit = Fraction(1, 1 << result.fraction) * (1 << output_shift)
    places = Fraction(1, 1 << 16 + fraction - input_shift)
    exact = [(int(one) * places + Fraction(int(other), 1 << 16)) / unit for one, other in zip(total, bias, strict=True)]
    rounded = [round(one) for one in exact]  # half to even
    assert value.tolist() == [min(max(one, result.minimum), result.maximum) for one in rounded]
    assert clipped.tolist() == [int(not result.minimum <= one <= result.maximum) for one in rounded]


def test_a_linear_layer_is_the_transformer_s():
    rng, made = np.random.default_rng(3), TransformerBuilder("one", 32)
    weights, bias = rng.normal(0, 0.2, (4, 32)), rng.normal(0, 1, 4)
    made.linear("layer", INPUTS, weights, bias)
    network, parameters = made.finish()
    model = IntegerTransformer(network, {(0, "weight"): Format(4, 14)})
    integers, _ = model.convert(parameters)
    rows = rng.integers(-(1 << 20), 1 << 20, (9, 32))
    (expected,), (saturated,) = model.run(integers, rows, (9,))
    total = (rows @ integers[0, "weight"].T).reshape(-1)
    value, clipped = outputs(total, np.tile(integers[0, "bias"], 9), 14, 0)
    assert np.array_equal(value.reshape(9, 4), expected)
    assert clipped.sum() == saturated


@pytest.mark.parametrize(("settings", "message"), [({"lanes": 0}, "lanes = 0"), ({"tag": 33}, "tag = 33")])
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        RequantizeSpec(**settings)
