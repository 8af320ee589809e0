"""`context_scale` compared with Python fractions; its limits."""

from fractions import Fraction

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.stream.functions import reciprocal
from fabtune.golden.stream.softmax.context_scale import ContextScaleSpec


@pytest.mark.parametrize(("value_shift", "output_shift"), [(0, 0), (2, 0), (0, 5)])
def test_contexts_are_quotients(value_shift, output_shift):
    rng, count = np.random.default_rng(1), 60
    totals = rng.integers(1 << 20, 1 << 28, count)
    values = rng.integers(-1 << 17, 1 << 17, count)
    sums = values * totals
    inverse = reciprocal(totals)
    last = (np.arange(count) == count - 1).astype(np.int64)[:, None]
    table = {"mantissa": inverse.mantissa[:, None], "exponent": inverse.exponent[:, None], "last": last}
    fields = {"sum": sums[:, None], "query": np.arange(count)[:, None], "last": last}
    for name, shift in (("value_shift", value_shift), ("output_shift", output_shift)):
        fields[name] = np.full((count, 1), shift)
    found = ContextScaleSpec(lanes=1).run({"inverse": table, "i": fields}, count)["o"]
    for value, context, clipped in zip(values.tolist(), found["value"][:, 0], found["clipped"][:, 0], strict=True):
        exact = Fraction(value, 1 << 12 - value_shift) * (1 << 16 - output_shift)
        assert clipped == (not Q8_16.minimum - 1 / 2 <= exact <= Q8_16.maximum + 1 / 2)
        nearest = min(max(exact, Q8_16.minimum), Q8_16.maximum)
        # the reciprocal's relative error slightly exceeds 2^-17
        assert abs(nearest - int(context)) <= 1 + abs(exact) * 1.4 / 2**17


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lanes": 0}, "lanes = 0"), ({"queries": 3}, "queries = 3"), ({"keys": 1}, "keys = 1"), ({"tag": 40}, "tag")],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        ContextScaleSpec(**settings)
