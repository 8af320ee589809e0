"""Coverage of the random words in `zo`'s benches."""

import numpy as np

from fabtune.golden.block import packets_of
from fabtune.golden.fixed import Q8_16
from fabtune.golden.zo.coefficient import COEFFICIENT, LARGEST_SHIFT, STEP_DIFFERENCE, CoefficientSpec
from fabtune.golden.zo.loss_difference import LossDifferenceSpec
from fabtune.golden.zo.sparse_add import SparseAddSpec
from fabtune.sim.zo import tb_coefficient, tb_loss_difference
from fabtune.sim.zo.tb_sparse_add import stimulus


def test_corrections_of_all_kinds():
    spec = SparseAddSpec()
    inputs = stimulus(spec, np.random.default_rng(0), 1000)
    result = spec.run(inputs, 1000)["o"]
    assert 5 < result["error"].sum() < result["last"].sum() / 2
    # crowded beats, and many beats without corrections
    assert spec.slots(inputs) > 2000
    assert len(np.unique(inputs["sparse"]["index"] // 32)) < len(inputs["sparse"]["index"]) / 4
    assert (result["weight"] == inputs["i"]["weight"]).all(axis=1).sum() > 300


def test_loss_differences_of_all_kinds():
    spec = LossDifferenceSpec()
    inputs = tb_loss_difference.stimulus(spec, np.random.default_rng(0), 400)
    logits, labels = inputs["i"]["logit"][:, 0], inputs["label"]["label"][:, 0]
    result = spec.run(inputs, 400)["o"]
    lengths = np.diff(packets_of(inputs["i"]["last"])[::2])[:, 0]
    assert {1, 2, 10} <= set(lengths.tolist())
    assert {Q8_16.minimum, Q8_16.maximum} <= set(logits.tolist())
    assert min((labels == 0).sum(), (labels == lengths - 1).sum(), (labels >= lengths).sum()) > 5
    # of either sign, beyond the range of one perturbation sign at weight 1
    assert result["difference"].max() > 1 << 36
    assert result["difference"].min() < -(1 << 36)
    assert {0, 4096} <= set(result["plus"][labels < lengths, 0].tolist())


def test_coefficients_of_all_kinds():
    spec = CoefficientSpec()
    inputs = tb_coefficient.stimulus(spec, np.random.default_rng(0), 300)
    result = {name: column[:, 0] for name, column in spec.run(inputs, 300)["o"].items()}
    rates, shifts = inputs["rate"]["rate"][:, 0], inputs["rate"]["shift"][:, 0]
    products = [-int(total) * int(rate) for total, rate in zip(result["difference"], rates, strict=True)]
    ties = [
        (product >> (shift - 1)) & 3
        for product, shift in zip(products, shifts.tolist(), strict=True)
        if shift and product % (1 << shift) == 1 << (shift - 1)
    ]
    assert {1, 3} == set(ties)  # with an even and with an odd integer below
    clipped = result["coefficient"][result["clipped"] == 1]
    assert {COEFFICIENT.minimum, COEFFICIENT.maximum} == set(clipped.tolist())
    at_ends = np.isin(result["coefficient"], (COEFFICIENT.minimum, COEFFICIENT.maximum))
    assert (at_ends & (result["clipped"] == 0)).any()
    assert {0, LARGEST_SHIFT} <= set(shifts.tolist())
    assert 0 in rates
    assert STEP_DIFFERENCE.minimum in result["difference"]
