"""`value_path`: computes stored values from a linear layer's sums or from values of the activation memory.

Values pass `requantize`, `activation_function` and `elementwise`, four per cycle. Biases and rows of positions come
from the weight stream and wait in their own memory; second values come from the activation memory. Stored rows are
whole rows of a memory, with zeros after the features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ...axi.bus import BEAT
from ...block import Field, Spec, Stream, Supply, Words, described, packets_of, rows_of, words_together
from ...errors import UserError
from ...fixed import Q8_16, Integers
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from ..memory.chunks import Chunk, ValueAddress
from .activation_function import ActivationFunctionSpec
from .chunk_unit import ChunkUnitSpec, chunk_words
from .elementwise import ElementwiseSpec
from .requantize import SUM, RequantizeSpec
from .value_operation import LARGEST_VECTOR, OperationSettings, ValueOperation, operation_fields, settings

VALUES = BEAT // 4
"""Values a cycle: a beat's."""
UNDER_WAY = 64
"""Largest number of words and chunks in flight between first stage and output: more than stages."""
ASKED = 32
"""Words of each operand between the read request and the first stage."""


class ResultChunk(NamedTuple):
    """A chunk of results: `group` is its first feature divided by `columns`, `vector` the row of positions or 0."""

    group: int
    row: int
    side: int
    vector: int = 0


