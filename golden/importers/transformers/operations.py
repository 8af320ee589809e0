"""Operators that ATen and ONNX have alike, as transformer operations of their first operands."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Arguments, Place
from .arithmetic import Value, add, chosen, divide, function, multiply, power, product, rows_of, subtract
from .attention_scores import not_a_number
from .functions import UNARY
from .row_graph import RowGraph
from .row_operations import activation

KNOWN = (
    "linear layers, layer and RMS norm, attention, GELU, ReLU, SiLU, sums, products, patches of samples, class token, "
    "positions, first, last or mean token"
)
"""Words for what a transformer here has."""
Handler = Callable[[RowGraph, Place, Arguments], Value]


def _power(exponent: float) -> Handler:
    return lambda graph, place, given: power(graph, place, given.first(1)[0], exponent)


def _function(name: str) -> Handler:
    """Function of each value, as a part of another or as one that the host computes."""
    return lambda graph, place, given: function(graph, place, name, given.first(1)[0])


OPERATIONS: list[tuple[str, str, Handler]] = [
    (
        "MatMul",
        "matmul.default mm.default bmm.default",
        lambda graph, place, given: product(graph, place, *given.first(2)),
    ),
    ("Add", "add.Tensor add.Scalar", lambda graph, place, given: add(graph, place, *given.first(2))),
    ("Sub", "sub.Tensor sub.Scalar", lambda graph, place, given: subtract(graph, place, *given.first(2))),
    ("Mul", "mul.Tensor mul.Scalar", lambda graph, place, given: multiply(graph, place, *given.first(2))),
    ("Neg", "neg.default", lambda graph, place, given: multiply(graph, place, given.first(1)[0], -1.0)),
    ("Div", "div.Tensor div.Scalar", lambda graph, place, given: divide(graph, place, *given.first(2))),
    ("Pow", "pow.Tensor_Scalar", lambda graph, place, given: power(graph, place, *given.first(2))),
    ("", "square.default", _power(2)),
    ("Sqrt", "sqrt.default", _power(0.5)),
    ("", "rsqrt.default", _power(-0.5)),
    ("Reciprocal", "reciprocal.default", _power(-1)),
    (
        "Where",
        "where.self where.ScalarOther where.ScalarSelf",
        lambda graph, place, given: chosen(place, *given.first(3)),
    ),
    ("IsNaN", "isnan.default", lambda graph, place, given: not_a_number(place, given.first(1)[0])),
    (
        "Relu",
        "relu.default",
        lambda graph, place, given: activation(graph, place, rows_of(place, given.first(1)[0]), "relu"),
    ),
    (
        "Swish",
        "silu.default",
        lambda graph, place, given: activation(graph, place, rows_of(place, given.first(1)[0]), "silu"),
    ),
    *((name.capitalize(), f"{name}.default", _function(name)) for name in UNARY),
]
"""Type of ONNX, titles of ATen, and what both are."""
