"""`mac` compared with hand-computed values and with NumPy products."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16
from fabtune.golden.nn.mac import MacSpec


def words(spec, count, **given):
    fields = {item.name: np.zeros((count, item.lanes), np.int64) for item in spec.streams()["i"].fields}
    return {"i": fields | {name: np.array(rows).reshape(count, -1) for name, rows in given.items()}}


def test_across_by_hand():
    spec = MacSpec(lanes=2, columns=1)
    one = 1 << 12
    # ties of 1.5 and 2.5 last places, then a new sum, a continued sum, and a saturating sum
    x = [[3, 0], [5, 0], [100, 100], [1, 2], [4, 4], [1 << 22, 1 << 22]]
    w = [[one >> 1, 0], [one >> 1, 0], [one, one], [one, one], [one, one], [4 * one, 4 * one]]
    inputs = words(spec, 6, x=x, w=w, bias=[0, 0, 0, 1, 9, 0], first=[1, 1, 1, 1, 0, 1], last=[1, 1, 0, 1, 1, 1])
    assert spec.run(inputs, 9)["o"]["y"][:, 0].tolist() == [2, 2, 19, 27, Q8_16.maximum]


def test_within_by_hand():
    spec = MacSpec(lanes=2, columns=2, mode="within")
    inputs = words(spec, 2, x=[[3, -4], [5, 6]], w=[[10, 20], [-1, 7]], first=[1, 0], last=[0, 1])
    assert spec.run(inputs, 9)["o"]["sum"].tolist() == [[25, 95, -46, -38]]


def test_the_largest_sum_fits_its_format():
    spec = MacSpec(lanes=2, columns=1, batch=7, mode="within")
    inputs = words(spec, 7, x=[[Q8_16.minimum] * 2] * 7, w=[Q4_12.minimum] * 7, first=[1] + [0] * 6, last=[0] * 6 + [1])
    (total, _) = spec.run(inputs, 9)["o"]["sum"][0].tolist()
    assert total == 7 << 38
    assert spec.sum_format.maximum >= total > spec.sum_format.maximum // 2


@pytest.mark.parametrize(
    "settings", [{"lanes": 24}, {"lanes": 1}, {"columns": 0}, {"terms": 16}, {"batch": 0}, {"mode": "both"}]
)
def test_wrong_parameters_are_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(UserError, match=f"{name} = {value!r}"):
        MacSpec(**settings)
