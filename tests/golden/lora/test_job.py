"""Integer job compared with a reference in Python integers and loops, and with itself."""

from fractions import Fraction
from itertools import pairwise
from math import exp, floor

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.lora.adapters import Adapters, AdapterSizes
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.job import Job
from fabtune.golden.lora.update_noise import UpdateNoise
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool
from fabtune.golden.models.network import Network
from fabtune.golden.models.text import preset
from fabtune.golden.nn.arithmetic.forward import StageIntegers
from fabtune.golden.rng.urng import UrngSpec

NETWORK = Network("n", (1, 5, 5), (Convolution(2, 2), Relu(), MaxPool(2), Flatten(), Linear(4), Relu(), Linear(3)))
SHAPE = AdapterSizes((25, 8, 4), 3, 2)
RATE = 3000
SAMPLES = 8
NF4 = (
    *(["-1.0", "-0.6961928009986877", "-0.5250730514526367", "-0.39491748809814453", "-0.28444138169288635"]),
    *(["-0.18477343022823334", "-0.09105003625154495", "0.0", "0.07958029955625534", "0.16093020141124725"]),
    *(
        [
            "0.24611230194568634",
            "0.33791524171829224",
            "0.44070982933044434",
            "0.5626170039176941",
            "0.7229568362236023",
            "1.0",
        ]
    ),
)


def material(seed=0):
    rng = np.random.default_rng(seed)
    frozen = [
        StageIntegers(rng.integers(-3000, 3000, stage.weight_shape), rng.integers(-3000, 3000, stage.biases))
        for stage in NETWORK.stages
    ]
    adapters = Adapters(SHAPE, rng.integers(-2000, 2000, SHAPE.parameters))
    inputs = rng.integers(0, 1 << 16, (SAMPLES, 1, 5, 5))
    return frozen, adapters, inputs, rng.integers(0, 3, SAMPLES)


def job(cache=None, seed=0, **kwargs):
    frozen, adapters, inputs, labels = material(seed)
    codec = {"words": WordCodec, "nf4": record_layout}.get(cache)
    kept = ForwardCache(NETWORK, codec(NETWORK), SAMPLES) if codec else None
    return Job(NETWORK, frozen, adapters, RATE, kept, **kwargs), inputs, labels


# -- the reference: value by value
# --------------------------------------------------------------------------------------


def rounded(value, target_bits):
    """A Fraction rounded to the nearest integer, ties to even, saturated to a width."""
    low = floor(value)
    rest = value - low
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2)
    return min(max(low + up, -(1 << (target_bits - 1))), (1 << (target_bits - 1)) - 1)


def activation(sum_of_products):
    return rounded(Fraction(int(sum_of_products), 1 << 12), 24)


def frozen_outputs(frozen, image):
    (conv, first, last), image = frozen, image.tolist()[0]
    maps = []
    for weight, bias in zip(conv.weight.tolist(), conv.bias.tolist(), strict=True):
        pixels = [
            [
                max(
                    0,
                    activation(
                        sum(weight[0][i][j] * image[y + i][x + j] for i in (0, 1) for j in (0, 1)) + (bias << 16)
                    ),
                )
                for x in range(4)
            ]
            for y in range(4)
        ]
        maps += [
            max(pixels[y][x], pixels[y + 1][x], pixels[y][x + 1], pixels[y + 1][x + 1]) for y in (0, 2) for x in (0, 2)
        ]
    rows = zip(first.weight.tolist(), first.bias.tolist(), strict=True)
    middle = [max(0, activation(sum(w * x for w, x in zip(row, maps, strict=True)) + (b << 16))) for row, b in rows]
    rows = zip(last.weight.tolist(), last.bias.tolist(), strict=True)
    return (
        maps,
        middle,
        [activation(sum(w * x for w, x in zip(row, middle, strict=True)) + (b << 16)) for row, b in rows],
    )


def through_nf4(values):
    codes = [Fraction(np.float32(code).item()) for code in NF4]
    middles = [Fraction(((np.float32(a) + np.float32(b)) / np.float32(2)).item()) for a, b in pairwise(NF4)]
    largest = max(abs(value) for value in values)
    found = [sum(value > middle * largest for middle in middles) for value in values]
    return [rounded(Fraction(rounded(codes[code] * 2**16, 30) * largest, 1 << 16), 24) for code in found]


