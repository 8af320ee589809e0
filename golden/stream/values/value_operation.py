"""Operations of `value_path`: their fields, from an instruction and a pass, and the settings of the path's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...block import Field
from ...fixed import Format
from ...rng.urng import BIT
from ..forward import SHIFT
from ..instruction import Instruction, Join, Kind
from ..norms import Q11_16
from . import activation_function, elementwise
from .chunk_unit import FEATURES, place_words
from .requantize import FORM, FORMATS, FRACTION

LARGEST_VECTOR = 4096
"""Largest number of values of a bias, and of a row of positions."""
KINDS = (Kind.LINEAR, Kind.ACTIVATION, Kind.GATE, Kind.ADD, Kind.POSITIONS)
"""Kinds of instructions for the value path."""
SQUARED = activation_function.KINDS.index("relu-squared")
"""Number of the squared ReLU; it uses the multiplier of the join."""
_JOINS = {name: number for number, name in enumerate(elementwise.KINDS)}


class ValueOperation(NamedTuple):
    """Word of the stream `operation`.

    Parameters
    ----------
    kind to source_shift : int
        As in an `Instruction`; kinds are `KINDS`.
    second_shift : int
        Shift of a linear layer's joined value, or of the second value of a gate or a sum.
    features : int
        Features of the results, at least 1.
    rows : int
        Rows of a side, at least 1; ignored for positions.
    sentences, longest : int
        Sentences of a side, and rows of the longest one, at least 1; for positions only.
    stride : int
        Addresses from a group of features to the next: tokens of all sides in the buffers.
    source_wide to destination : int
        Memory and address of the values (ignored for a linear layer), of the second values, and of the results.
    """

    kind: int
    activation: int = 0
    join: int = 0
    form: int = 0
    biased: int = 0
    fraction: int = 0
    shift: int = 0
    passed_shift: int = 0
    result_shift: int = 0
    source_shift: int = 0
    second_shift: int = 0
    features: int = 1
    rows: int = 1
    sentences: int = 1
    longest: int = 1
    stride: int = 0
    source_wide: int = 0
    source: int = 0
    second_wide: int = 0
    second: int = 0
    destination_wide: int = 0
    destination: int = 0


def operation_fields(address: Format, count: Format) -> tuple[Field, ...]:
    """Fields of the stream, with the formats of a memory address and of a number of rows."""
    formats = {
        "kind": Format(4, 0, signed=False),
        "activation": activation_function.KIND,
        "join": Format(2, 0, signed=False),
        "form": FORM,
        "biased": BIT,
        "fraction": FRACTION,
        "features": FEATURES,
    }
    counts = dict.fromkeys(("rows", "sentences", "longest"), count)
    rest = {"shift": SHIFT, "wide": BIT}
    return tuple(
        Field(name, (formats | counts).get(name, rest.get(name.rpartition("_")[2], address)))
        for name in ValueOperation._fields
    )


def operation_of(instruction: Instruction, rows: int, sentences: int, longest: int, capacity: int) -> ValueOperation:
    """Operation of an instruction of one of `KINDS`; the buffers hold `capacity` tokens of all sides.

    `rows` are the rows of a side: tokens of the pass, or sentences after a pool. `sentences` are of a side, the longest
    has `longest` tokens.
    """
    linear = instruction.kind == Kind.LINEAR
    second, second_shift = (
        (instruction.other, instruction.other_shift) if linear else (instruction.second, instruction.second_shift)
    )
    same = ("kind", "activation", "join", "form", "biased", "fraction")
    shifts = ("shift", "passed_shift", "result_shift", "source_shift")
    fields = {name: getattr(instruction, name) for name in (*same, *shifts)}
    for name, buffer in (("source", instruction.source), ("second", second), ("destination", instruction.destination)):
        fields |= place_words(name, buffer, capacity)
    sizes = {"rows": rows, "sentences": sentences, "longest": longest, "stride": capacity}
    return ValueOperation(**fields | sizes, features=instruction.outputs, second_shift=second_shift)


class OperationSettings(NamedTuple):
    """Settings of the path's blocks for all values of an operation; integers, or signals in the RTL.

    `sums` selects sums instead of stored values as input, `positions` rows ordered by position, `biased` the addition
    of biases or positions, `joined` the read of second values. The other fields go to `requantize`, which also adds
    positions, to `activation_function` and to `elementwise`.
    """

    sums: Any
    positions: Any
    biased: Any
    joined: Any
    fraction: Any
    sum_shift: Any
    form: Any
    value_shift: Any
    activation: Any
    taken_shift: Any
    made_shift: Any
    join: Any
    first_shift: Any
    second_shift: Any
    result_shift: Any


def settings(
    op: Any,
    choose: Callable[[Any, Any, Any], Any] = lambda condition, then, otherwise: then if condition else otherwise,
) -> OperationSettings:
    """Settings of an operation, of integers, or of signals in the RTL.

    `choose` is a multiplexer: condition, value if true, value if false.
    """
    linear, positions = op.kind == Kind.LINEAR, op.kind == Kind.POSITIONS
    active = (linear | (op.kind == Kind.ACTIVATION)) & (op.activation != 0)
    squared = active & (op.activation == SQUARED)
    adds = (op.kind == Kind.ADD) | (linear & (op.join == Join.ADD))
    gates = (op.kind == Kind.GATE) | (linear & (op.join == Join.GATE))
    # shift of the first block's output, and shift of the activation's output
    first = choose(linear, op.shift, op.source_shift)
    made = choose(linear, op.passed_shift, op.result_shift)
    return OperationSettings(
        sums=linear,
        positions=positions,
        biased=positions | (linear & (op.biased != 0)),
        joined=adds | gates,
        fraction=choose(linear, op.fraction, 0),
        sum_shift=choose(linear | positions, op.source_shift, 0),
        form=choose(linear, op.form, FORMATS.index(Q11_16)),
        value_shift=choose(linear, op.shift, choose(positions, op.result_shift, 0)),
        activation=choose(active, op.activation, 0),
        taken_shift=choose(active, first, 0),
        # a square is rounded after the product
        made_shift=choose(active, choose(squared, first, made), 0),
        join=choose(squared, _JOINS["square"], choose(gates, _JOINS["multiply"], choose(adds, _JOINS["add"], 0))),
        first_shift=choose(squared, first, choose(active, made, first)),
        second_shift=op.second_shift,
        result_shift=choose(squared, made, op.result_shift),
    )
