"""Advice on samples and parameters outside the hardware's formats."""

import numpy as np
import pytest

from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.models.batch_norm import StageParameters
from fabtune.golden.train.dynamic_range import fitting_scale, samples_advice, stages_advice


def samples_of(*values):
    return Samples(np.array(values, np.float32)[:, None], np.zeros(len(values), np.int64))


@pytest.mark.parametrize(
    ("largest", "factor"), [(315.0, 0.25), (128.0, 0.5), (127.0, 1.0), (1000.0, 0.125), (127.99999999, 0.5), (0.3, 256)]
)
def test_the_factor_fits_and_no_larger_power_of_two_does(largest, factor):
    assert fitting_scale(largest) == factor
    assert samples_advice([samples_of(largest * factor, -largest * factor)]) is None
    assert samples_advice([samples_of(2 * largest * factor)]) is not None


def test_samples_are_counted_in_all_parts():
    advice = samples_advice([samples_of(1.0, 200.0), samples_of(-300.0), samples_of()[:0]], scale=0.5)
    assert advice.startswith("2 values of the samples are outside Q8.16, -128 to 128 (up to 300): ")
    assert "as --scale 0.125 does" in advice  # samples are already multiplied by 0.5
    assert samples_advice([Samples(np.full((2, 1), 255, np.uint8), np.zeros(2, np.int64))]) is None


def test_stages_with_parameters_outside():
    fine = StageParameters(np.full((2, 3), 7.9), np.zeros(2))
    wrong = StageParameters(np.array([[9.0, 0, -8.5]]), np.array([1.0]))
    (advice,) = stages_advice(["stem.0", "head"], (fine, wrong))
    assert advice.startswith(
        "stage 1 (head): 2 of 4 parameters are outside Q4.12, -8 to 8 (up to 9): train with weight"
    )