def probabilities(logits):
    distances = [min(rounded(Fraction(max(logits) - logit, 1 << 9), 40), 2047) for logit in logits]
    terms = [0 if d == 2047 else round(exp(-d / 128) * 2**17) for d in distances]
    octave = sum(terms).bit_length() - 18
    place = min(rounded(Fraction(sum(terms), 1 << (octave + 7)) - 1024, 30), 1023)
    inverse = round(2**16 / (1 + place / 1024))
    return [rounded(Fraction(term * inverse, 1 << (21 + octave)), 16) for term in terms]


def second_job(frozen, adapters, inputs, labels, order, through, rates):
    """Run all batches; returns A and B of each adapter as nested lists."""
    pairs = [[a.tolist(), b.tolist()] for a, b in adapters.pairs()]
    for batch, rate in zip(order, rates, strict=True):
        sums = [[[0] * len(a[0]) for _ in a] for a, _ in pairs], [[[0] * 2 for _ in range(3)] for _ in pairs]
        for sample in batch:
            maps, middle, base = frozen_outputs(frozen, inputs[sample])
            if through is not None:
                maps = through(maps[:4]) + through(maps[4:])
                middle, base = through(middle), through(base)
            read = [inputs[sample].reshape(-1).tolist(), maps, middle]
            h = [
                [activation(sum(w * v for w, v in zip(row, x, strict=True))) for row in a]
                for (a, _), x in zip(pairs, read, strict=True)
            ]
            logits = [
                activation(
                    (base[c] << 12) + sum(b[c][k] * hk[k] for (_, b), hk in zip(pairs, h, strict=True) for k in (0, 1))
                )
                for c in range(3)
            ]
            g = probabilities(logits)
            g[labels[sample]] -= 4096
            for at, (_, b) in enumerate(pairs):
                for k in (0, 1):
                    dh = rounded(Fraction(sum(g[c] * b[c][k] for c in range(3)), 1 << 12), 16)
                    for i, value in enumerate(read[at]):
                        sums[0][at][k][i] += dh * value
                    for c in range(3):
                        sums[1][at][c][k] += g[c] * h[at][k]
        for which in (0, 1):
            for pair, total in zip(pairs, sums[which], strict=True):
                for row, steps in zip(pair[which], total, strict=True):
                    for i, step in enumerate(steps):
                        mean = rounded(Fraction(step, 1 << 12), 27)
                        row[i] = rounded(row[i] - Fraction(mean * rate, 1 << 24), 16)
    return pairs


@pytest.mark.parametrize(
    ("cache", "through", "rates"),
    [
        (None, None, [RATE] * 6),
        ("words", None, [RATE] * 6),
        ("nf4", through_nf4, [RATE] * 6),
        (None, None, [6000, 1, 131_071, 10, 2000, 500]),
    ],
)
def test_is_what_plain_python_computes(cache, through, rates):
    one, inputs, labels = job(cache)
    order = [[0, 1, 2], [3, 4, 5], [6, 7], [7, 3, 0], [1, 2, 4], [5, 6]]
    for batch, rate in zip(order, rates, strict=True):
        one.batch(inputs[batch], labels[batch], np.array(batch), None if rate == RATE else rate)
    frozen, adapters, *_ = material()
    expected = second_job(frozen, adapters, inputs, labels, order, through, rates)
    for (a, b), (expected_a, expected_b) in zip(one.adapters.pairs(), expected, strict=True):
        assert a.tolist() == expected_a
        assert b.tolist() == expected_b
    assert not np.array_equal(one.adapters.flat, adapters.flat)


# -- the job against itself ------------------------------------------------------------------------------------------


def tuned(one, inputs, labels, epochs=3):
    for _ in range(epochs):
        for batch in np.split(np.arange(SAMPLES), [3, 6]):
            one.batch(inputs[batch], labels[batch], batch)
    return one.adapters.flat


