"""NF4 of weights compared with bitsandbytes and with `golden.nf4.codec`."""

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.nf4 import codec as nf4
from fabtune.golden.train.sparse.linear import BLOCK, BLOCK_BYTES, dequantise, quantise, unpack


@pytest.fixture
def bitsandbytes(nf4_operators):
    """Quantiser and dequantiser of bitsandbytes."""
    their_quantise, their_dequantise = nf4_operators

    def run(flat):
        packed, scales = their_quantise(flat, BLOCK, "nf4", torch.uint8)
        back = their_dequantise(packed, scales, BLOCK, "nf4", flat.shape, torch.float32)
        return packed.view(-1), scales, back

    return run


def test_bytes_and_values_are_bitsandbytes(bitsandbytes):
    flat = torch.randn(500 * BLOCK) * torch.rand(500 * BLOCK).exp()
    codes, scales = quantise(flat)
    packed, their_scales, back = bitsandbytes(flat)
    assert torch.equal(codes.view(-1), packed)
    assert torch.equal(scales, their_scales)
    assert torch.equal(dequantise(codes, scales), back)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_weights(bitsandbytes, dtype):
    flat = (torch.randn(100 * BLOCK) * 0.05).to(dtype)
    codes, scales = quantise(flat)
    assert torch.equal(codes.view(-1), bitsandbytes(flat.float())[0])
    assert scales.dtype == torch.float32


def test_values_are_those_of_golden_nf4():
    flat = torch.randn(30 * BLOCK)
    expected = nf4.quantise_floats(flat.numpy().reshape(-1, BLOCK))
    assert np.array_equal(dequantise(*quantise(flat)).numpy(), expected.ravel())


def test_codes_around_every_threshold_are_those_of_golden_nf4():
    # bitsandbytes' reciprocal may round to the wrong side here
    for scale in (1.0, 0.037, 3.3):
        middles = nf4.MIDPOINTS * np.float32(scale)
        near = np.concatenate([np.nextafter(middles, np.float32(side)) for side in (-9, 9)] + [middles])
        block = np.zeros(BLOCK, np.float32)
        block[: len(near)], block[-1] = near, scale
        found = dequantise(*quantise(torch.from_numpy(block))).numpy()
        assert np.array_equal(found, nf4.quantise_floats(block[None])[0])


def test_a_part_of_a_block_is_filled_with_zeros():
    flat = torch.randn(BLOCK + 5)
    codes, scales = quantise(flat)
    whole = quantise(torch.cat([flat, torch.zeros(BLOCK - 5)]))
    assert torch.equal(codes, whole[0])
    assert codes.numel() + 4 * scales.numel() == 2 * BLOCK_BYTES


def test_more_blocks_than_are_quantised_at_a_time(monkeypatch):
    flat = torch.randn(10 * BLOCK)
    whole = quantise(flat)
    monkeypatch.setattr("fabtune.golden.train.sparse.linear._CHUNK", 3)
    assert all(torch.equal(a, b) for a, b in zip(whole, quantise(flat), strict=True))


def test_zeros_are_dequantised_to_zeros():
    codes, scales = quantise(torch.zeros(BLOCK))
    assert scales.tolist() == [0]
    assert not codes.any()
    assert not dequantise(codes, scales).any()


def test_unpacked_codes():
    assert unpack(torch.tensor([[0x12, 0xFE]], dtype=torch.uint8)).tolist() == [1, 2, 15, 14]


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_nan_and_infinity_are_refused(value):
    with pytest.raises(UserError, match="NaN or infinite"):
        quantise(torch.tensor([1, value]))
