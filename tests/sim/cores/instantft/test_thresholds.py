"""Networks with logits at thresholds of NF4: golden's forward pass gives the scale and both sides of a threshold."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.fixed import Narrower
from fabtune.golden.nf4.codec import THRESHOLD_FRACTION, THRESHOLDS, quantise
from fabtune.golden.nn.arithmetic.forward import run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.sim.cores.instantft.thresholds import threshold_parameters, threshold_scales


def test_scales_have_a_product_close_to_a_whole_number() -> None:
    products = np.array(threshold_scales())[:, None] * THRESHOLDS % (1 << THRESHOLD_FRACTION)
    distance = np.minimum(products, (1 << THRESHOLD_FRACTION) - products)
    assert len(products) > len(THRESHOLDS)
    assert (distance.min(axis=1) < 1 << 11).all()  # of a last place less than 2**-17


@pytest.mark.parametrize(
    "text", ["1x6x6 conv16k3p1 relu pool2 conv8k2 relu flatten fc28 relu fc10", "40 fc6 relu fc40"]
)
def test_logits_are_the_scale_and_lie_at_thresholds(text: str) -> None:
    rng, network = np.random.default_rng(0), InstantftSpec(network=text, lanes=16).described
    for scale in threshold_scales():
        frozen = threshold_parameters(network, scale, rng)
        inputs = rng.integers(-1000, 1000, (2, *network.input_shape))
        logits = run(network.stages, frozen, inputs, product_of("int64"), Narrower())[-1].reshape(2, -1)
        assert logits.max() == scale
        floors = scale * THRESHOLDS >> THRESHOLD_FRACTION
        others = np.setdiff1d(logits[0], [scale])
        assert np.isin(others, [*floors, *(floors + 1)]).all()
        # both sides of a threshold, with different codes
        one, following = next((one, one + 1) for one in others if one + 1 in others)
        (codes,), _ = quantise(np.array([[scale, one, following]]))
        assert codes[2] == codes[1] + 1
