"""Forward engine on each kind of layer: outputs of every stage, at full speed and with stalls."""

import numpy as np
import pytest

from fabtune.golden.fixed import Narrower, q8_16_of_bytes
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.forward import run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.nn.array.images import frozen_image, samples_image
from fabtune.golden.nn.array.mapping import Mapping

from .inference import infer

NETWORKS = {
    "strides": "2x9x8 conv3k3x2p1s2x1 relu conv5k2p0,1,0,1s2 flatten fc3",
    "replicated rows": "1x9x7 conv3k4x3p1,0,1,1s2 relu pool2x1 flatten fc3",
    "residuals": "2x5x6 conv2k3p1 relu conv3k1@-1 conv3k3p0,2,1,1@1 add@3,2 relu pool2 conv3k2@-1 relu conv2k1@1 "
    "add@9,-1 pool2x3 flatten@6 fc5 flatten@8 fc5 add@15,13 relu flatten@11 fc5 add@19,17 fc3",
    "residuals of vectors": "9x1x1 flatten fc9 add@1,0 relu fc20 fc9 add@5,3 relu fc20 add@8,4 fc3",
    "limits": "2x6x5 conv3k3 relu6 pool2 flatten fc6 relu fc5 relu1.25 fc4",
    "a slope": "2x6x5 conv3k3 leaky0.01 pool2 flatten fc6 relu fc5 leaky0.01 fc4",
    "gates": "2x6x6 conv4k3p1 hswish pool3p1s2 conv3k1 leaky0.3 conv3k2 hswish flatten fc4 relu fc3",
    "slopes": "1x8x9 conv3k3 leaky0.3to0.5 avg2x1 conv3k1 relu dw2 leaky0.25 conv5k1 leaky0.3 pool2 flatten fc3",
    "averages": "1x8x9 conv3k3 relu avg2x1 conv3k1 avg3x7 conv5k1 relu flatten fc3",
    "a global average, behind it a vector": "2x5x5 conv6k3 relu avg3 flatten fc3",
    "an average of few sums": "1x4x4 conv3k1 avg1x2 flatten fc3",
    "one filter a channel": "3x6x5 dw3x2p1,0,1,1s1x2 relu conv19k1 relu dw3p1 relu6 conv4k1 dw1 "
    "flatten fc20 dw1 relu fc3",
    # a stage begins with the last lanes of the previous stage
    "one filter a channel, of a pixel": "2x3x3 conv16k1 dw3 relu conv5k1 flatten fc3",
    "one filter a channel, of a vector": "16x1x1 flatten fc16 dw1 fc3",
    "pools beyond the map": "2x9x8 conv3k3p1s2 relu pool3p1s2 conv5k3p1 pool2p0,1,1,0s1 conv5k1 pool2p0,1,1,0 "
    "flatten fc3",
    "a residual beyond the map": "1x7x5 conv4k3p1 relu conv4k3p1 add@2,1 leaky0.1 pool3x2p1,1,0,1s2x1 conv2k1 avg2 "
    "flatten fc3",
    "a sample beyond the map": "2x5x5 conv2k1 add@0,-1 pool3p1s1 flatten fc3",
    "pools behind one filter a channel": "3x9x8 conv5k1 relu dw3p1 relu pool2 dw3p1 avg2 conv4k1 dw3p1 pool2 "
    "flatten fc3",
    "residuals of one filter a channel": "3x6x6 conv20k1 relu dw3p1 add@2,1 leaky0.1 conv20k1s2 relu dw3p1s2@4 "
    "add@7,6 pool3p1s1 flatten fc3",
    "halves of the lanes": "3x5x4 conv8k3p1 relu conv7k3p1 relu pool3p1s2 conv9k3p1 relu6 conv5k3p0,1,1,1 avg2x1 "
    "flatten fc3",
    "halves of the lanes, and residuals": "8x4x5 conv8k3p1 add@0,-1 relu conv8k3p1 add@3,2 leaky0.1 pool3p1s2 "
    "conv9k1 dw3p1 add@8,7 avg2x1 conv8k3p1 flatten fc3",
    # half the lanes are fewer than the channels of a residual
    "halves of the lanes, and one residual that is whole": "8x4x4 conv16k3p1 relu conv8k1 conv16k3p1 add@3,1 relu "
    "flatten fc3",
    "maps of one dimension": "3x1x16 conv5k1x5p0,0,2,2s1x2 relu pool1x2 dw1x3p0,0,1,1 leaky0.1 conv4k1 "
    "conv4k1x3p0,0,1,1 add@6,5 relu avg1x4 flatten fc3",
    "pools that overlap": "1x8x7 conv3k2 pool3x2s2x1 flatten fc3",
    # parts read by other stages, one with more channels than lanes and a kernel of several rows and columns
    "concatenations": "2x4x3 conv18k2p0,1,0,1 relu conv3k1 relu cat@1,3 dw2 relu conv2k2p0,1,0,1@1 cat@3,7 conv3k1x2 "
    "pool3x2s1 flatten fc3 flatten@6 fc3 add@14,12",
    "a concatenation that is added, and one of vectors": "2x3x4 conv3k3p1 relu conv4k1 relu cat@1,3 conv7k1 add@5,4 "
    "leaky0.1 pool2 flatten fc5 relu fc4 relu cat@11,13 fc3",
    "groups": "4x4x3 conv8k2p0,1,0,1g2 relu conv8k1g2 add@2,1 relu conv12k2g2 avg2x1 conv8k1g4 flatten fc3",
    "groups of one turn": "4x4x4 conv8k3g4 relu conv4k2g2 flatten fc3",
    "as many columns as lanes": "3x5x5 conv20k3p1 relu dw2 relu dw1 add@4,3 conv9k2 pool2x1 relu flatten fc35 relu fc3",
    "two pixels": "1x6x7 conv8k1 relu conv4k3 relu1.5 pool2 dw1 relu conv3k1 flatten fc3",
    "two pixels, and slopes": "2x6x8 conv3k3p1 leaky0.3 pool1x2s1 conv4k3x2 avg4x1 conv2k1x3 leaky0.2 pool1x4 "
    "flatten fc3",
    "two pixels, and halves of the lanes": "3x6x7 conv4k3p1 relu pool2x4s2x1 conv8k3p1 relu conv32k3p1 relu "
    "conv3k1x2p0,0,1,0s2x1 flatten fc3",
}


