"""Learning-rate schedules compared with PyTorch's; refusals."""

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

from fabtune.golden.errors import UserError
from fabtune.golden.train.learning_rate import rate_factors

EPOCHS, BATCHES = 7, 5
COUNT = EPOCHS * BATCHES
OTHERS = {
    "constant": lambda own: lr_scheduler.ConstantLR(own, factor=1.0),
    "linear": lambda own: lr_scheduler.LinearLR(own, 1.0, 0.0, COUNT),
    "cosine": lambda own: lr_scheduler.CosineAnnealingLR(own, COUNT),
    "step:2": lambda own: lr_scheduler.StepLR(own, 2 * BATCHES),
    "step:3:0.5": lambda own: lr_scheduler.StepLR(own, 3 * BATCHES, 0.5),
}


@pytest.mark.parametrize("name", OTHERS)
def test_is_pytorchs(name):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    other, expected = OTHERS[name](optimiser), []
    for _ in range(COUNT):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        other.step()
    assert rate_factors(name, EPOCHS, BATCHES) == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize(
    "name", ["", "exponential", "cosine:3", "step", "step:0", "step:2:0", "step:2:1.5", "step:2:1:1"]
)
def test_others_are_refused(name):
    with pytest.raises(UserError, match="schedule"):
        rate_factors(name, EPOCHS, BATCHES)
