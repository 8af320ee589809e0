"""Memory words of piecewise linear functions, decoded as in RTL, give the functions' values."""

import numpy as np
import pytest

from fabtune.golden.fixed import Format
from fabtune.golden.stream.functions import TABLES, SegmentTable
from fabtune.golden.stream.pwl_memory import FunctionMemory

# starts at 1.2, beyond an unsigned format without integer bits
BEYOND = SegmentTable(lambda m: 1.2 / m, 1.0, 20, 64, 14, Format(2, 20), Format(2, 16), Format(0, 17, signed=False))


def read(memory, number, arguments):
    """Values from the words: the constant includes half a last place, and ties become even."""
    function, (low, high) = memory.functions[number], memory.shapes
    words = np.array(memory.contents)[memory.firsts[number] + (arguments >> function.segment_bits)]

    def signed(value, one):
        return value - ((value >> (one.bits - 1) & 1) << one.bits) if one.signed else value

    constant, slope = signed(words & ((1 << low.bits) - 1), low), signed(words >> low.bits, high)
    total = slope * (arguments & ((1 << function.segment_bits) - 1)) + (constant << memory.aligned)
    tie = total & ((1 << memory.drop) - 1) == 0
    value = (total >> memory.drop) & ~tie.astype(np.int64)
    return np.clip(value, function.result.minimum, function.result.maximum)


@pytest.mark.parametrize("functions", [tuple(TABLES.values()), (BEYOND,)], ids=["activations", "beyond the format"])
def test_words_give_the_functions_values(functions):
    memory = FunctionMemory(functions)
    for number, one in enumerate(functions):
        arguments = np.random.default_rng(2).integers(0, one.segments << one.segment_bits, 100_000)
        arguments[:3] = 0, 1, (one.segments << one.segment_bits) - 1
        np.testing.assert_array_equal(read(memory, number, arguments), one(arguments))


def test_the_longest_comes_first_and_a_place_s_lower_bits_are_0():
    memory = FunctionMemory(tuple(TABLES.values()))
    assert dict(zip(TABLES, memory.firsts, strict=True)) == {"gelu": 1024, "gelu-tanh": 1536, "silu": 0}
    assert (len(memory.contents), memory.width) == (2048, 33)


def test_only_what_saturates_has_logic_for_it():
    assert not FunctionMemory(tuple(TABLES.values())).saturates
    assert FunctionMemory((BEYOND,)).saturates


def test_functions_of_other_formats_have_a_memory_of_their_own():
    with pytest.raises(AssertionError):
        FunctionMemory((TABLES["gelu"], BEYOND))
