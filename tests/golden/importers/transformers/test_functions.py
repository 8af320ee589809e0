"""Functions written in several operators are recognised by their values, close variants are not."""

import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.graph import Constant, Place
from fabtune.golden.importers.transformers.arithmetic import (
    add,
    divide,
    function,
    mean,
    multiply,
    power,
    rows_of,
    subtract,
)
from fabtune.golden.importers.transformers.composed import Function
from fabtune.golden.importers.transformers.row_graph import RowGraph, RowTensor
from fabtune.golden.importers.transformers.row_operations import linear
from fabtune.golden.transformer.blocks import Activation

PLACE = Place("one", "model.py:7")


class Written:
    """Value of a model's computation, in Python operators.

    Parameters
    ----------
    graph : RowGraph
    value : RowTensor or Function
    """

    def __init__(self, graph, value):
        self.graph, self.value = graph, value

    def _of(self, operator, *operands):
        values = [one.value if isinstance(one, Written) else one for one in operands]
        return Written(self.graph, operator(self.graph, PLACE, *values))

    def __add__(self, other):
        return self._of(add, self, other)

    def __radd__(self, other):
        return self._of(add, other, self)

    def __rsub__(self, other):
        return self._of(subtract, other, self)

    def __mul__(self, other):
        return self._of(multiply, self, other)

    def __rmul__(self, other):
        return self._of(multiply, other, self)

    def __truediv__(self, other):
        return self._of(divide, self, other)

    def __rtruediv__(self, other):
        return self._of(divide, other, self)

    def __pow__(self, exponent):
        return self._of(power, self, exponent)

    def __neg__(self):
        return self * -1

    def called(self, name):
        return Written(self.graph, function(self.graph, PLACE, name, self.value))


@pytest.fixture
def x():
    """Outputs of a linear layer."""
    graph = RowGraph("own", (3, 4))
    rows = linear(graph, PLACE, graph.sample(), Constant(torch.eye(4)), None)
    return Written(graph, rows)


FORMS = {
    "gelu": (
        lambda x: 0.5 * x * (1 + (x / 2**0.5).called("erf")),
        lambda x: 0.5 * (x * (1 + (x * 0.70710677).called("erf"))),
        lambda x: x / 2 * (x / 1.4142135623730951).called("erf") + x / 2,
    ),
    "gelu-tanh": (
        lambda x: 0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * x**3)).called("tanh")),
        lambda x: 0.5 * x * (1 + (0.7978845608 * x * (1 + 0.044715 * x * x)).called("tanh")),
        lambda x: x * (x * 1.5957691216 * (1 + 0.044715 * x**2)).called("sigmoid"),
    ),
    "silu": (
        lambda x: x.called("sigmoid") * x,
        lambda x: x / (1 + (-x).called("exp")),
        lambda x: x * (1 - (-x).called("sigmoid")),
        lambda x: x * (1 + (x / 2).called("tanh")) * 0.5,
    ),
}


@pytest.mark.parametrize("kind", FORMS)
def test_forms_of_a_function(x, kind):
    for form in FORMS[kind]:
        found = form(x).value
        assert isinstance(found, RowTensor)
        assert found.factor == 1
        assert x.graph.nodes[found.number].operation == Activation(kind)


@pytest.mark.parametrize(
    "form",
    [
        lambda x: 0.5 * x * (1 + (0.8 * (x + 0.044715 * x**3)).called("tanh")),
        lambda x: 0.5 * x * (1 + (x / 1.414).called("erf")),
        lambda x: x * (1.702 * x).called("sigmoid"),
        lambda x: x.called("tanh"),
        lambda x: x * x,
        lambda x: 1 / x,
    ],
)
def test_near_ones_and_others_are_not_known(x, form):
    assert isinstance(form(x).value, Function)
    with pytest.raises(UserError, match=r"model\.py:7: reads a function of values that is neither GELU, SiLU nor"):
        rows_of(PLACE, form(x).value)
    other = RowTensor(0, torch.arange(24).flip(0).view(2, 3, 4))
    with pytest.raises(UserError, match="is of functions of different values"):
        multiply(x.graph, PLACE, form(x).value, other)


def test_factors_stay_and_cancel(x):
    assert (2 * x * 0.25).value.factor == 0.5
    assert (0.25 * x.called("sigmoid") * x).value.factor == 0.25
    squared = mean(x.graph, PLACE, (x * 0.5 * x).value, [-1], True)
    assert squared.kind == "mean square"
    assert squared.rows.factor == pytest.approx(0.5**0.5)
