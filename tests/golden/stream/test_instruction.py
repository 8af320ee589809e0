"""Instructions: packing and unpacking of fields."""

import dataclasses

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.errors import UserError
from fabtune.golden.stream.instruction import FIELD_BITS, INSTRUCTION_BEATS, Instruction


def test_fields_are_those_of_an_instruction():
    assert [one.name for one in dataclasses.fields(Instruction)] == list(FIELD_BITS)
    rng = np.random.default_rng(1)
    values = {name: int(rng.integers(0, 1 << bits)) for name, bits in FIELD_BITS.items()}
    one = Instruction(**values)
    assert Instruction.decode(one.encode()) == one
    assert len(one.encode()) == INSTRUCTION_BEATS * BEAT
    for name, bits in FIELD_BITS.items():
        with pytest.raises(UserError, match=f"{name} = {1 << bits} has more than the {bits} bits"):
            dataclasses.replace(one, **{name: 1 << bits}).encode()
