"""Weight path compared with PyTorch in float64, with bitsandbytes, and with `tile`."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fabtune.golden.errors import UserError
from fabtune.golden.nf4.codec import quantise
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.tile import TileSpec
from fabtune.golden.zo.weight_path import WeightPathSpec

BLOCK = 64
LAST_PLACES = 4096
LEVELS = 65536
# QLoRA, appendix E
NORMAL_FLOAT = torch.tensor(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022833234, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    dtype=torch.float64,
)


def tensor(rng, count, largest=32767, rate=0.01):
    """Codes, scales, corrections."""
    indices = np.flatnonzero(rng.random(count) < rate)
    return (
        rng.integers(0, 16, count).astype(np.uint8),
        rng.integers(0, largest, -(-count // BLOCK), endpoint=True),
        indices,
        rng.integers(-32768, 32768, len(indices)),
    )


def path(spec, given, sign, numbers):
    """Output weights of one tensor, as a row."""
    codes, scales, indices, values = given
    inputs = spec.packet(codes, scales, BLOCK, indices, values, sign)
    beats = len(inputs["codes"]["last"])
    inputs["u"] = {"number": numbers[:beats]} if sign else {"number": numbers[:0]}
    result = spec.run(inputs, beats)["o"]
    assert not result["error"].any()
    assert result["last"].sum() == result["last"][-1, 0] == 1
    return result["weight"].ravel()[: len(codes)]


def torchs(given, sign, z, eps):
    """The same in float64, every step exact or rounded by `torch.round`, half to even."""
    codes, scales, indices, values = (torch.from_numpy(np.asarray(one)) for one in given)
    levels = torch.round(NORMAL_FLOAT * LEVELS) / LEVELS
    whole = scales.repeat_interleave(BLOCK)[: len(codes)]
    dense = torch.round(levels[codes.long()] * whole)
    dense.index_add_(0, indices, values.double()).clamp_(-32768, 32767)
    step = torch.round(torch.from_numpy(z)[: len(codes)] * eps * LAST_PLACES)
    return (dense + sign * step).clamp(-32768, 32767)


@settings(max_examples=60)
@given(
    st.sampled_from([8, 16, 32, 64]),
    st.sampled_from([1, -1, 0]),
    st.integers(1, 700),
    st.integers(3, 12),
    st.sampled_from([0, 0.001, 0.05, 1]),
    st.integers(0, 2**32),
)
def test_every_bit_is_torchs(lanes, sign, count, eps_shift, rate, seed):
    rng = np.random.default_rng(seed)
    spec = WeightPathSpec(lanes=lanes, numbers=lanes, eps_shift=eps_shift)
    given = tensor(rng, count, rate=rate)
    numbers = rng.integers(-2048, 2048, (-(-count // lanes), lanes))
    expected = torchs(given, sign, numbers.ravel() / 1024.0, 2.0**-eps_shift)
    assert (path(spec, given, sign, numbers) == expected.numpy()).all()


def test_the_dense_part_is_what_bitsandbytes_dequantises(nf4_operators):
    _, dequantise = nf4_operators
    rng = np.random.default_rng(0)
    count = 64 * BLOCK
    codes, scales, nothing, _ = tensor(rng, count, rate=0)
    packed = torch.from_numpy(codes[::2] << 4 | codes[1::2])[:, None]
    theirs = dequantise(packed, torch.from_numpy(scales).float(), BLOCK, "nf4", (count,), torch.float32).numpy()
    ours = path(WeightPathSpec(), (codes, scales, nothing, nothing), 0, np.zeros((0, 8), np.int64))
    # half a last place from rounding, plus half of 2**-16 from the level, times the scale
    allowed = 0.5 + np.repeat(scales, BLOCK) * (2**-17 + 2**-23)
    assert (np.abs(ours - theirs) <= allowed).all()
    assert np.count_nonzero(np.rint(theirs) != ours) < count // 10


@pytest.mark.parametrize("preset", ["pool", "otf8", "otf14"])
def test_it_moves_weights_as_the_tile_does(preset):
    rng = np.random.default_rng(1)
    tile = build(TileSpec, ["overflow=wrap"], preset)
    spec = build(WeightPathSpec, ["overflow=wrap"], preset)
    codes, scales, indices, values = tensor(rng, 1000)
    inputs = spec.packet(codes, scales, BLOCK, indices, values, 0)
    base = spec.run(inputs | {"u": tile.pezo.words_at(np.arange(0))}, 32)["o"]["weight"]
    for sign, expected in zip((1, -1), tile.step(base.ravel(), 77)[:2], strict=True):
        inputs = spec.packet(codes, scales, BLOCK, indices, values, sign)
        numbers = tile.pezo.words_at(77 + np.arange(32))
        inputs["u"] = numbers | {"number": numbers["number"][:, : spec.perturb.used]}
        assert (spec.run(inputs, 32)["o"]["weight"].ravel() == expected).all()


@pytest.mark.parametrize("preset", PezoSpec.presets)
def test_a_preset_is_a_sources_format(preset):
    tile, spec = build(TileSpec, [], preset), build(WeightPathSpec, [], preset)
    names = ("numbers", "number", "odd", "scale")
    assert [getattr(tile.perturb, name) for name in names] == [getattr(spec, name) for name in names]


def test_sensitive_weights_come_back_to_the_bit():
    rng = np.random.default_rng(2)
    weights = np.clip(np.rint(rng.standard_normal(4096) * 300), -32767, 32767).astype(np.int64)
    sensitive = np.sort(rng.choice(4096, 41, replace=False))
    rest = weights.copy()
    rest[sensitive] = 0
    codes, scales = quantise(rest.reshape(-1, BLOCK))
    given = codes.ravel(), scales, sensitive, weights[sensitive]
    found = path(WeightPathSpec(), given, 0, np.zeros((0, 8), np.int64))
    assert (found[sensitive] == weights[sensitive]).all()
    # elsewhere at most half the widest gap between two levels
    assert (np.abs(found - weights) <= np.repeat(scales, BLOCK) * 0.152 + 1).all()


def test_a_packet_that_is_not_perturbed_takes_no_numbers():
    rng = np.random.default_rng(3)
    spec = WeightPathSpec(lanes=8, numbers=8)
    given = tensor(rng, 160, largest=1000, rate=0)
    parts = [spec.packet(*given[:2], BLOCK, *given[2:], sign) for sign in (1, 0, -1)]
    inputs = {
        port: {name: np.concatenate([part[port][name] for part in parts]) for name in parts[0][port]}
        for port in ("codes", "sparse")
    }
    inputs["u"] = {"number": rng.integers(-2048, 2048, (40, 8))}
    plus, plain, minus = spec.run(inputs, 60)["o"]["weight"].reshape(3, -1)
    assert (plus - plain == spec.perturb.delta(inputs["u"]["number"][:20]).ravel()).all()
    assert (plain - minus == spec.perturb.delta(inputs["u"]["number"][20:]).ravel()).all()


def test_blocks_need_not_end_with_a_beat():
    rng = np.random.default_rng(4)
    spec = WeightPathSpec(lanes=32, scales=4)
    codes = rng.integers(0, 16, 250).astype(np.uint8)
    scales = rng.integers(0, 32768, 10)
    none = np.zeros(0, np.int64)
    inputs = spec.packet(codes, scales, 25, none, none, 0) | {"u": {"number": np.zeros((0, 8), np.int64)}}
    found = spec.run(inputs, 8)["o"]["weight"].ravel()
    levels = torch.round(NORMAL_FLOAT * LEVELS) / LEVELS
    expected = torch.round(levels[torch.from_numpy(codes).long()] * torch.from_numpy(np.repeat(scales, 25)))
    assert (found[:250] == expected.numpy()).all()
    assert not found[250:].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codes": np.full(100, 16)}, "a code is 0 to 15; found 16 to 16"),
        ({"codes": np.zeros((2, 50), np.uint8)}, "do not fit scales"),
        ({"scales": np.zeros(3, np.int64)}, "do not fit scales"),
        ({"scales": np.array([1, 32768])}, "0 to 32767; found 1 to 32768"),
        ({"sign": 2}, "sign = 2"),
        ({"indices": np.array([100]), "values": np.array([1])}, "0 to 99; found 100"),
        ({"block": 25, "scales": np.zeros(4, np.int64)}, "has 2 blocks of 25; scales = 1"),
    ],
)
def test_wrong_packets_are_refused(changes, message):
    none = np.zeros(0, np.int64)
    whole = {"codes": np.zeros(100, np.uint8), "scales": np.zeros(2, np.int64), "block": BLOCK}
    whole |= {"indices": none, "values": none, "sign": 1} | changes
    with pytest.raises(UserError, match=message):
        WeightPathSpec().packet(**whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 128}, "lanes = 128 is not 8, 16, 32 or 64"),
        ({"scales": 0}, "scales = 0"),
        ({"numbers": 0}, "numbers = 0"),
        ({"index_bits": 40}, "index_bits = 40"),
        ({"eps_shift": 1}, "eps_shift = 1"),
        ({"overflow": "clip"}, "overflow = 'clip'"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        WeightPathSpec(**changes)
