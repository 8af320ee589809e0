"""Coverage of the random words in `nf4`'s benches."""

from fractions import Fraction

import numpy as np

from fabtune.golden.block import packets_of
from fabtune.golden.nf4.codec import LEVELS, quantise
from fabtune.golden.nf4.nf4_dequant import Nf4DequantSpec
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec
from fabtune.sim.nf4 import tb_nf4_dequant, tb_nf4_quant


def test_dequantisation_has_ties_of_both_kinds_and_both_ends():
    spec = Nf4DequantSpec()
    given = tb_nf4_dequant.stimulus(spec, np.random.default_rng(0), 300)["i"]
    products = LEVELS[given["code"]] * np.take_along_axis(given["scale"], given["select"], axis=1)
    ties = products[products & 0xFFFF == 0x8000] >> 16
    assert np.count_nonzero(ties % 2 == 0) > 50
    assert np.count_nonzero(ties % 2) > 50
    beside = np.abs((products & 0xFFFF) - 0x8000)
    assert all(np.count_nonzero(beside == 1 << bit) > 5 for bit in range(15))
    found = spec.run({"i": given}, 300)["o"]["value"]
    assert [found.min(), found.max()] == [-(2**23 - 1), 2**23 - 1]
    exact = [round(Fraction(int(product), 1 << 16)) for product in products.reshape(-1)]
    assert found.reshape(-1).tolist() == exact


def test_quantisation_has_ties():
    inputs = tb_nf4_quant.stimulus(Nf4QuantSpec(), np.random.default_rng(0), 3000)["i"]
    ties = 0
    for start, end in packets_of(inputs["last"]):
        block = inputs["value"][start:end, 0]
        codes, scale = quantise(block)
        # the next integer has another code: a tie, or the integer below a threshold
        higher = quantise(np.append(block + 1, scale).clip(-scale, scale))[0][:-1]
        ties += np.count_nonzero(codes != higher)
    assert ties > 300
