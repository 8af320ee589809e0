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
"""Activations, by number from 1 on; 0 is none."""
POOLS: tuple[PoolKind, ...] = get_args(PoolKind)
"""Pools, by number."""
INSTRUCTION_BEATS = 5
NO_WORD = (1 << 32) - 1
"""Number of the word of a tensor that is not tuned."""
ROW_BITS = 23
"""Bits of a row's number in a `Buffer`."""


def shifted_format(form: Format, shift: int) -> Format:
    """Format of as many bits, shifted to the right."""
    return Format(form.integer + shift, form.fraction - shift)


class Kind(IntEnum):
    """Kind of an instruction."""

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
    """Operation that a linear layer's results pass at last."""

    NONE = 0
    ADD = 1
    GATE = 2


class Buffer(NamedTuple):
    """Rows of a token of a side: in the wide memory or that of activations.

    Parameters
    ----------
    wide : bool
    first : int
    """

    wide: bool
    first: int

    @property
    def bits(self) -> int:
        """Bits of the instruction's field."""
        return int(self.wide) << ROW_BITS | self.first

    @classmethod
    def of(cls, bits: int) -> Buffer:
        """Read a field."""
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
    """Step of a transformer; fields that its kind does not have are 0.

    Parameters
    ----------
    kind : int
        `Kind`.
    activation, join : int
        What a linear layer's results pass: a number of `ACTIVATIONS`, or the operation itself; `Join`.
    form : int
        Format of a linear layer's sums, before what they pass: a place of `FORMATS`.
    pool : int
        A place of `POOLS`.
    coded, biased, centred, causal, rotary, last : int
        1 for a matrix in NF4; a bias; layer norm; causal attention; rotary positions; the instruction of the logits.
    number : int
        Of the operation in the user's network.
    inputs, outputs : int
        Features.
    source, second, third, other, destination : int
        `Buffer`: what it reads (queries, keys, values), what joins, and where the result goes.
    shift, passed_shift, result_shift : int
        Places to the right by which a linear layer's sums, what an activation makes of them, and the result are shifted
        against the formats that such values have.
    source_shift, second_shift, third_shift, other_shift : int
        The same for what it reads.
    heads, key_heads, width : int
        Of attention.
    word, bias_word, position_word : int
        First word of matrix or factors, bias, positions; `NO_WORD` where they are not tuned.
    beat : int
        First beat in the stream: of the bias, behind which matrix or factors stand.
    table, positions : int
        First beat of the table of positions or rotations, and how many rows of positions there are.
    corrections, correction_beat : int
        Sensitive weights of a matrix, which alone are perturbed where there are some, and their first beat.
    fraction : int
        Fraction bits of weights or factors: the shift of the sums.
    factor, factor_fraction : int
        Of attention the factor of its scores, of a norm the constant 1 / features, and its fraction bits.
    least : int
        Sum of squares that a norm adds for its eps.
    part : int
        1 behind the place where a network is cut; its words are numbered from 0 again.
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

        Raises
        ------
        UserError
            If a value does not fit its field.
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
        """Unpack the fields."""
        packed, values = int.from_bytes(data, "little"), {}
        for name, bits in FIELD_BITS.items():
            values[name] = packed & ((1 << bits) - 1)
            packed >>= bits
        return cls(**values)
