"""`norm_path`: norms of all rows of a pass, from the activation memory and back, by `layer_norm`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Supply, Words, described
from ...errors import UserError
from ...memories.plan import MemoryShape
from ..instruction import Instruction
from ..memory.chunks import Chunk
from ..norms import LARGEST_HIDDEN
from .chunk_unit import ChunkUnitSpec, chunk_words, operations_of, place_words
from .layer_norm import PARAMETERS_A_BEAT, LayerNormSpec

_SHARED = ("features", "centred", "biased", "factor", "factor_fraction", "least", "fraction", "result_shift")
"""Fields of an operation, passed on to `layer_norm`."""


def norm_operation(instruction: Instruction, capacity: int, rows: int) -> dict[str, int]:
    """Fields of an operation for `rows` rows of a side; the buffers hold `capacity` tokens of both sides."""
    settings = {name: getattr(instruction, "inputs" if name == "features" else name) for name in _SHARED}
    places = place_words("source", instruction.source, capacity) | place_words(
        "destination", instruction.destination, capacity
    )
    return settings | {"rows": rows, "stride": capacity} | places


@dataclass(frozen=True, kw_only=True)
class NormPathSpec(ChunkUnitSpec):
    """Parameters and model of `norm_path`, see `ChunkUnitSpec`.

    Parameters
    ----------
    norm_lanes : int
        Values a cycle: 4, 8 or 16, a divisor of `columns`.
    features : int
        Maximum number of features of a row: `norm_lanes` to 4,096.
    """

    name: ClassVar[str] = "norm_path"
    summary: ClassVar[str] = "layer or RMS norm of the rows of both sides, from the activation memory into it"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "small": {
            "lanes": 16,
            "columns": 4,
            "rows": 1024,
            "wide_rows": 256,
            "sums": 32,
            "norm_lanes": 4,
            "features": 64,
        }
    }

    norm_lanes: int = 8
    features: int = LARGEST_HIDDEN

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.norm
        if self.columns % self.norm_lanes:
            raise UserError(f"norm_lanes = {self.norm_lanes} do not divide {self.columns} columns")

    @cached_property
    def norm(self) -> LayerNormSpec:
        return LayerNormSpec(lanes=self.norm_lanes, features=self.features)

    @property
    def latency(self) -> int:
        """Cycles from the last word of a row of operands to its first chunk: the norm, and the chunk's other words."""
        return self.norm.latency + self.columns // self.norm_lanes - 1

    def streams(self) -> dict[str, Stream]:
        norm = {item.name: item for item in self.norm.streams()["operation"].fields}
        sizes = (
            Field("rows", self.count, doc="rows of a side, at least 1"),
            Field("stride", self.layout.address, doc="tokens that the buffers hold"),
        )
        fields = (*(norm[name] for name in _SHARED), *sizes, *self.place_fields("source", "destination"))
        streams = described(
            self.unit_streams(fields),
            operation="Settings of `layer_norm`, rows of a side, tokens that the buffers hold, both places.",
            operands_read="Chunks to read, row by row.",
            done="A word behind an operation's last write: values that were clipped, before and behind their factor.",
        )
        del streams["sentences"]
        return described(
            {"parameters": self.norm.streams()["parameters"]} | streams,
            {
                "parameters.plus": "biases and factors of both sides",
                "parameters.minus": "biases and factors of both sides",
                "operands_read.wide": "a chunk to read",
                "operands.value": "its values",
                "write.wide": "a chunk of results, 0 beyond the features",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Operations whose parameters and operands are complete."""
        reads, writes = list[Chunk](), list[Chunk]()
        values, clipped = [np.zeros((0, self.columns), np.int64)], list[int]()
        supply = Supply(inputs)
        for op in operations_of(inputs["operation"]):
            rows, groups = 2 * op["rows"], -(-op["features"] // self.columns)
            vectors = -(-op["features"] // PARAMETERS_A_BEAT) * (1 + op["biased"])
            taken = supply.take({"operands": rows * groups, "parameters": vectors})
            if taken is None:
                break
            for name, chunks in (("source", reads), ("destination", writes)):
                place = self.place(op, name)
                chunks += [
                    self.layout.chunk(place, group, row, op["stride"]) for row in range(rows) for group in range(groups)
                ]
            value, count = self._normalised(op, taken["operands"]["value"].reshape(rows, -1), taken["parameters"])
            values.append(value)
            clipped.append(count)
        outputs = {
            "operands_read": chunk_words(reads),
            "write": chunk_words(writes) | {"value": np.concatenate(values)},
            "done": {"clipped": np.array(clipped, np.int64)[:, None]},
        }
        return {name: {key: column[:words] for key, column in columns.items()} for name, columns in outputs.items()}

    def _normalised(self, fields: dict[str, int], rows: np.ndarray, parameters: Words) -> tuple[np.ndarray, int]:
        width = -(-fields["features"] // self.norm_lanes)
        values = rows[:, : width * self.norm_lanes].reshape(-1, self.norm_lanes)
        side = np.repeat(np.arange(len(rows)) >= fields["rows"], width)[:, None].astype(np.int64)
        operation = {name: np.array([[fields[name]]]) for name in _SHARED} | {"rows": np.array([[len(rows)]])}
        words = {"operation": operation, "parameters": parameters, "i": {"value": values, "side": side}}
        results = self.norm.run(words, len(values))["o"]
        value = results["value"].reshape(len(rows), -1)
        padded = np.pad(value, ((0, 0), (0, -value.shape[1] % self.columns)))
        return padded.reshape(-1, self.columns), int(results["clipped"].sum() + results["clipped_scaled"].sum())

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.norm.memories

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return self.norm.roms()
