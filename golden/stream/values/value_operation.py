"""Operations of `value_path`: what it takes of an instruction and a pass, and what its parts are told to do with it."""

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
"""Most values of a bias, and of a row of positions."""
KINDS = (Kind.LINEAR, Kind.ACTIVATION, Kind.GATE, Kind.ADD, Kind.POSITIONS)
"""Kinds of instructions that pass."""
SQUARED = activation_function.KINDS.index("relu-squared")
"""Number of the activation that takes the product, so that nothing can join it."""
_JOINS = {name: number for number, name in enumerate(elementwise.KINDS)}


class Operation(NamedTuple):
    """Word of the stream `operation`.

    Parameters
    ----------
    kind, activation, join, form, biased, fraction : int
        As in an `Instruction`; kinds are `KINDS`.
    shift, passed_shift, result_shift, source_shift : int
        As there.
    second_shift : int
        Of what joins a linear layer, or of a gate's or a sum's second value.
    features : int
        Of the results, at least 1.
    rows : int
        Of a side, at least 1; only positions do not read it.
    sentences, longest : int
        Sentences of a side, and rows of the longest one, at least 1; only positions read them.
    stride : int
        Addresses from a line of a memory to the next: tokens of all sides that are in the buffers at once.
    source_wide, source : int
        Place of the values, which a linear layer does not have.
    second_wide, second : int
        Place of the second values.
    destination_wide, destination : int
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
    """Fields of the stream; the formats are those of a memory's row, and of a number of rows."""
    own = {
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
        Field(name, (own | counts).get(name, rest.get(name.rpartition("_")[2], address))) for name in Operation._fields
    )


def operation_of(one: Instruction, rows: int, sentences: int, longest: int, capacity: int) -> Operation:
    """Make the operation of an instruction.

    Parameters
    ----------
    one : Instruction
        Of one of `KINDS`.
    rows : int
        Of a side: tokens of the pass, or its sentences behind a pool.
    sentences, longest : int
        Of a side, and tokens of the longest one.
    capacity : int
        Of the program.
    """
    linear = one.kind == Kind.LINEAR
    second, second_shift = (one.other, one.other_shift) if linear else (one.second, one.second_shift)
    same = ("kind", "activation", "join", "form", "biased", "fraction")
    shifts = ("shift", "passed_shift", "result_shift", "source_shift")
    found = {name: getattr(one, name) for name in (*same, *shifts)}
    for name, buffer in (("source", one.source), ("second", second), ("destination", one.destination)):
        found |= place_words(name, buffer, capacity)
    sizes = {"rows": rows, "sentences": sentences, "longest": longest, "stride": capacity}
    return Operation(**found | sizes, features=one.outputs, second_shift=second_shift)


class Settings(NamedTuple):
    """Settings of the path's parts for all values of an operation; numbers, in the RTL signals.

    Parameters
    ----------
    sums, positions : bool
        Sums come in, not values; rows are those of sentences, position by position.
    biased, joined : bool
        Biases or positions are added, second values are read.
    fraction, sum_shift, form, value_shift : int
        Of `requantize`, by which also positions are added.
    activation, taken_shift, made_shift : int
        Of `activation_function`.
    join, first_shift, second_shift, result_shift : int
        Of `elementwise`.
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
    one: Any,
    choose: Callable[[Any, Any, Any], Any] = lambda condition, then, otherwise: then if condition else otherwise,
) -> Settings:
    """Make the settings of an operation, of integers or in the RTL of signals.

    Parameters
    ----------
    one : Operation
    choose : callable
        Of a condition, and what is if it holds, and if not.
    """
    linear, positions = one.kind == Kind.LINEAR, one.kind == Kind.POSITIONS
    active = (linear | (one.kind == Kind.ACTIVATION)) & (one.activation != 0)
    squared = active & (one.activation == SQUARED)
    adds = (one.kind == Kind.ADD) | (linear & (one.join == Join.ADD))
    gates = (one.kind == Kind.GATE) | (linear & (one.join == Join.GATE))
    # shifts of what leaves the first part, and of what an activation makes of it
    given = choose(linear, one.shift, one.source_shift)
    made = choose(linear, one.passed_shift, one.result_shift)
    return Settings(
        sums=linear,
        positions=positions,
        biased=positions | (linear & (one.biased != 0)),
        joined=adds | gates,
        fraction=choose(linear, one.fraction, 0),
        sum_shift=choose(linear | positions, one.source_shift, 0),
        form=choose(linear, one.form, FORMATS.index(Q11_16)),
        value_shift=choose(linear, one.shift, choose(positions, one.result_shift, 0)),
        activation=choose(active, one.activation, 0),
        taken_shift=choose(active, given, 0),
        # a square is rounded behind the product
        made_shift=choose(active, choose(squared, given, made), 0),
        join=choose(squared, _JOINS["square"], choose(gates, _JOINS["multiply"], choose(adds, _JOINS["add"], 0))),
        first_shift=choose(squared, given, choose(active, made, given)),
        second_shift=one.second_shift,
        result_shift=choose(squared, made, one.result_shift),
    )