@dataclass(frozen=True, kw_only=True)
class ValuePathSpec(ChunkUnitSpec):
    """Parameters and model of `value_path`, see `ChunkUnitSpec`.

    Parameters
    ----------
    features : int
        Maximum number of values of a bias or of a row of positions: whole chunks, from two chunks to 4,096 values.
    """

    name: ClassVar[str] = "value_path"
    summary: ClassVar[str] = "from sums of a linear layer, or stored values, to stored values: bias, activation, join"

    features: int = LARGEST_VECTOR

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 * self.columns <= self.features <= LARGEST_VECTOR or self.features % self.columns:
            raise UserError(
                f"features = {self.features} is not in {2 * self.columns} (two chunks) to {LARGEST_VECTOR}, whole "
                f"chunks of {self.columns}"
            )

    @property
    def words(self) -> int:
        return self.columns // VALUES

    @property
    def bias_groups(self) -> int:
        return self.features // self.columns

    @property
    def latency(self) -> int:
        """Cycles from the first stage to the output queue: bias 2, the three blocks, queue 2."""
        parts = (RequantizeSpec(), ActivationFunctionSpec(), ElementwiseSpec())
        return 2 + sum(part.latency for part in parts) + 2

    def cycles(self, op: ValueOperation) -> int:
        """Cycles from an idle block's operation, other than positions, to `done`, without back-pressure.

        The first word waits for the biases.
        """
        setting, (groups, padding) = settings(op), self.chunks(op)
        reads = bool(setting.joined) + (not setting.sums)
        begin = max(8 if reads else 6, -(-op.features // VALUES) if setting.biased else 0) + (reads == 2)
        chunks = 2 * op.rows * len(groups)
        words = (chunks - 1) * max(self.words, reads) + self.words
        return begin + words + self.latency + 2 * op.rows * len(padding) + 3

    def streams(self) -> dict[str, Stream]:
        streams = described(
            self.unit_streams(operation_fields(self.layout.address, self.count)),
            operation="The next operation, see `value_operation`. It is taken when `done` of the one before is.",
            sentences="Of positions alone, once for each position: first row and rows of all sentences, first those of "
            "the plus side.",
            operands_read="Chunks that are asked for, `tag` for a second value.",
            write="Results; zeros behind the features, up to the end of a row of the memory.",
        )
        tag = Field("tag", BIT)
        tagged = {
            name: replace(streams[name], fields=(*streams[name].fields, tag)) for name in ("operands_read", "operands")
        }
        biases = (
            *(Field(side, Q8_16, VALUES) for side in ("plus", "minus")),
            Field("last", BIT, doc="of both sides, Q8.16; the vector's last word"),
        )
        inputs = {
            "sums": Stream(
                "in",
                (Field("sum", SUM, VALUES, doc="lane 0 in the lowest bits"),),
                doc="Exact sums of a linear layer: for each group of `columns` features, for all rows of the plus "
                "side, then of the minus side, in words of 4 features.",
            ),
            "biases": Stream(
                "in",
                biases,
                doc="Biases of an operation that is `biased`, or the next row of positions, of both sides. Taken as "
                "soon as no word needs those before.",
            ),
        }
        return described(
            streams | tagged | inputs,
            {
                "operation.kind": "1 linear layer, 4 activation, 5 gate, 6 sum, 7 positions",
                "operation.activation": "of a linear layer: number of its activation",
                "operation.join": "of a linear layer: what joins its values",
                "operation.form": "format of the result",
                "operation.biased": "of a linear layer: biases come",
                "operation.fraction": "of a linear layer: fraction bits of its weights",
                "operation.shift": "fraction bits that the values lack",
                "operation.passed_shift": "fraction bits that the values behind the activation lack",
                "operation.result_shift": "fraction bits that the results lack",
                "operation.source_shift": "fraction bits that stored values lack",
                "operation.second_shift": "fraction bits that joining values lack",
                "operation.features": "of a result, at least 1",
                "operation.rows": "rows of a side, at least 1",
                "operation.sentences": "of positions: sentences of a side, at least 1",
                "operation.longest": "of positions: tokens of the longest sentence",
                "operation.stride": "addresses from a line of a memory to the next",
                "sentences.first": "row of the first token",
                "sentences.length": "tokens",
                "operands_read.tag": "it is one of second values",
            },
        )

    @property
    def bias_memory(self) -> MemoryShape:
        """Biases or positions of both sides, four values of each per word."""
        return MemoryShape("biases of layers", self.features // VALUES, 2 * VALUES * Q8_16.width)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (self.bias_memory, *ActivationFunctionSpec(lanes=VALUES).memories)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return ActivationFunctionSpec(lanes=VALUES).roms()

    # -- the model ---------------------------------------------------------------------------------------------------

    def chunks(self, op: ValueOperation) -> tuple[range, range]:
        """Number of groups of an operation's results, and of groups of zeros to the end of the memory row."""
        count = -(-op.features // self.columns)
        end = count if op.destination_wide else -(-count // self.layout.parts) * self.layout.parts
        return range(count), range(count, end)

    def jobs(self, op: ValueOperation, sentences: Words) -> Iterator[ResultChunk]:
        """Chunks in order, zero chunks included; for positions, `sentences` lists all sentences once per position."""
        groups = [group for part in self.chunks(op) for group in part]
        if not settings(op).positions:
            for group in groups:
                yield from (ResultChunk(group, row, row // op.rows) for row in range(2 * op.rows))
            return
        rows_of_sentences = zip(sentences["first"][:, 0].tolist(), sentences["length"][:, 0].tolist(), strict=True)
        for number, (first, length) in enumerate(rows_of_sentences):
            position, sentence = divmod(number, 2 * op.sentences)
            if length > position:
                yield from (
                    ResultChunk(group, first + position, sentence // op.sentences, position) for group in groups
                )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Operations whose inputs are complete.

        Raises `UserError` if an operation has more rows of a side than the block can hold.
        """
        outputs: dict[str, list[Words]] = {name: [] for name, port in self.streams().items() if port.direction == "out"}
        supply = Supply(inputs)
        for op in rows_of(inputs["operation"], ValueOperation):
            chosen = settings(op)
            if (most := op.longest if chosen.positions else op.rows) > self.longest:
                raise UserError(f"{most} rows of a side: there is room for {self.longest}")
            entries = 2 * op.sentences * op.longest if chosen.positions else 0
            jobs = [*self.jobs(op, supply.left("sentences", entries))]
            stored = [job for job in jobs if job.group in self.chunks(op)[0]]
            vectors = packets_of(supply.left("biases")["last"])
            count = (op.longest if chosen.positions else 1) if chosen.biased else 0
            needs = {
                "sums": len(stored) * self.words if chosen.sums else 0,
                "biases": vectors[count - 1][1] if 0 < count <= len(vectors) else 0,
                "sentences": entries,
                "operands": len(stored) * (bool(chosen.joined) + (not chosen.sums)),
            }
            taken = supply.take(needs)
            if taken is None or count > len(vectors):
                break
            for port, part in self._operation(op, chosen, jobs, stored, taken, vectors[:count]).items():
                outputs[port].append(part)
        return {port: words_together(self.streams()[port].fields, parts, words) for port, parts in outputs.items()}

    def _operation(
        self,
        op: ValueOperation,
        chosen: OperationSettings,
        jobs: list[ResultChunk],
        stored: list[ResultChunk],
        inputs: dict[str, Words],
        vectors: list[tuple[int, int]],
    ) -> dict[str, Words]:
        values, clipped = self._values(chosen, stored, inputs, vectors)
        used = np.array([job.group for job in stored])[:, None] * self.columns + np.arange(self.columns) < op.features
        places = {name: self.place(op._asdict(), name) for name in ("source", "second", "destination")}
        kinds = ["source"] * (not chosen.sums) + ["second"] * bool(chosen.joined)
        reads = [self._chunk(places[name], job, op.stride) for job in stored for name in kinds]
        tags = np.tile([name == "second" for name in kinds], len(stored)).astype(np.int64)
        # the rest of a row is zero
        written = np.zeros((len(jobs), self.columns), np.int64)
        written[[job.group in self.chunks(op)[0] for job in jobs]] = np.where(used, values, 0)
        writes = chunk_words([self._chunk(places["destination"], job, op.stride) for job in jobs])
        return {
            "operands_read": chunk_words(reads) | {"tag": tags[:, None]},
            "write": writes | {"value": written},
            "done": {"clipped": np.array([[(clipped * used).sum()]])},
        }

    def _chunk(self, place: ValueAddress, job: ResultChunk, stride: int) -> Chunk:
        wide, address, part = self.layout.chunk(place, job.group, job.row, stride)
        return Chunk(wide, address % (1 << self.layout.address.width), part)

    def _values(
        self,
        chosen: OperationSettings,
        jobs: list[ResultChunk],
        inputs: dict[str, Words],
        vectors: list[tuple[int, int]],
    ) -> tuple[Integers, Integers]:
        """Values of chunks, and the number of times each was clipped, (chunks, columns)."""
        operands = inputs["operands"]["value"]
        kinds = 1 + (bool(chosen.joined) and not chosen.sums)
        second = operands[kinds - 1 :: kinds] if chosen.joined else np.zeros((len(jobs), self.columns), np.int64)
        first = inputs["sums"]["sum"] if chosen.sums else operands[::kinds]
        bias = np.zeros((len(jobs), self.columns), np.int64)
        if chosen.biased:
            rows = np.zeros((len(vectors), 2, self.features), np.int64)
            for row, (start, end) in zip(rows, vectors, strict=True):
                for side, name in zip(row, ("plus", "minus"), strict=True):
                    side[: VALUES * (end - start)] = inputs["biases"][name][start:end].reshape(-1)
            places = np.array([(job.vector, job.side, job.group) for job in jobs]).T
            bias = rows.reshape(len(vectors), 2, -1, self.columns)[*places]
        value, clipped = _made(
            RequantizeSpec(),
            {"sum": first.reshape(-1, VALUES), "bias": bias.reshape(-1, VALUES)},
            fraction=chosen.fraction,
            input_shift=chosen.sum_shift,
            output_shift=chosen.value_shift,
            form=chosen.form,
        )
        if chosen.activation:  # 27-bit values bypass the block
            value, again = _made(
                ActivationFunctionSpec(),
                {"value": value},
                kind=chosen.activation,
                input_shift=chosen.taken_shift,
                output_shift=chosen.made_shift,
            )
            clipped = clipped + again
        value, again = _made(
            ElementwiseSpec(),
            {"first": value, "second": second.reshape(-1, VALUES)},
            kind=chosen.join,
            first_shift=chosen.first_shift,
            second_shift=chosen.second_shift,
            output_shift=chosen.result_shift,
        )
        return value.reshape(-1, self.columns), (clipped + again).reshape(-1, self.columns)


def _made(part: Spec, columns: Words, **numbers: int) -> tuple[Integers, Integers]:
    """Values of a block with equal settings for all words, and flags of clipped values."""
    words = len(next(iter(columns.values())))
    fields = columns | {name: np.full((words, 1), number) for name, number in numbers.items()}
    outputs = part.run({"i": fields}, words)["o"]
    return outputs["value"], outputs["clipped"]
