"""Jobs with double ties: golden's gradients, and the updated parameters, lie half-way between two numbers."""

import numpy as np
import pytest

from fabtune.golden.fixed import Narrower
from fabtune.golden.lora.adapters import BATCH_GRADIENT, NOISE_BITS
from fabtune.golden.nn.arithmetic.forward import PRODUCT_FRACTION, run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.softmax import SoftmaxTables
from fabtune.sim.cores.instantft.ties import RATE, WINNER, tie_adapters, tie_parameters

from ....small_cores import instantft


@pytest.mark.parametrize("seed", range(3))
def test_gradients_and_updates_are_ties_beside_others(seed: int) -> None:
    spec, rng, narrow = instantft(), np.random.default_rng(seed), Narrower()
    network, product = spec.described, product_of("int64")
    adapters = tie_adapters(spec.mapping.shape, rng)
    sample = rng.integers(0, 1 << 16, (1, *network.input_shape))
    outputs = run(network.stages, tie_parameters(network, rng), sample, product, narrow)
    inputs = [one.reshape(1, -1) for one in (sample, *outputs)]
    h = adapters.hidden(inputs[:-1], product, narrow)
    logits = adapters.logits(inputs[-1], h, product, narrow)
    gradient = SoftmaxTables().gradient(logits, np.array([WINNER + 1]))
    np.testing.assert_array_equal(gradient, [[1 << 12, -1 << 12] + [0] * (spec.labels - 2)])
    by_adapter = np.split(adapters.hidden_gradient(gradient, product, narrow), len(adapters.a), axis=1)
    sums = np.concatenate([product(x.T, one).ravel() for x, one in zip(inputs, by_adapter, strict=False)])
    dropped = PRODUCT_FRACTION - BATCH_GRADIENT.fraction
    tied = sums % (1 << dropped) == 1 << dropped - 1
    assert tied.sum() > 20
    assert (sums[~tied] & 0b10).sum() > 20
    steps = narrow(sums, PRODUCT_FRACTION, BATCH_GRADIENT) * RATE
    both = tied & (steps % (1 << NOISE_BITS) == 1 << NOISE_BITS - 1)
    assert both.sum() > 20
    assert (adapters.flat[: both.size][both] % 2 == 0).all()
