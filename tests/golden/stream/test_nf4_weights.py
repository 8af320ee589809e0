"""NF4 weights compared with the float codec, itself compared with bitsandbytes."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.nf4.codec import quantise_floats
from fabtune.golden.stream.frozen_base import Nf4Weights

FORM = Format(1, 17)


def drawn(outputs=48, inputs=192, seed=1):
    return np.random.default_rng(seed).normal(0, 0.1, (outputs, inputs)).astype(np.float32)


def test_weights_are_those_of_floats_with_scales_of_16_bits():
    weights = drawn()
    made = Nf4Weights.of(weights, FORM)
    floats = quantise_floats(weights.reshape(48, 3, 64)).reshape(48, 192)
    off = np.abs(FORM.to_float(made.dequantised()) - floats)
    # a whole level where the rounded scale changes the code
    assert np.median(off) < 2**-18
    assert (off > 2**-16).mean() < 1e-3
    assert made.error(weights) == pytest.approx(np.sqrt(((floats - weights) ** 2).mean()) / 0.1, rel=0.02)
    assert made.bytes == 48 * 3 * 34


@pytest.mark.parametrize("inputs", [1, 63, 65])
def test_a_last_block_may_be_short(inputs):
    weights = drawn(inputs=192)
    short = Nf4Weights.of(weights[:, :inputs], FORM)
    assert short.codes.shape == (48, inputs)
    assert short.scales.shape == (48, -(-inputs // 64))
    whole = Nf4Weights.of(np.pad(weights[:, :inputs], ((0, 0), (0, 192 - inputs))), FORM)
    assert (short.dequantised() == whole.dequantised()[:, :inputs]).all()


def test_blocks_of_zeros_stay():
    made = Nf4Weights.of(np.zeros((3, 70)), FORM)
    assert not made.dequantised().any()
    assert made.error(np.zeros((3, 70))) == 0


def test_a_block_s_largest_value_is_exact_to_the_scale():
    weights = np.zeros((2, 64))
    weights[0, 5], weights[1, 7] = 0.75, -0.75
    assert np.abs(Nf4Weights.of(weights, FORM).dequantised()).max(axis=1).tolist() == [3 << 15, 3 << 15]


def test_outliers_and_other_formats_are_refused():
    with pytest.raises(UserError, match=r"a weight of 1.5 is beyond a scale of U0\.16: give it a wider format"):
        Nf4Weights.of(np.array([[0.1, 1.5]]), FORM)
    with pytest.raises(UserError, match=r"18 bits signed, not Q4\.12"):
        Nf4Weights.of(np.array([[0.1]]), Format(4, 12))
