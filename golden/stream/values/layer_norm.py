"""`layer_norm`: layer norm or RMS norm of rows; a memory holds the factors and biases of both sides.

For the arithmetic see `norms.NormConstants`. A row is read once: it waits in a buffer while mean and inverse deviation
are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...axi.bus import BEAT
from ...block import Field, Spec, Stream, Words, described, tag_fields, words_together
from ...errors import UserError
from ...fixed import Q8_16, Format, Integers, Narrower, narrow
from ...memories.plan import MemoryShape, fifo_memory
from ...rng.urng import BIT
from ..attention import Q6_12
from ..functions import ROOT_TABLES
from ..norms import LARGEST_HIDDEN, Q11_16, NormConstants
from ..pwl_memory import FunctionMemory

PARAMETERS_A_BEAT = BEAT // 4
"""Factors or biases of a perturbation sign in a word of `parameters`."""
FACTOR_BITS = 18
MOST_SHIFT = Q6_12.fraction
"""Largest shift of a result: fraction bits below 16, as in an instruction."""
ROWS_UNDER_WAY = 64
"""Rows between their first word and their last result."""
WORDS_UNDER_WAY = 32
"""Words between the row buffer and the output."""
_OPERATION = {
    "features": 13,
    "rows": 16,
    "centred": 1,
    "biased": 1,
    "factor": 24,
    "factor_fraction": 6,
    "least": 48,
    "fraction": 5,
    "result_shift": 4,
}


@dataclass(frozen=True, kw_only=True)
class LayerNormSpec(Spec):
    """Parameters and model of `layer_norm`.

    Parameters
    ----------
    lanes : int
        Values a cycle: 4, 8 or 16. A word of parameters has 4 values.
    features : int
        Maximum number of features of a row: `lanes` to 4,096. With 4,096 features a normalised value is at most 64.
    tag : int
        Bits that pass through with a row unchanged, 0 to 32.
    """

    name: ClassVar[str] = "layer_norm"
    summary: ClassVar[str] = "layer norm or RMS norm of rows of 27 bits, exact sums, factors and biases of two sides"

    lanes: int = 8
    features: int = LARGEST_HIDDEN
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes not in (4, 8, 16):
            raise UserError(f"lanes = {self.lanes} is not 4, 8 or 16")
        if not self.lanes <= self.features <= LARGEST_HIDDEN:
            raise UserError(f"features = {self.features} is not in {self.lanes} (lanes) to {LARGEST_HIDDEN}")
        tag_fields(self.tag)

    @cached_property
    def table(self) -> FunctionMemory:
        return FunctionMemory(ROOT_TABLES)

    @property
    def words(self) -> int:
        return -(-self.features // self.lanes)

    @property
    def buffered(self) -> int:
        """Words of the row buffer: the outgoing row, and the words that arrive while an inverse is computed."""
        return 1 << (self.words + ROWS_UNDER_WAY - 1).bit_length()

    @property
    def statistics_latency(self) -> int:
        """Cycles from a row's last word to its mean and inverse deviation: sums 4 and one per lane, then 34."""
        return self.lanes + 4 + 34

    @property
    def values_latency(self) -> int:
        """Cycles from the buffer to the output: two products with rounding 17, queue 2."""
        return 17 + 2

    @property
    def latency(self) -> int:
        """Cycles from a row's last word to its first result, with loaded factors: statistics, values, two queues."""
        return self.statistics_latency + 2 + self.values_latency

    def cycles(self, operations: Words) -> int:
        """Cycles from an idle block's first operation to the last word, without back-pressure.

        The output of an operation waits for its parameters, two cycles per word, or for the statistics of its first
        row.
        """
        total = -1
        for features, rows, biased in zip(
            *(operations[name][:, 0].tolist() for name in ("features", "rows", "biased")), strict=True
        ):
            width, vectors = -(-features // self.lanes), -(-features // PARAMETERS_A_BEAT)
            first = max(width + self.latency, 2 * vectors * (1 + biased) + 1 + self.values_latency)
            total += 1 + first + rows * width
        return total

    def streams(self) -> dict[str, Stream]:
        tag, side = tag_fields(self.tag), Field("side", BIT)
        operation = tuple(Field(name, Format(bits, 0, signed=False)) for name, bits in _OPERATION.items())
        clipped = (Field(name, BIT, self.lanes) for name in ("clipped_scaled", "clipped"))
        return described(
            {
                "operation": Stream(
                    "in",
                    operation,
                    doc="``least``, ``fraction``, ``result_shift`` The next operation: features of a row, and number"
                    " of rows, both at least 1; layer norm where `centred`; whether biases come; the constant 1 "
                    "/ features and its fraction bits, as `golden.stream.norms.Norm.share` has it; what is added"
                    " to the sum of squares, at least 1; fraction bits of the factors, at most 18; fraction bits"
                    " that the results lack of 16, at most 12.",
                ),
                "parameters": Stream(
                    "in",
                    tuple(Field(name, Q8_16, PARAMETERS_A_BEAT) for name in ("plus", "minus")),
                    doc="Of both sides: all biases in Q8.16 where there are some, then all factors, in the lower 18 "
                    "bits. A word takes two cycles.",
                ),
                "i": Stream(
                    "in",
                    (Field("value", Q11_16, self.lanes), side, *tag),
                    doc="Rows. `side`, 1 for minus, and `tag`, only where it has bits, are those of a row's first "
                    "word. A row begins with a new word; what the last one has beyond the features is not read.",
                ),
                "o": Stream(
                    "out",
                    (
                        Field("value", Q8_16, self.lanes),
                        *clipped,
                        side,
                        Field("last", BIT, doc="of the row; `o_last` with its last word"),
                        *tag,
                    ),
                    doc="``last``, ``tag`` The rows; 0 beyond the features. `clipped_scaled`: the value was "
                    "saturated before its factor, `clipped`: the result was. `last`: the row ends.",
                ),
            },
            {
                "operation.features": "of a row, 1 to `features`",
                "operation.rows": "rows of both sides, at least 1",
                "operation.centred": "layer norm; otherwise RMS norm",
                "operation.biased": "biases come before the factors",
                "operation.factor": "the constant 1 / features, and its fraction bits: `Norm.share` of golden",
                "operation.factor_fraction": "the constant 1 / features, and its fraction bits: `Norm.share` of golden",
                "operation.least": "what is added to the sum of squares, at least 1: `Norm.least`",
                "operation.fraction": "fraction bits of the factors, 0 to 18",
                "operation.result_shift": "fraction bits that the results lack of 16, 0 to 12",
                "parameters.plus": "biases in Q8.16; factors in the lower 18 bits",
                "parameters.minus": "biases in Q8.16; factors in the lower 18 bits",
                "i.value": "lane 0 in the lowest bits; any fraction, which cancels",
                "i.side": "1 for minus; that of a row's first word counts",
                "o.value": "rounded half to even, `16 - result_shift` fraction bits; 0 beyond the features",
                "o.clipped_scaled": "the value divided by the deviation was saturated",
                "o.clipped": "the result was saturated",
                "o.side": "of the row; `o_last` with its last word",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Complete rows of each operation whose parameters are complete."""
        rows_in, parameters, first, read = inputs["i"], inputs["parameters"], 0, 0
        results = list[Words]()
        columns = inputs["operation"]
        for number in range(len(columns["rows"])):
            op = {name: int(column[number, 0]) for name, column in columns.items()}
            vectors, width = -(-op["features"] // PARAMETERS_A_BEAT), -(-op["features"] // self.lanes)
            end = read + vectors * (1 + op["biased"])
            rows = min(op["rows"], (len(rows_in["value"]) - first) // width)
            if end > len(parameters["plus"]) or not rows:
                break
            sides = [parameters[name][read:end].reshape(1 + op["biased"], -1) for name in ("plus", "minus")]
            part = {name: column[first : first + rows * width] for name, column in rows_in.items()}
            results.append(self._rows(op, np.stack(sides)[..., : op["features"]], part, width))
            first, read = first + rows * width, end
        return {"o": words_together(self.streams()["o"].fields, results, words)}

    def _rows(self, op: dict[str, int], vectors: Integers, part: Words, width: int) -> Words:
        """Results of an operation's rows; `vectors` has biases, if any, then factors of each side."""
        features = op["features"]
        constants = NormConstants(features, bool(op["centred"]), op["factor"], op["factor_fraction"], op["least"])
        gain = Format(FACTOR_BITS - op["fraction"], op["fraction"])
        result = Format(Q8_16.integer + op["result_shift"], Q8_16.fraction - op["result_shift"])
        rows = part["value"].reshape(-1, width * self.lanes)[:, :features]
        side = part["side"].reshape(-1, width)[:, 0]
        factors = (vectors[:, -1] + (1 << FACTOR_BITS - 1) & (1 << FACTOR_BITS) - 1) - (1 << FACTOR_BITS - 1)
        names = "value", "clipped_scaled", "clipped"
        padded = {name: np.zeros((len(rows), width * self.lanes), np.int64) for name in names}
        for number in np.unique(side):
            marks, chosen = _Marks(), side == number
            bias = vectors[number, 0] if op["biased"] else None
            value = constants.run(rows[chosen], factors[number], bias, gain, marks, result)
            for name, column in zip(names, (value, *marks.found), strict=True):
                padded[name][chosen, :features] = column
        words = {name: column.reshape(-1, self.lanes) for name, column in padded.items()}
        last = np.zeros_like(part["side"])
        last[width - 1 :: width] = 1
        row_fields = {name: np.repeat(part[name][::width], width, axis=0) for name in ("side", "tag") if name in part}
        return words | {"last": last} | row_fields

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        groups, depth = self.lanes // PARAMETERS_A_BEAT, 2 << (self.words - 1).bit_length()
        return (
            fifo_memory("rows", self.buffered, self.lanes * Q11_16.width),
            MemoryShape("factors", depth, PARAMETERS_A_BEAT * FACTOR_BITS, groups),
            MemoryShape("biases", depth, PARAMETERS_A_BEAT * Q8_16.width, groups),
            *self.table.memories("inverse roots", 1),
        )

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return {"table": (self.table.contents, self.table.width)}


class _Marks(Narrower):
    """Narrower that records flags of the clipped values of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Integers] = []

    def __call__(self, values: ArrayLike, source: Format | int, target: Format, noise: Any = None) -> Integers:
        result = super().__call__(values, source, target, noise)
        unlimited = narrow(values, source, Format(62 - target.fraction, target.fraction))
        self.found.append((result != unlimited).astype(np.int64))
        return result
