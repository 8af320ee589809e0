"""Limits: what is beyond those of a core is refused, with the operation's number and reason."""

import dataclasses

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.instruction import Buffer, Kind
from tests.golden.stream.machine.test_program import whole


def kind_of(program, kind):
    """Number of the first instruction of a kind."""
    return next(number for number, one in enumerate(program.instructions) if one.kind == kind)


def over(buffer, rows):
    return Buffer(Buffer.of(buffer).wide, Buffer.of(buffer).first + rows).bits


def split(one, width):
    """Heads of fewer features."""
    heads = one.inputs // width
    return {"heads": heads, "key_heads": heads, "width": width}


WRONG = {
    "unknown kind": (Kind.LINEAR, lambda one: {"kind": 77}, "kind 77 is unknown"),
    "kind 0": (Kind.POOL, lambda one: {"kind": 0}, "kind 0 is unknown"),
    "activation": (Kind.LINEAR, lambda one: {"activation": 6}, "activation 6 is unknown"),
    "format": (Kind.LINEAR, lambda one: {"form": 3}, "format 3 or pool 0 is unknown"),
    "pool": (Kind.POOL, lambda one: {"pool": 3}, "format 0 or pool 3 is unknown"),
    "join": (Kind.LINEAR, lambda one: {"join": 4}, "join 4 is unknown to linear"),
    "joined norm": (Kind.NORM, lambda one: {"join": 1}, "join 1 is unknown to norm"),
    "joined square": (Kind.LINEAR, lambda one: {"join": 1, "activation": 4}, "takes the product"),
    "wide activation": (Kind.LINEAR, lambda one: {"form": 1, "activation": 1}, "take 24 bits, not Q11.16"),
    "wide gate": (Kind.LINEAR, lambda one: {"form": 1, "join": 2}, "take 24 bits, not Q11.16"),
    "long bias": (Kind.LINEAR, lambda one: {"outputs": 4097}, "have at most 4096 values, not 4097"),
    "long row": (Kind.POSITIONS, lambda one: {"inputs": 4097, "outputs": 4097}, "have at most 4096 values, not 4097"),
    "shift": (Kind.LINEAR, lambda one: {"other_shift": 13}, "other_shift = 13: a shift is at most 7"),
    "no inputs": (Kind.LINEAR, lambda one: {"inputs": 0}, "0 inputs and .* outputs: a size is 0"),
    "no outputs": (Kind.LINEAR, lambda one: {"outputs": 0}, "and 0 outputs: a size is 0"),
    "inputs": (Kind.LINEAR, lambda one: {"inputs": 1 << 15}, "at most 32767 inputs, not 32768"),
    "other outputs": (Kind.NORM, lambda one: {"outputs": 3}, "inputs are not 3 outputs"),
    "heads": (Kind.ATTENTION, lambda one: {"heads": 5}, "5 heads of .* do not make"),
    "no heads of keys": (Kind.ATTENTION, lambda one: {"key_heads": 0}, "for 0 of keys do not make"),
    "narrow heads": (Kind.ATTENTION, lambda one: split(one, 2), "heads of 2 features: they are to be a multiple of 4"),
    "shared keys": (Kind.ATTENTION, lambda one: {"key_heads": 1}, "heads that share keys of 8 .* multiple of 16"),
    "wide source": (Kind.LINEAR, lambda one: {"source": Buffer(True, 0).bits}, "source is in the wide memory"),
    "wide keys": (Kind.ATTENTION, lambda one: {"second": Buffer(True, 0).bits}, "second is in the wide memory"),
    "wide contexts": (Kind.ATTENTION, lambda one: {"destination": Buffer(True, 0).bits}, "destination is in the wide"),
    "rotation": (
        Kind.ATTENTION,
        lambda one: {"rotary": 1, "heads": 1, "key_heads": 1, "width": 12, "inputs": 12, "outputs": 12},
        "rotations of a head of 12 features, not a multiple of 8 up to 256",
    ),
    "wide rotation": (
        Kind.ATTENTION,
        lambda one: {"rotary": 1, "heads": 1, "key_heads": 1, "width": 264, "inputs": 264, "outputs": 264},
        "rotations of a head of 264 features",
    ),
    "factor": (Kind.ATTENTION, lambda one: {"factor_fraction": 24}, "has 8 to 23 fraction bits, not 24"),
    "wide norm": (Kind.NORM, lambda one: {"inputs": 5000, "outputs": 5000}, "at most 4096 features, not 5000"),
    "fraction": (Kind.LINEAR, lambda one: {"fraction": 19}, "at most 17 fraction bits, not 19"),
    "overlap": (Kind.LINEAR, lambda one: {"destination": one.source}, "the result in rows .* overlaps source in rows"),
    "values": (Kind.ATTENTION, lambda one: {"destination": one.third}, "overlaps third in rows"),
    "shifted": (Kind.POSITIONS, lambda one: {"destination": over(one.source, 1)}, "overlaps source in rows"),
    "memory": (Kind.LINEAR, lambda one: {"source": over(one.source, 24_000)}, "outside a memory of 24576 rows"),
    "wide memory": (Kind.LINEAR, lambda one: {"destination": Buffer(True, 16_384).bits}, "memory of 16384 rows"),
    "wide values": (Kind.ATTENTION, lambda one: {"third": Buffer(True, 50).bits}, "third is in the wide memory"),
    "wide factor": (
        Kind.LINEAR,
        lambda one: {"join": 2, "form": 0, "activation": 0, "other": Buffer(True, 50).bits},
        "other is in the wide memory",
    ),
    "narrow sum": (Kind.POSITIONS, lambda one: {"destination": Buffer(False, 90).bits}, "and to be in the wide one"),
    "narrow result": (
        Kind.LINEAR,
        lambda one: {"form": 1, "destination": Buffer(False, 90).bits},
        "and to be in the wide one",
    ),
    "stream": (Kind.LINEAR, lambda one: {"beat": 1 << 30}, "beats 1073741824 to .* are outside a stream of"),
    "table": (Kind.POSITIONS, lambda one: {"table": 0}, "a table in beats 0 to .* is outside"),
    "no positions": (Kind.POSITIONS, lambda one: {"positions": 0}, "positions, of which there are none"),
    "word": (Kind.LINEAR, lambda one: {"word": 9_999}, "word = 9999 and .* words are outside"),
    "bias": (Kind.NORM, lambda one: {"bias_word": 9_999}, "bias_word = 9999 and 1 words are outside"),
    "last": (Kind.NORM, lambda one: {"last": 1}, "the logits are those of the last operation"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_operation_beyond_the_limits_is_refused_with_its_number(wrong):
    kind, changes, message = WRONG[wrong]
    _, program = whole("encoder")
    number = kind_of(program, kind)
    one = program.instructions[number]
    changed = list(program.instructions)
    changed[number] = dataclasses.replace(one, **changes(one))
    other = dataclasses.replace(program, instructions=tuple(changed))
    with pytest.raises(UserError, match=rf"operation {number} of {len(changed)}: .*{message}"):
        other.check()
