"""Limits of a core: violations are refused with operation number and reason."""

import pytest

from fabtune.golden.errors import UserError
from fabtune.sim.stream.machine.wrong_operations import WRONG_OPERATIONS, kind_of, wrong_program
from tests.golden.stream.machine.test_program import whole

MESSAGES = {
    "unknown kind": "kind 77 is unknown",
    "kind 0": "kind 0 is unknown",
    "activation": "activation 6 is unknown",
    "format": "format 3 or pool 0 is unknown",
    "pool": "format 0 or pool 3 is unknown",
    "join": "join 4 is unknown to linear",
    "joined norm": "join 1 is unknown to norm",
    "joined square": "takes the product",
    "wide activation": "take 24 bits, not Q11.16",
    "wide gate": "take 24 bits, not Q11.16",
    "long bias": "have at most 4096 values, not 4097",
    "long row": "have at most 4096 values, not 4097",
    "shift": "other_shift = 13: a shift is at most 7",
    "no inputs": "0 inputs and .* outputs: a size is 0",
    "no outputs": "and 0 outputs: a size is 0",
    "inputs": "at most 32767 inputs, not 32768",
    "other outputs": "inputs are not 3 outputs",
    "heads": "5 heads of .* do not make",
    "no heads of keys": "for 0 of keys do not make",
    "narrow heads": "heads of 2 features: they are to be a multiple of 4",
    "shared keys": "heads that share keys of 8 .* multiple of 16",
    "wide source": "source is in the wide memory",
    "wide keys": "second is in the wide memory",
    "wide contexts": "destination is in the wide",
    "rotation": "rotations of a head of 12 features, not a multiple of 8 up to 256",
    "wide rotation": "rotations of a head of 264 features",
    "factor": "has 8 to 23 fraction bits, not 24",
    "wide norm": "at most 4096 features, not 5000",
    "fraction": "at most 17 fraction bits, not 19",
    "overlap": "the result in rows .* overlaps source in rows",
    "values": "overlaps third in rows",
    "shifted": "overlaps source in rows",
    "memory": "outside a memory of 24576 rows",
    "wide memory": "memory of 16384 rows",
    "wide values": "third is in the wide memory",
    "wide factor": "other is in the wide memory",
    "narrow sum": "and to be in the wide one",
    "narrow result": "and to be in the wide one",
    "stream": "beats 1073741824 to .* are outside a stream of",
    "table": "a table in beats 0 to .* is outside",
    "no positions": "positions, of which there are none",
    "word": "word = 9999 and .* words are outside",
    "bias": "bias_word = 9999 and 1 words are outside",
    "last": "the logits are those of the last operation",
}


def test_each_wrong_operation_has_a_message():
    assert set(MESSAGES) == set(WRONG_OPERATIONS)


@pytest.mark.parametrize("wrong", WRONG_OPERATIONS)
def test_an_operation_beyond_the_limits_is_refused_with_its_number(wrong):
    _, program = whole("encoder")
    number, count = kind_of(program, WRONG_OPERATIONS[wrong][0]), len(program.instructions)
    with pytest.raises(UserError, match=rf"operation {number} of {count}: .*{MESSAGES[wrong]}"):
        wrong_program(program, wrong).check()
