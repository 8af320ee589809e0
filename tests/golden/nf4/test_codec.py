"""NF4 compared with its definition in fractions and with bitsandbytes; records byte by byte."""

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.lora.forward_cache import record_layout
from fabtune.golden.models.text import preset
from fabtune.golden.nf4.codec import (
    CODES,
    LEVELS,
    MIDPOINTS,
    THRESHOLD_FRACTION,
    THRESHOLDS,
    RecordLayout,
    dequantise,
    quantise,
    quantise_floats,
)

TOP = Q8_16.maximum
EXACT_CODES = [Fraction(float(code)) for code in CODES]
EXACT_MIDPOINTS = [Fraction(float(middle)) for middle in MIDPOINTS]
LENET5 = record_layout(preset("lenet5-mnist"))

blocks = st.lists(st.integers(Q8_16.minimum, TOP) | st.integers(-40, 40), min_size=1, max_size=40)


def defined(block):
    """Scale and codes by the documented definition."""
    scale = min(max(abs(value) for value in block), TOP)
    return scale, [bisect_left([middle * scale for middle in EXACT_MIDPOINTS], value) for value in block]


def quantised(block):
    codes, scale = quantise(np.array(block))
    assert codes.dtype == np.uint8
    return int(scale), codes.tolist()


def at_thresholds(scale):
    """A block with this scale: every integer around each threshold."""
    floors = [(scale * int(threshold)) >> THRESHOLD_FRACTION for threshold in THRESHOLDS]
    near = {floor + step for floor in floors for step in (-1, 0, 1, 2)}
    return [scale, -scale, *sorted(value for value in near if abs(value) <= scale)]


def test_levels_and_thresholds_fit_their_operands():
    assert [Fraction(int(one), 1 << THRESHOLD_FRACTION) for one in THRESHOLDS] == EXACT_MIDPOINTS
    assert any(int(one) % 2 for one in THRESHOLDS), "a bit less would do"
    assert (LEVELS[0], LEVELS[7], LEVELS[15]) == (-(1 << 16), 0, 1 << 16)
    assert max(int(abs(level)).bit_length() for level in LEVELS) + 1 == 18
    # 52 bits with the sign: the 15 products of a block
    assert (max(int(abs(one)) for one in THRESHOLDS) * TOP).bit_length() + 1 == 52


@given(blocks)
def test_codes_and_scale_are_as_defined(block):
    assert quantised(block) == defined(block)


@pytest.mark.parametrize("scale", [1, 2, 3, 5, 1000, 65536, 65537, 1 << 21, 1 << 22, 5_000_011, TOP])
def test_codes_around_every_threshold(scale):
    block = at_thresholds(scale)
    assert quantised(block) == defined(block)


def test_a_tie_gets_the_lower_code():
    # four midpoints have at most 21 fraction bits: Q8.16 integers at scale 32.0
    ties = [
        (code, int(middle * 2**21)) for code, middle in enumerate(EXACT_MIDPOINTS) if (middle * 2**21).denominator == 1
    ]
    assert [code for code, _ in ties] == [0, 1, 2, 9]
    for code, value in ties:
        assert quantised([1 << 21, value, value + 1])[1] == [15, code, code + 1]


@given(blocks)
def test_levels_are_rounded_once(block):
    codes, scale = quantise(np.array(block))
    exact = [round(Fraction(int(LEVELS[code]) * int(scale), 1 << 16)) for code in codes]
    assert dequantise(codes, scale).tolist() == exact


@given(blocks)
def test_order_is_kept(block):
    codes = quantise(np.sort(block))[0]
    assert (np.diff(codes.astype(int)) >= 0).all()


@given(blocks)
def test_the_error_is_half_the_widest_gap(block):
    codes, scale = quantise(np.array(block))
    # gap below code 1, rounding of the level and of the result, end of the range
    bound = float(scale) * ((CODES[1] - CODES[0]) / 2 + 2.0**-17) + 0.5 + (min(block) == Q8_16.minimum)
    assert np.abs(dequantise(codes, scale) - block).max() <= bound


@given(blocks)
def test_quantising_again_changes_nothing(block):
    once = dequantise(*quantise(np.array(block)))
    assert (dequantise(*quantise(once)) == once).all()


def test_codes_change_when_quantised_again_at_one_scale_only():
    changed = []
    # above 13 rounding cannot carry a level across a threshold: half the narrowest gap is 0.0398 of the scale
    for scale in range(1, 200):
        codes, scales = quantise(np.arange(-scale, scale + 1))
        again, same = quantise(dequantise(codes, scales))
        assert same == scale
        changed += [(scale, value) for value in np.flatnonzero(codes != again) - scale]
    # -4 of 5 has code 1, which represents -3.48; -3 has code 2
    assert changed == [(5, -4)]


def test_zeros():
    assert quantised([0, 0, 0]) == (0, [0, 0, 0])
    assert dequantise(np.arange(16, dtype=np.uint8), np.array(0)).tolist() == [0] * 16


