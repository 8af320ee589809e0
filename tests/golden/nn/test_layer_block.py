"""`conv`, `depthwise` and `fc` compared with PyTorch in float64, exact for their sums."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, narrow
from fabtune.golden.nn.arithmetic.forward import PRODUCT_FRACTION
from fabtune.golden.nn.conv import ConvSpec
from fabtune.golden.nn.depthwise import DepthwiseSpec
from fabtune.golden.nn.fc import FcSpec
from fabtune.sim.nn.layer_block import random_parameters
from fabtune.sim.stimulus import random_activations

SPECS = [
    ConvSpec(),
    ConvSpec(kernel=(2,), padding=(0,), pool=(1,), activation="none", outputs=9, columns=2),
    ConvSpec(channels=1, height=12, width=9, kernel=(5,), padding=(2,), pool=(3,)),
    ConvSpec(height=11, kernel=(4, 3), stride=(2, 1), padding=(0, 1, 2, 0), pool=(3, 2), pool_stride=(1, 2)),
    ConvSpec(pool=(3, 2), pool_kind="average", activation="relu6"),
    ConvSpec(pool=(3, 2), activation="leaky0.01"),
    ConvSpec(pool=(3,), pool_stride=(2,), pool_padding=(1,), activation="none"),
    ConvSpec(width=9, pool=(2, 3), pool_stride=(1, 3), pool_padding=(1, 0, 0, 2)),
    ConvSpec(pool=(2,), pool_kind="average", activation="leaky0.3to3"),
    ConvSpec(channels=1, height=12, kernel=(5,), padding=(2,), columns=16),
    ConvSpec(outputs=7, pool=(2, 1), stride=(1, 3), padding=(1, 1, 2, 2), columns=16),
    DepthwiseSpec(),
    DepthwiseSpec(channels=35, kernel=(2,), padding=(0,), activation="none", columns=2),
    DepthwiseSpec(
        channels=5, height=11, kernel=(4, 3), stride=(2, 1), padding=(0, 1, 2, 0), activation="relu6", lanes=16
    ),
    DepthwiseSpec(activation="leaky0.25"),
    ConvSpec(activation="hswish", pool=(3, 2), pool_stride=(2, 1), pool_padding=(1, 1, 0, 1)),
    ConvSpec(activation="hswish", pool=(2,), pool_kind="average"),
    FcSpec(activation="hswish"),
    FcSpec(),
    FcSpec(inputs=7, outputs=5, activation="none", lanes=16, columns=8),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_job_equals_pytorchs(spec):
    rng = np.random.default_rng(0)
    own = random_parameters(spec, rng)
    samples = random_activations(rng, (4, *spec.stage.input_shape))
    x, w, b = (torch.tensor(one, dtype=torch.float64) for one in (samples, own.weight, own.bias << Q8_16.fraction))
    convolution, filters = isinstance(spec, ConvSpec), isinstance(spec, ConvSpec | DepthwiseSpec)
    if filters:
        top, bottom, left, right = spec.padding * (4 // len(spec.padding))
        padded, groups = functional.pad(x, (left, right, top, bottom)), 1 if convolution else spec.channels
        sums = functional.conv2d(padded, w, b, stride=spec.stride, groups=groups)
    else:
        sums = functional.linear(x, w, b)
    exact = torch.from_numpy(narrow(sums.numpy().astype(np.int64), PRODUCT_FRACTION, Q8_16)).double()
    if spec.activation == "hswish":
        gate = (exact + 3 * 2**16).clip(0, 6 * 2**16).div(6).round()
        exact = (exact * gate / 2**16).round()
    elif spec.stage.activation:
        limit = (spec.stage.activation.limit or 128) * 2**16
        slope = round(spec.stage.activation.slope * 2**16)
        # ties to even
        exact = torch.where(exact < 0, (exact * slope / 2**16).round(), exact.clip(max=limit))
    if convolution and spec.pool_kind == "average":
        # ties to even
        exact = functional.avg_pool2d(exact, spec.pool).round()
    elif convolution and spec.pool != (1,):
        top, bottom, left, right = spec.pool_padding * (4 // len(spec.pool_padding))
        beyond = functional.pad(exact, (left, right, top, bottom), value=-np.inf)
        exact = functional.max_pool2d(beyond, spec.pool, spec.pool_stride or spec.pool)
    found = spec.run(spec.load_words(own) | spec.sample_words(samples), 1 << 20)["o"]["activation"]
    assert np.array_equal(found[:, 0], exact.numpy().astype(np.int64).reshape(-1))
    assert len(found) == 4 * spec.sample_outputs


def test_a_sample_that_has_not_ended_gives_nothing():
    spec = FcSpec(inputs=7, outputs=5)
    rng = np.random.default_rng(0)
    inputs = spec.load_words(random_parameters(spec, rng)) | spec.sample_words(random_activations(rng, (2, 7)))
    inputs["i"]["activation"] = inputs["i"]["activation"][:13]
    assert len(spec.run(inputs, 99)["o"]["activation"]) == 5


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (ConvSpec, {"channels": 0}, "channels = 0"),
        (ConvSpec, {"outputs": 1025}, "outputs = 1025 is not in 1 to 1024"),
        (ConvSpec, {"kernel": (17,)}, "kernel = 17 is not one number of 1 to 16, or 2 of them"),
        (ConvSpec, {"padding": (1, 0)}, "padding = 1,0 is not one number of 0 to 15, or 4 of them"),
        (ConvSpec, {"stride": ()}, "stride =  is not one number"),
        (ConvSpec, {"height": 2, "padding": (0,)}, "a kernel of 3 does not fit"),
        (ConvSpec, {"pool": (11,)}, "windows of 11 x 11 do not fit"),
        (ConvSpec, {"pool_padding": (1,), "pool_kind": "average"}, "windows of an average end with the map"),
        (ConvSpec, {"pool_padding": (2,)}, "a padding of 2 is not less than the windows' 2 x 2"),
        (
            ConvSpec,
            {"pool": (3,), "pool_stride": (1,), "pool_padding": (2,)},
            "a pool whose padding is larger than its",
        ),
        (ConvSpec, {"pool_stride": (1,), "pool_kind": "average"}, "windows of an average do not overlap"),
        (ConvSpec, {"activation": "relu6 relu"}, "activation = 'relu6 relu' is no activation, as relu, relu6"),
        (ConvSpec, {"pool_stride": (3,)}, "a stride of 3 x 3 is not 1 to the window's 2 x 2"),
        (DepthwiseSpec, {"channels": 1025}, "channels = 1025 is not in 1 to 1024"),
        (DepthwiseSpec, {"height": 2, "padding": (0,)}, "a kernel of 3 does not fit"),
        (DepthwiseSpec, {"activation": "relu0"}, "a limit is above 0, not 0.0"),
        (ConvSpec, {"activation": "leaky1"}, r"a slope is 0 or 2\*\*-16 to less than 1, not 1.0"),
        (FcSpec, {"activation": "leaky1e-06"}, r"a slope is 0 or 2\*\*-16 to less than 1, not 1e-06"),
        (FcSpec, {"inputs": 0}, "inputs = 0"),
        (FcSpec, {"inputs": 8192, "outputs": 8192}, "they are kept on the chip"),
        (FcSpec, {"lanes": 24}, "lanes = 24"),
        (FcSpec, {"columns": 32}, "columns = 32"),
    ],
)
def test_wrong_parameters_are_refused(kind, settings, message):
    with pytest.raises(UserError, match=message):
        kind(**settings)
