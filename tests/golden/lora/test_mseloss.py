"""The gradient computed by hand, and PyTorch's gradient of the mean squared error."""

import numpy as np
import torch

from fabtune.golden.block import last_flags
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower
from fabtune.golden.lora.mseloss import MselossSpec, mse_gradient, rate_scale


def test_by_hand():
    logits, targets = [0x10000, 24, 8, -8, 0x7FFFFF, 0], [0, 0, 0, 0, 0, 0x7FFFFF]
    inputs = {
        "i": {"logit": np.array(logits)[:, None], "last": last_flags([2, 4])},
        "target": {"target": np.array(targets)[:, None]},
    }
    found = MselossSpec().run(inputs, 6)["o"]
    assert found["gradient"][:, 0].tolist() == [4096, 2, 0, 0, 32767, -32768]
    assert found["clipped"][:, 0].tolist() == [0, 0, 0, 0, 1, 1]
    assert np.array_equal(found["last"], inputs["i"]["last"])


def test_it_is_pytorchs_gradient():
    rng = np.random.default_rng(0)
    logits, targets = Q8_16.from_float(rng.normal(0, 1, (2, 7, 40)))
    values = torch.from_numpy(Q8_16.to_float(logits)).requires_grad_()
    torch.nn.functional.mse_loss(values, torch.from_numpy(Q8_16.to_float(targets))).backward()
    found = Q4_12.to_float(mse_gradient(logits, targets, Narrower())) * rate_scale(40) / len(logits)
    # half a last place, plus float64 rounding
    most = 2.0**-13 * rate_scale(40) / len(logits)
    assert np.abs(found - values.grad.numpy()).max() < 1.0001 * most