@pytest.mark.parametrize(("value", "code"), [(1, 15), (-1, 0), (TOP, 15), (-TOP, 0)])
def test_a_single_value_is_exact(value, code):
    codes, scale = quantise(np.array([value]))
    assert (codes.tolist(), dequantise(codes, scale).tolist()) == ([code], [value])


def test_the_most_negative_value_saturates():
    codes, scale = quantise(np.array([Q8_16.minimum, TOP, 0]))
    assert (int(scale), codes.tolist()) == (TOP, [0, 15, 7])
    assert dequantise(codes, scale).tolist() == [-TOP, TOP, 0]


def test_levels_are_within_what_the_page_says_of_float32():
    assert np.abs(LEVELS - CODES.astype(np.float64) * 65536).max() == 0.38671875
    for scale in (1 << 16, 12 << 16, TOP):
        exact = np.ldexp(CODES.astype(np.float64) * scale, 0)
        error = np.abs(dequantise(np.arange(16, dtype=np.uint8), np.array(scale)) - exact).max()
        assert error <= 0.5 + 0.38671875 * scale / 65536


# ---- the float version


@given(blocks)
def test_floats_get_the_integers_codes(block):
    block = np.maximum(block, -TOP)
    codes, scale = quantise(block)
    expected = CODES[codes] * np.float32(np.ldexp(float(scale), -16))
    assert quantise_floats(np.ldexp(block, -16).astype(np.float32)).tolist() == expected.tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(value):
    with pytest.raises(UserError, match="NaN or infinite"):
        quantise_floats(np.array([1, value, 0], np.float32))


def test_floats_of_other_types_are_refused():
    with pytest.raises(UserError, match="float64"):
        quantise_floats(np.zeros(3))


# ---- bitsandbytes

LENGTH, ORDINARY = 64, 2000


@pytest.fixture
def bitsandbytes(nf4_operators):
    """Quantiser of bitsandbytes: rows to codes, packed bytes and scales."""
    quantise, _ = nf4_operators

    def run(rows):
        packed, scales = quantise(torch.from_numpy(rows), rows.shape[1], "nf4", torch.uint8)
        packed = packed.numpy().reshape(len(rows), -1)
        codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(rows.shape)
        return codes, packed, scales.numpy()

    return run


def test_it_has_the_same_levels_and_midpoints(bitsandbytes):
    # values around its thresholds: exact with scale 1
    for code, middle in enumerate(MIDPOINTS):
        steps = [middle, np.nextafter(middle, np.float32(2)), np.float32(1), np.float32(0)]
        assert bitsandbytes(np.array([steps]))[0][0].tolist() == [code, code + 1, 15, 7]


def rows_of_all_kinds():
    random = np.random.default_rng(4)
    spread = np.rint(random.standard_normal((ORDINARY, LENGTH)) * np.exp(random.uniform(0, 13, (ORDINARY, 1))))
    # rows of values within two steps of every threshold
    scales = np.concatenate([np.arange(1, 300), random.integers(1, TOP, 700)])
    near = [at_thresholds(int(scale)) for scale in scales]
    near = [(row + [0] * LENGTH)[:LENGTH] for row in near]
    return np.concatenate([np.clip(spread, -TOP, TOP), near]).astype(np.int64)


def test_codes_differ_from_bitsandbytes_only_where_its_reciprocal_rounds(bitsandbytes):
    rows = rows_of_all_kinds()
    ours, scales = quantise(rows)
    theirs, _, their_scales = bitsandbytes(rows.astype(np.float32))
    assert (their_scales == scales).all()

    # bitsandbytes computes a rounded reciprocal and a rounded product
    reciprocals = np.float32(1) / np.maximum(scales, 1).astype(np.float32)
    products = rows.astype(np.float32) * reciprocals[:, None]
    assert (np.searchsorted(MIDPOINTS, products.ravel(), side="left") == theirs.ravel()).all()

    differ = np.argwhere((ours != theirs) & (scales > 0)[:, None])
    for row, column in differ:
        value, scale = int(rows[row, column]), int(scales[row])
        low, high = sorted((int(ours[row, column]), int(theirs[row, column])))
        assert high == low + 1
        # each of its two roundings is off by at most 2**-24; fabtune's code is exact
        assert abs(Fraction(value, scale) - EXACT_MIDPOINTS[low]) < Fraction(1, 1 << 23)
        assert (value > EXACT_MIDPOINTS[low] * scale) == (ours[row, column] == high)
    assert (differ[:, 0] >= ORDINARY).all(), "none among 128,000 values that were not placed at thresholds"
    assert len(differ) == 717, "of the values around 999 x 15 thresholds"


def test_first_in_the_high_nibble_as_in_bitsandbytes(bitsandbytes):
    random = np.random.default_rng(5)
    values = random.integers(-TOP, TOP, (3, 2 * LENGTH))
    layout = RecordLayout(((2, LENGTH),))
    records = layout.quantise(values)
    _, packed, scales = bitsandbytes(values.reshape(6, LENGTH).astype(np.float32))
    assert (records[:, :LENGTH] == packed.reshape(3, LENGTH)).all()
    assert records[:, LENGTH:].tobytes() == scales.astype("<u4").tobytes()


