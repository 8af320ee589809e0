"""Instruction of the streaming core: one step of a transformer in fixed fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, get_args

from ..axi.bus import BEAT
from ..errors import UserError
from ..fixed import Format
from ..transformer.blocks import ActivationKind, PoolKind
from .values.activation_function import KINDS

ACTIVATIONS: tuple[ActivationKind, ...] = KINDS[1:]
"""Activations, numbered from 1; 0 is none."""
POOLS: tuple[PoolKind, ...] = get_args(PoolKind)
"""Pools, by number."""
INSTRUCTION_BEATS = 5
NO_WORD = (1 << 32) - 1
"""Word number of a frozen tensor."""
ROW_BITS = 23
"""Bits of a `RowAddress`'s row number."""


def shifted_format(form: Format, shift: int) -> Format:
    """Format of the same width with `shift` fraction bits fewer."""
    return Format(form.integer + shift, form.fraction - shift)


class Kind(IntEnum):
    LINEAR = 1
    ATTENTION = 2
    NORM = 3
    ACTIVATION = 4
    GATE = 5
    ADD = 6
    POSITIONS = 7
    POOL = 8
    UNIT = 9


class Join(IntEnum):
    """Operation on a linear layer's results and another value, after the activation."""

    NONE = 0
    ADD = 1
    GATE = 2


class RowAddress(NamedTuple):
    """Rows of a value, in the wide memory or the activation memory; `first` is a token's first row."""

    wide: bool
    first: int

    @property
    def bits(self) -> int:
        return int(self.wide) << ROW_BITS | self.first

    @classmethod
    def of(cls, bits: int) -> RowAddress:
        return cls(bool(bits >> ROW_BITS), bits & ((1 << ROW_BITS) - 1))


SHIFTS = (
    "shift",
    "passed_shift",
    "result_shift",
    "source_shift",
    "second_shift",
    "third_shift",
    "other_shift",
)
FIELD_BITS = {
    "kind": 8,
    "activation": 4,
    "join": 4,
    "form": 2,
    "pool": 2,
    "coded": 1,
    "biased": 1,
    "centred": 1,
    "causal": 1,
    "rotary": 1,
    "last": 1,
    "number": 16,
    "inputs": 24,
    "outputs": 24,
    "source": 24,
    "second": 24,
    "third": 24,
    "other": 24,
    "destination": 24,
    "shift": 5,
    "passed_shift": 5,
    "result_shift": 5,
    "source_shift": 5,
    "second_shift": 5,
    "third_shift": 5,
    "other_shift": 5,
    "heads": 12,
    "key_heads": 12,
    "width": 16,
    "word": 32,
    "bias_word": 32,
    "position_word": 32,
    "beat": 32,
    "table": 32,
    "positions": 24,
    "corrections": 24,
    "correction_beat": 32,
    "fraction": 6,
    "factor": 24,
    "factor_fraction": 8,
    "least": 48,
    "part": 1,
}
"""Bits of each field, from the lowest on."""


@dataclass(frozen=True)
class Instruction:
    """Step of a transformer; fields without meaning for its kind are 0.

    Parameters
    ----------
    activation : int
        Activation of a linear layer's results, or the operation itself: a number of `ACTIVATIONS`.
    form : int
        Format of a linear layer's sums, before activation and join: an index of `FORMATS`.
    pool : int
        An index of `POOLS`.
    coded, biased, centred, causal, rotary, last : int
        1 for a matrix in NF4; a bias; layer norm; causal attention; rotary positions; the instruction of the logits.
    number : int
        Operation in the user's network.
    inputs, outputs : int
        Features.
    source, second, third, other, destination : int
        `RowAddress` of each operand (source, or queries, keys, values), of the joined value, of the result.
    shift, passed_shift, result_shift : int
        Number of fraction bits that a linear layer's sums, its activation's output, and the result lack against the
        base format.
    source_shift, second_shift, third_shift, other_shift : int
        Number of fraction bits that each operand lacks.
    heads, key_heads, width : int
        Heads of attention, heads of keys and values, features of a head.
    word, bias_word, position_word : int
        First perturbation word of matrix or factors, bias, positions; `NO_WORD` for a frozen tensor.
    beat : int
        First beat of the operation's tensors in the stream; the bias is first, then matrix or factors.
    table, positions : int
        First beat of the table of positions or rotations, and the table's number of positions.
    corrections, correction_beat : int
        Number of a matrix's sensitive weights, and their first beat. If the number is not 0, only these weights are
        perturbed.
    fraction : int
        Fraction bits of weights or factors: the shift of the sums.
    factor, factor_fraction : int
        Factor of an attention's scores, or the constant 1 / features of a norm; its fraction bits.
    least : int
        Epsilon of a norm, as a sum of squares.
    part : int
        1 for operations after the cut, else 0. The numbers of the words restart at 0 after the cut.
    """

    kind: int
    activation: int = 0
    join: int = 0
    form: int = 0
    pool: int = 0
    coded: int = 0
    biased: int = 0
    centred: int = 0
    causal: int = 0
    rotary: int = 0
    last: int = 0
    number: int = 0
    inputs: int = 0
    outputs: int = 0
    source: int = 0
    second: int = 0
    third: int = 0
    other: int = 0
    destination: int = 0
    shift: int = 0
    passed_shift: int = 0
    result_shift: int = 0
    source_shift: int = 0
    second_shift: int = 0
    third_shift: int = 0
    other_shift: int = 0
    heads: int = 0
    key_heads: int = 0
    width: int = 0
    word: int = NO_WORD
    bias_word: int = NO_WORD
    position_word: int = NO_WORD
    beat: int = 0
    table: int = 0
    positions: int = 0
    corrections: int = 0
    correction_beat: int = 0
    fraction: int = 0
    factor: int = 0
    factor_fraction: int = 0
    least: int = 0
    part: int = 0

    def encode(self) -> bytes:
        """Pack the fields into `INSTRUCTION_BEATS` beats, the first field lowest.

        Raises `UserError` if a value does not fit its field.
        """
        packed = shift = 0
        for name, bits in FIELD_BITS.items():
            value = int(getattr(self, name))
            if not 0 <= value < 1 << bits:
                raise UserError(f"{name} = {value} has more than the {bits} bits of its field")
            packed |= value << shift
            shift += bits
        return packed.to_bytes(INSTRUCTION_BEATS * BEAT, "little")

    @classmethod
    def decode(cls, data: bytes) -> Instruction:
        packed, values = int.from_bytes(data, "little"), {}
        for name, bits in FIELD_BITS.items():
            values[name] = packed & ((1 << bits) - 1)
            packed >>= bits
        return cls(**values)
