"""Zeroth-order job with mean squared error: projected gradients compared with PyTorch, losses, refusals."""

import numpy as np
import pytest
import torch

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.loss_difference import DIFFERENCE_FRACTION
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.mse_difference import mean_squared_error, rate_scale
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.golden.zo.step_settings import StepSettings

OUTPUTS = 20
MAPPING = PerturbationMapping(Mapping.of(network_from(f"{OUTPUTS} fc6 relu fc{OUTPUTS}"), 16, 2, byte_inputs=False))
SOURCE = PezoSpec()
BATCH = 16


@pytest.fixture(name="inputs")
def _inputs():
    """Samples with three hidden values, and labels."""
    rng = np.random.default_rng(0)
    return Q8_16.from_float(rng.normal(0, 1, (BATCH, 3)) @ rng.normal(0, 0.6, (3, OUTPUTS))), np.zeros(BATCH, np.int64)


def job_of(parameters, rate=0.02):
    """A job before its first step, and its rate."""
    settings = StepSettings(loss="mse")
    (word,), settings = settings.with_rates([rate * rate_scale(OUTPUTS)], [BATCH], PerturbationTable(SOURCE))
    return ZerothOrderJob(NetworkModel(MAPPING, parameters(MAPPING)), SOURCE, settings), word


def mse(tensors, x):
    """PyTorch's loss of the network with these weights and biases."""
    first, second = tensors[:2], tensors[2:]
    hidden = torch.relu(torch.nn.functional.linear(x, *first))
    return torch.nn.functional.mse_loss(torch.nn.functional.linear(hidden, *second), x)


def tensors_of(stages):
    return [torch.from_numpy(Q4_12.to_float(one)) for stage in stages for one in (stage.weight, stage.bias)]


def test_a_slope_is_the_gradient_along_the_perturbation(parameters, inputs):
    job, _ = job_of(parameters)
    (part,), x = job.parts, torch.from_numpy(Q8_16.to_float(inputs[0]))
    for _ in range(10):
        tables = [part.deltas.along(job.position, side) for side in job._sides]
        plus, minus = (tensors_of(part.part.parameters(part.offsets(table, job._narrow))) for table in tables)
        middle = [((one + other) / 2).requires_grad_() for one, other in zip(plus, minus, strict=True)]
        gradient = torch.autograd.grad(mse(middle, x), middle)
        slope = sum(float((own * (a - b)).sum()) for own, a, b in zip(gradient, plus, minus, strict=True))
        (step,) = job.step(*inputs, 0)
        found = step.difference * 2.0**-DIFFERENCE_FRACTION * rate_scale(OUTPUTS) / BATCH
        assert found == pytest.approx(slope, rel=0.01, abs=2e-5)
        assert mean_squared_error(step.words, OUTPUTS) == pytest.approx(mse(middle, x).item(), rel=2e-3)


def test_steps_lower_the_error(parameters, inputs):
    job, rate = job_of(parameters)
    errors = [mean_squared_error(job.step(*inputs, rate)[0].words, OUTPUTS) for _ in range(400)]
    assert np.mean(errors[-20:]) < 0.5 * np.mean(errors[:5])
    x = torch.from_numpy(Q8_16.to_float(inputs[0]))
    left = np.mean(np.square(Q8_16.to_float(job.logits(inputs[0]) - inputs[0])))
    assert left == pytest.approx(mse(tensors_of(job.model.tuned(job)), x).item(), rel=1e-3)


def test_a_label_is_refused(parameters, inputs):
    job, rate = job_of(parameters)
    with pytest.raises(UserError, match="is outside 0 to 0"):
        job.step(inputs[0], inputs[1] + 1, rate)


REFUSED = {
    "has 3 outputs for 20 inputs; an autoencoder has as many": {"network": "20 fc3"},
    "has 16385 outputs; the core takes at most 16384": {"network": "16385 fc2 relu fc16385"},
    "cut_rows = 8 with loss = mse": {"network": "20 fc6 relu fc20", "cut_rows": 8},
    "loss = 'l1' is not one of cross_entropy, mse": {"network": "20 fc20", "loss": "l1"},
    "20 fc257 has 257 classes; the core takes at most 256": {"network": "20 fc257", "loss": "cross_entropy"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_core_that_cannot_be_is_refused(message):
    with pytest.raises(UserError, match=message):
        ZotrainSpec(**({"loss": "mse"} | REFUSED[message]))


def test_wide_outputs_are_taken():
    assert ZotrainSpec(network="20 fc256").labels == 256
    assert ZotrainSpec(network="3x8x8 conv4k3p1 relu flatten fc192", loss="mse").labels == 1
