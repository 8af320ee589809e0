"""Scale selection of the lanes, computed by hand; `codec` tests the values."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.nf4.codec import dequantise
from fabtune.golden.nf4.nf4_dequant import Nf4DequantSpec


def values(spec, **word):
    given = {name: np.array([numbers]) for name, numbers in word.items()}
    return spec.run({"i": given}, 1)["o"]["value"][0].tolist()


def test_each_lane_takes_its_scale():
    spec = Nf4DequantSpec(lanes=4, scales=2)
    assert values(spec, code=[0, 15, 15, 7], scale=[65536, 300], select=[0, 0, 1, 1]) == [-65536, 65536, 300, 0]


def test_a_choice_beyond_the_last_takes_the_last():
    assert values(Nf4DequantSpec(lanes=2, scales=3), code=[15, 15], scale=[1, 2, 3], select=[2, 3]) == [3, 3]


def test_one_scale_needs_no_choice():
    spec = Nf4DequantSpec(lanes=3, scales=1)
    assert "select" not in [item.name for item in spec.streams()["i"].fields]
    assert (
        values(spec, code=[0, 8, 15], scale=[1000])
        == dequantise(np.array([0, 8, 15], np.uint8), np.array(1000)).tolist()
    )


def test_a_tag_travels():
    result = Nf4DequantSpec(lanes=1, scales=1, tag=5).run(
        {"i": {"code": np.zeros((2, 1), int), "scale": np.zeros((2, 1), int), "tag": np.array([[3], [31]])}}, 2
    )
    assert result["o"]["tag"].tolist() == [[3], [31]]


@pytest.mark.parametrize("changes", [{"lanes": 0}, {"scales": 0}, {"scales": 65}, {"tag": 33}])
def test_wrong_parameters_are_refused(changes):
    name, value = next(iter(changes.items()))
    with pytest.raises(UserError, match=f"{name} = {value}"):
        Nf4DequantSpec(**changes)