def test_zeros_are_another_code_there(bitsandbytes):
    codes, _, scales = bitsandbytes(np.zeros((1, LENGTH), np.float32))
    assert (set(codes.ravel().tolist()), scales.tolist()) == ({7}, [0])


def test_floats_come_back_as_from_bitsandbytes(bitsandbytes):
    values = np.random.default_rng(6).standard_normal((1000, LENGTH)).astype(np.float32)
    codes, _, scales = bitsandbytes(values)
    assert (quantise_floats(values) == CODES[codes] * scales[:, None]).all()


# ---- records


def test_lenet5():
    assert LENET5.blocks == ((6, 196), (16, 25), (1, 120), (1, 84), (1, 10))
    assert (LENET5.values, LENET5.scales, LENET5.bytes) == (1790, 25, 995)
    assert record_layout(preset("lenet5-svhn")) == LENET5


@pytest.mark.parametrize(("network", "expected"), [("fan", ((1, 96), (1, 96), (1, 3))), ("digits", None)])
def test_other_networks(network, expected):
    layout = record_layout(preset(network))
    assert layout.blocks == (expected or ((8, 16), (1, 32), (1, 10)))
    assert layout.bytes == -(-layout.values // 2) + 4 * layout.scales


def test_a_record_by_hand():
    # blocks of 1 and 3, then one of 3: an odd total, codes without gaps between blocks
    layout = RecordLayout(((1, 1), (1, 3), (1, 3)))
    values = np.array([[-0x10203, 0, 70, 100, 0, 0, 0]])
    record = layout.quantise(values)
    codes = bytes([0x07, 0xEF, 0x00, 0x00])
    assert record.tobytes() == codes + bytes([3, 2, 1, 0]) + bytes([100, 0, 0, 0]) + bytes(4)
    assert layout.dequantise(record).tolist() == [[-0x10203, 0, 72, 100, 0, 0, 0]]


@given(st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_records_hold_what_blocks_give(samples, seed):
    random = np.random.default_rng(seed)
    layout = RecordLayout(tuple((int(a), int(b)) for a, b in random.integers(1, 5, (3, 2))))
    values = random.integers(-300, 300, (samples, layout.values))
    records = layout.quantise(values)
    assert (records.dtype, records.shape) == (np.uint8, (samples, layout.bytes))
    codes, scales = layout.unpack(records)
    assert (layout.pack(codes, scales) == records).all()
    found, floats = layout.dequantise(records), layout.quantise_floats(values.astype(np.float32))
    assert found.shape == floats.shape == values.shape
    at = number = 0
    for count, length in layout.blocks:
        for _ in range(count):
            part = np.s_[:, at : at + length]
            expected = quantise(values[part])
            assert (codes[part] == expected[0]).all()
            assert (scales[:, number] == expected[1]).all()
            assert (found[part] == dequantise(*expected)).all()
            assert (floats[part] == quantise_floats(values[part].astype(np.float32))).all()
            at, number = at + length, number + 1


def test_the_spare_nibble_is_not_read():
    layout = RecordLayout(((1, 1),))
    record = layout.quantise(np.array([[5]]))
    record[0, 0] |= 15
    assert layout.dequantise(record).tolist() == [[5]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RecordLayout(()), "at least 1 value"),
        (lambda: RecordLayout(((3, 0),)), "at least 1 value"),
        (lambda: quantise(np.zeros((2, 0), int)), "at least 1 value"),
        (lambda: quantise(np.zeros(3)), "integer, not float64"),
        (lambda: quantise(np.array([TOP + 1])), "found 8388608"),
        (lambda: dequantise(np.array([16], np.uint8), np.array(1)), "a code is 0 to 15"),
        (lambda: dequantise(np.zeros((2, 3), np.uint8), np.array(1)), "have scales"),
        (lambda: dequantise(np.zeros(3, np.uint8), np.array(-1)), "a scale is 0 to"),
        (lambda: LENET5.quantise(np.zeros((1, 1789), int)), r"\(n, 1790\), not \(1, 1789\)"),
        (lambda: LENET5.quantise(np.zeros(1790, int)), r"\(n, 1790\), not \(1790,\)"),
        (lambda: LENET5.dequantise(np.zeros((1, 994), np.uint8)), r"\(n, 995\)"),
        (lambda: LENET5.dequantise(np.zeros((1, 995), np.int64)), "bytes"),
        (lambda: LENET5.dequantise(np.full((1, 995), 255, np.uint8)), "a scale is 0 to"),
        (lambda: LENET5.pack(np.full((1, 1790), 16), np.zeros((1, 25), int)), "a code is 0 to 15"),
        (lambda: LENET5.pack(np.zeros((1, 1790), np.uint8), np.zeros((2, 25), int)), "1 samples, scales of 2"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