def test_products_agree_in_every_bit():
    results = [tuned(*job("nf4", products=products)) for products in ("blas", "int64", "torch")]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_full_cache_changes_nothing_but_work():
    assert np.array_equal(tuned(*job()), tuned(*job("words")))


def test_nf4_changes_results():
    assert not np.array_equal(tuned(*job()), tuned(*job("nf4")))


def test_a_sample_is_computed_once():
    one, inputs, labels = job("nf4")
    batch = np.array([4, 4, 5])
    assert [one.batch(inputs[batch], labels[batch], batch).misses for _ in range(2)] == [2, 0]
    # on a cache hit the input adapter still reads the sample, but the frozen network does not run
    one.frozen = ()
    one.batch(inputs[batch], labels[batch], batch)


def test_stochastic_rounding_is_unbiased_and_repeatable():
    flats = [tuned(*job("nf4", noise=UpdateNoise.by_parameter(UrngSpec(bits=14), SHAPE.parameters))) for _ in range(2)]
    assert np.array_equal(*flats)
    nearest = tuned(*job("nf4"))
    difference = flats[0] - nearest
    assert 0 < np.abs(difference).max() <= 8
    assert abs(difference.mean()) < 1


def test_logits_change_no_state():
    one, inputs, _ = job("nf4")
    before = one.adapters.flat.copy(), one.cache.records.copy(), one.saturations
    first = one.logits(inputs)
    assert first.shape == (SAMPLES, 3)
    assert np.array_equal(before[0], one.adapters.flat)
    assert np.array_equal(before[1], one.cache.records)
    assert before[2] == one.saturations


def test_refuses_what_does_not_fit():
    one, inputs, labels = job("nf4")
    batch = np.arange(3)
    with pytest.raises(UserError, match="is outside 0 to 2"):
        one.batch(inputs[batch], np.array([0, 3, 1]), batch)
    with pytest.raises(UserError, match="beyond the cache's 8 samples"):
        one.batch(inputs[batch], labels[batch], np.array([0, 8, 1]))
    with pytest.raises(UserError, match="beyond the cache's 8 samples"):
        one.batch(inputs[batch], labels[batch], np.array([0, -1, 1]))
    with pytest.raises(UserError, match="1 to 131071, not 131072"):
        one.batch(inputs[batch], labels[batch], batch, rate=1 << 17)
    with pytest.raises(UserError, match=r"is n x \(1, 5, 5\)"):
        one.batch(inputs[batch, 0], labels[batch], batch)
    frozen, adapters, *_ = material()
    with pytest.raises(UserError, match="do not fit n"):
        Job(NETWORK, frozen, Adapters(AdapterSizes((25,), 3, 2), np.zeros(56)), RATE)
    with pytest.raises(UserError, match="1 to 131071, not 0"):
        Job(NETWORK, frozen, adapters, 0)
    with pytest.raises(UserError, match="do not fit"):
        Job(NETWORK, frozen[::-1], adapters, RATE)


def test_products_agree_on_lenet_5():
    network = preset("lenet5-mnist")
    flats = []
    for products in ("blas", "int64", "torch"):
        rng = np.random.default_rng(5)
        frozen = [
            StageIntegers(rng.integers(-700, 700, stage.weight_shape), rng.integers(-300, 300, stage.biases))
            for stage in network.stages
        ]
        shape = AdapterSizes(tuple(stage.inputs for stage in network.stages), 10, 4)
        adapters = Adapters(shape, rng.integers(-300, 300, shape.parameters))
        cache = ForwardCache(network, record_layout(network), 100)
        one = Job(network, frozen, adapters, 5243, cache, products=products)
        inputs, labels = rng.integers(0, 1 << 16, (100, 1, 28, 28)), rng.integers(0, 10, 100)
        for _ in range(2):
            for batch in np.split(rng.permutation(100), range(20, 100, 20)):
                one.batch(inputs[batch], labels[batch], batch)
        assert one.cache.records.nbytes == 100 * 995
        flats.append((one.adapters.flat, one.cache.records, one.logits(inputs), one.saturations))
    for other in flats[1:]:
        assert all(np.array_equal(*pair) for pair in zip(flats[0], other, strict=True))
