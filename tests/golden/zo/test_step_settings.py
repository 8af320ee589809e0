"""Settings of zeroth-order steps: ranges, and learning rates as words."""

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings

TABLE = PerturbationTable(PezoSpec())


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"eps_shift": 3}, "eps_shift = 3 is not in 4 to 12"),
        ({"eps_shift": 13}, "eps_shift = 13 is not in 4 to 12"),
        ({"shift": 63}, "^shift = 63 is not in 0 to 62"),
        ({"shift": -1}, "^shift = -1 is not in 0 to 62"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, refusal):
    with pytest.raises(UserError, match=refusal):
        StepSettings(**settings)


@pytest.mark.parametrize("rates", [[-1e-3], [0.0], [float("nan")], [1e30], [1e-30], []])
def test_rates_that_are_no_words_are_refused(rates):
    with pytest.raises(UserError, match="learning rate"):
        StepSettings().with_rates(rates, [20] * len(rates), TABLE)


@pytest.mark.parametrize(("eps_shift", "slopes", "batch"), [(10, 1, 20), (4, 1, 20), (10, 16, 20), (10, 1, 200)])
def test_a_rate_is_shared_by_samples_and_slopes(eps_shift, slopes, batch):
    settings = StepSettings(eps_shift=eps_shift, split=Split(first=slopes))
    words, found = settings.with_rates([1e-3, 2.5e-4], [batch] * 2, TABLE)
    assert (found.eps_shift, found.split) == (settings.eps_shift, settings.split)
    # c = rate dL / (2 eps batch slopes): dL has 29 fraction bits, the deltas 28, the perturbation 10
    for word, rate in zip(words, (1e-3, 2.5e-4), strict=True):
        assert word * 2.0**-found.shift == pytest.approx(
            rate * 2.0 ** (eps_shift - 1 + 18 - 29) / batch / slopes, rel=1e-4
        )
    assert 1 << 15 <= max(words) < 1 << 16
