"""Operations beyond a core's limits: a faulty program for each kind of limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ....golden.stream.instruction import Instruction, Kind, RowAddress
from ....golden.stream.machine.program import Program

Changes = Callable[[Instruction], Mapping[str, Any]]


def kind_of(program: Program, kind: Kind) -> int:
    """Index of a program's first instruction of a kind."""
    return next(number for number, instruction in enumerate(program.instructions) if instruction.kind == kind)


def changed(program: Program, number: int, **fields: Any) -> Program:
    """Program with some fields of an instruction replaced."""
    instructions = list(program.instructions)
    instructions[number] = replace(instructions[number], **fields)
    return replace(program, instructions=tuple(instructions))


def wrong_program(program: Program, name: str) -> Program:
    """Program with the fault `name` of `WRONG_OPERATIONS`, in the first operation of its kind."""
    kind, changes = WRONG_OPERATIONS[name]
    number = kind_of(program, kind)
    return changed(program, number, **changes(program.instructions[number]))


def _over(buffer: int, rows: int) -> int:
    """Buffer word with `rows` added to the first row."""
    return RowAddress(RowAddress.of(buffer).wide, RowAddress.of(buffer).first + rows).bits


def _split(instruction: Instruction, width: int) -> dict[str, int]:
    """Fields of an instruction for more heads, each of `width` features."""
    heads = instruction.inputs // width
    return {"heads": heads, "key_heads": heads, "width": width}


WRONG_OPERATIONS: dict[str, tuple[Kind, Changes]] = {
    "unknown kind": (Kind.LINEAR, lambda one: {"kind": 77}),
    "kind 0": (Kind.POOL, lambda one: {"kind": 0}),
    "activation": (Kind.LINEAR, lambda one: {"activation": 6}),
    "format": (Kind.LINEAR, lambda one: {"form": 3}),
    "pool": (Kind.POOL, lambda one: {"pool": 3}),
    "join": (Kind.LINEAR, lambda one: {"join": 4}),
    "joined norm": (Kind.NORM, lambda one: {"join": 1}),
    "joined square": (Kind.LINEAR, lambda one: {"join": 1, "activation": 4}),
    "wide activation": (Kind.LINEAR, lambda one: {"form": 1, "activation": 1}),
    "wide gate": (Kind.LINEAR, lambda one: {"form": 1, "join": 2}),
    "long bias": (Kind.LINEAR, lambda one: {"outputs": 4097}),
    "long row": (Kind.POSITIONS, lambda one: {"inputs": 4097, "outputs": 4097}),
    "shift": (Kind.LINEAR, lambda one: {"other_shift": 13}),
    "no inputs": (Kind.LINEAR, lambda one: {"inputs": 0}),
    "no outputs": (Kind.LINEAR, lambda one: {"outputs": 0}),
    "inputs": (Kind.LINEAR, lambda one: {"inputs": 1 << 15}),
    "other outputs": (Kind.NORM, lambda one: {"outputs": 3}),
    "heads": (Kind.ATTENTION, lambda one: {"heads": 5}),
    "no heads of keys": (Kind.ATTENTION, lambda one: {"key_heads": 0}),
    "narrow heads": (Kind.ATTENTION, lambda one: _split(one, 2)),
    "shared keys": (Kind.ATTENTION, lambda one: {"key_heads": 1}),
    "wide source": (Kind.LINEAR, lambda one: {"source": RowAddress(True, 0).bits}),
    "wide keys": (Kind.ATTENTION, lambda one: {"second": RowAddress(True, 0).bits}),
    "wide contexts": (Kind.ATTENTION, lambda one: {"destination": RowAddress(True, 0).bits}),
    "rotation": (
        Kind.ATTENTION,
        lambda one: {"rotary": 1, "heads": 1, "key_heads": 1, "width": 12, "inputs": 12, "outputs": 12},
    ),
    "wide rotation": (
        Kind.ATTENTION,
        lambda one: {"rotary": 1, "heads": 1, "key_heads": 1, "width": 264, "inputs": 264, "outputs": 264},
    ),
    "factor": (Kind.ATTENTION, lambda one: {"factor_fraction": 24}),
    "wide norm": (Kind.NORM, lambda one: {"inputs": 5000, "outputs": 5000}),
    "fraction": (Kind.LINEAR, lambda one: {"fraction": 19}),
    "overlap": (Kind.LINEAR, lambda one: {"destination": one.source}),
    "values": (Kind.ATTENTION, lambda one: {"destination": one.third}),
    "shifted": (Kind.POSITIONS, lambda one: {"destination": _over(one.source, 1)}),
    "memory": (Kind.LINEAR, lambda one: {"source": _over(one.source, 24_000)}),
    "wide memory": (Kind.LINEAR, lambda one: {"destination": RowAddress(True, 16_384).bits}),
    "wide values": (Kind.ATTENTION, lambda one: {"third": RowAddress(True, 50).bits}),
    "wide factor": (
        Kind.LINEAR,
        lambda one: {"join": 2, "form": 0, "activation": 0, "other": RowAddress(True, 50).bits},
    ),
    "narrow sum": (Kind.POSITIONS, lambda one: {"destination": RowAddress(False, 90).bits}),
    "narrow result": (Kind.LINEAR, lambda one: {"form": 1, "destination": RowAddress(False, 90).bits}),
    "stream": (Kind.LINEAR, lambda one: {"beat": 1 << 30}),
    "table": (Kind.POSITIONS, lambda one: {"table": 0}),
    "no positions": (Kind.POSITIONS, lambda one: {"positions": 0}),
    "word": (Kind.LINEAR, lambda one: {"word": 9_999}),
    "bias": (Kind.NORM, lambda one: {"bias_word": 9_999}),
    "last": (Kind.NORM, lambda one: {"last": 1}),
}
"""By name of the fault: the kind of the encoder's operation, and the fields that go beyond a limit."""
