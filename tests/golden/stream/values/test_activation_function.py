"""`activation_function` compared with PyTorch in float64, with and without shifts; its limits."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.stream.values.activation_function import KINDS, ActivationFunctionSpec

FLOATS = {
    "none": torch.clone,
    "relu": torch.relu,
    "relu-squared": torch.relu,  # its square is the product of another part
    "gelu": functional.gelu,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}


def outputs(values, kind, input_shift=0, output_shift=0):
    settings = {"kind": KINDS.index(kind), "input_shift": input_shift, "output_shift": output_shift}
    given = {"value": values[:, None], **{name: np.full((len(values), 1), one) for name, one in settings.items()}}
    found = ActivationFunctionSpec(lanes=1).run({"i": given}, len(values))["o"]
    return found["value"][:, 0], found["clipped"][:, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("input_shift", "output_shift"), [(0, 0), (5, 5), (3, 0), (0, 4)])
def test_values_are_pytorch_s(kind, input_shift, output_shift):
    values = np.random.default_rng(1).integers(-(1 << 19), 1 << 19, 4000)
    exact = FLOATS[kind](torch.from_numpy(np.ldexp(values.astype(np.float64), input_shift - 16))).numpy()
    found, clipped = outputs(values, kind, input_shift, output_shift)
    # one and a half last places of 16 fraction bits, and the second rounding
    unit = 2.0 ** (output_shift - 16)
    most = 1.5 * 2.0**-16 + unit / 2
    inside = np.abs(exact) < Q8_16.maximum * unit
    assert np.abs(found * unit - exact)[inside].max() <= most
    assert clipped[~inside].all()
    assert not clipped[np.abs(exact) < (Q8_16.maximum - 2) * unit].any()


def test_what_does_not_fit_is_clipped_and_said():
    found, clipped = outputs(np.array([Q8_16.maximum, Q8_16.minimum, 1 << 20]), "relu", input_shift=7)
    assert found.tolist() == [Q8_16.maximum, 0, Q8_16.maximum]
    assert clipped.tolist() == [1, 0, 1]


@pytest.mark.parametrize(("settings", "message"), [({"lanes": 0}, "lanes = 0"), ({"tag": 33}, "tag = 33")])
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        ActivationFunctionSpec(**settings)