COLUMNS = {
    "averages": 4,
    "an average of few sums": 8,
    "one filter a channel": 4,
    "halves of the lanes, and one residual that is whole": 8,
    "as many columns as lanes": 16,
    "two pixels": 8,
    "two pixels, and slopes": 8,
    "two pixels, and halves of the lanes": 8,
}


STALLED = (
    *("replicated rows", "averages", "one filter a channel", "halves of the lanes, and residuals"),
    *("concatenations", "groups", "two pixels, and slopes"),
)


LONG = (
    *("as many columns as lanes", "residuals of one filter a channel", "pools behind one filter a channel"),
    *("halves of the lanes, and one residual that is whole", "a residual beyond the map", "halves of the lanes"),
    *("halves of the lanes, and residuals", "two pixels", "two pixels, and halves of the lanes"),
    *("one filter a channel", "pools beyond the map", "concatenations"),
    *("averages", "groups", "slopes"),
)
"""Slow networks, with layers covered by other networks."""


@pytest.mark.parametrize(
    ("name", "stall"),
    [
        *(
            pytest.param(name, 0.4 if name in STALLED else 0.0, marks=[pytest.mark.slow] if name in LONG else [])
            for name in NETWORKS
        ),
        *(pytest.param(name, 0.0, marks=pytest.mark.slow) for name in STALLED),
    ],
)
def test_outputs_are_goldens(name: str, stall: float) -> None:
    network, pairs = network_from(NETWORKS[name]), name.startswith("two pixels")
    mapping = Mapping.of(network, lanes=16, columns=COLUMNS.get(name, 2), pairs="frozen" if pairs else "none")
    rng = np.random.default_rng(7)
    # large enough to clip sums, also of two pixels of a pool
    frozen = random_parameters(network, rng, gain=32 if pairs else 8)
    samples = rng.integers(0, 256, (2, *network.input_shape))
    narrower = Narrower()
    outputs = run(network.stages, frozen, q8_16_of_bytes(samples), product_of("int64"), narrower)
    found, _, clipped = infer(mapping, frozen_image(mapping, frozen), samples_image(mapping, samples), stall)
    assert found == [one.reshape(-1).tolist() for one in outputs]
    assert clipped == narrower.saturations


def test_networks_of_two_pixels_have_both_kinds_and_parts():
    kinds = set()
    for name in (one for one in NETWORKS if one.startswith("two pixels")):
        mapping = Mapping.of(network_from(NETWORKS[name]), lanes=16, columns=8, pairs="frozen")
        kinds |= {(stage.merged, stage.spread > 0) for stage in mapping.stages}
        kinds |= {stage.halved for stage in mapping.stages} - {False}
    assert kinds == {(True, False), (False, True), (False, False), True}
