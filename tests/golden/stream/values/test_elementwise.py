"""`elementwise` compared with Python fractions, and with gate and residual of the integer transformer."""

from fractions import Fraction

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.stream.norms import Q11_16
from fabtune.golden.stream.values.elementwise import KINDS, ElementwiseSpec


def outputs(first, second, kind, **shifts):
    """Values and flags of pairs, one per word."""
    settings = {"kind": KINDS.index(kind), "first_shift": 0, "second_shift": 0, "output_shift": 0} | shifts
    given = {"first": first[:, None], "second": second[:, None]}
    given |= {name: np.full((len(first), 1), one) for name, one in settings.items()}
    found = ElementwiseSpec(lanes=1).run({"i": given}, len(first))["o"]
    return found["value"][:, 0], found["clipped"][:, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shifts", [(0, 0, 0), (3, 1, 0), (0, 0, 5), (7, 7, 7)])
def test_values_are_exact_fractions_rounded_once(kind, shifts):
    rng = np.random.default_rng(4)
    form = Q8_16 if kind in ("multiply", "square") else Q11_16
    pair = (rng.integers(form.minimum, form.maximum, 300) >> rng.integers(0, 20, 300) for _ in range(2))
    first, second = pair
    names = ("first_shift", "second_shift", "output_shift")
    value, clipped = outputs(first, second, kind, **dict(zip(names, shifts, strict=True)))
    if kind == "none":
        assert value.tolist() == first.tolist()
        return
    one, two = (
        [Fraction(int(x) << shift, 1 << 16) for x in xs] for xs, shift in zip((first, second), shifts[:2], strict=True)
    )
    exact = {
        "add": [a + b for a, b in zip(one, two, strict=True)],
        "multiply": [a * b for a, b in zip(one, two, strict=True)],
        "square": [a * a for a in one],
    }[kind]
    rounded = [round(each * (1 << 16) / (1 << shifts[2])) for each in exact]
    assert value.tolist() == [min(max(each, form.minimum), form.maximum) for each in rounded]
    assert clipped.tolist() == [int(not form.minimum <= each <= form.maximum) for each in rounded]


def test_saturations_are_those_of_the_model():
    rng, narrow = np.random.default_rng(5), Narrower()
    first, second = (rng.integers(Q8_16.minimum, Q8_16.maximum, 500) for _ in range(2))
    value, clipped = outputs(first, second, "multiply")
    assert np.array_equal(value, narrow(first * second, 32, Q8_16))
    assert clipped.sum() == narrow.saturations > 0


@pytest.mark.parametrize(("settings", "message"), [({"lanes": 0}, "lanes = 0"), ({"tag": 33}, "tag = 33")])
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        ElementwiseSpec(**settings)
