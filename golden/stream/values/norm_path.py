"""`norm_path`: norms of all rows of a pass, from the activation memory into it, by `layer_norm`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Words, described
from ...errors import UserError
from ...memories.plan import MemoryShape
from ..instruction import Instruction
from ..memory.chunks import Chunk
from ..norms import LARGEST_HIDDEN
from .chunk_unit import ChunkUnitSpec, chunk_words, operations_of, place_words
from .layer_norm import VALUES, LayerNormSpec

_SHARED = ("features", "centred", "biased", "factor", "factor_fraction", "least", "fraction", "result_shift")
"""Fields of an operation that `layer_norm` has, too."""


def norm_operation(one: Instruction, capacity: int, rows: int) -> dict[str, int]:
    """Make the fields of an operation.

    Parameters
    ----------
    one : Instruction
    capacity : int
        Tokens of all sides that are in the buffers at once.
    rows : int
        Rows of a side.
    """
    own = {name: getattr(one, "inputs" if name == "features" else name) for name in _SHARED}
    places = place_words("source", one.source, capacity) | place_words("destination", one.destination, capacity)
    return own | {"rows": rows, "stride": capacity} | places


@dataclass(frozen=True, kw_only=True)
class NormPathSpec(ChunkUnitSpec):
    """Parameters and model of `norm_path`, see `ChunkUnitSpec`.

    Parameters
    ----------
    norm_lanes : int
        Values a cycle; it divides `columns`. Refused: not 4, 8 or 16, or not a divisor of `columns`.
    features : int
        Most of a row. Refused: less than `norm_lanes`, more than 4,096.
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
        """Spec of the norm itself."""
        return LayerNormSpec(lanes=self.norm_lanes, features=self.features)

    @property
    def latency(self) -> int:
        """Cycles from the last word of a row of operands to its first chunk: those of the norm, and its other words."""
        return self.norm.latency + self.columns // self.norm_lanes - 1

    def streams(self) -> dict[str, Stream]:
        """Streams: `operation`, its `parameters` and the memory's `operands` in; reads, writes and `done` out."""
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
        """Compute operations as long as all of their parameters and operands are there."""
        reads, writes = list[Chunk](), list[Chunk]()
        values, clipped = [np.zeros((0, self.columns), np.int64)], list[int]()
        taken = used = 0
        for one in operations_of(inputs["operation"]):
            rows, groups = 2 * one["rows"], -(-one["features"] // self.columns)
            vectors = -(-one["features"] // VALUES) * (1 + one["biased"])
            operands = inputs["operands"]["value"][taken : taken + rows * groups]
            own = {name: column[used : used + vectors] for name, column in inputs["parameters"].items()}
            if len(operands) < rows * groups or len(own["plus"]) < vectors:
                break
            taken, used = taken + rows * groups, used + vectors
            for name, chunks in (("source", reads), ("destination", writes)):
                place = self.place(one, name)
                chunks += [
                    self.layout.chunk(place, group, row, one["stride"])
                    for row in range(rows)
                    for group in range(groups)
                ]
            value, count = self._normalised(one, operands.reshape(rows, -1), own)
            values.append(value)
            clipped.append(count)
        made = {
            "operands_read": chunk_words(reads),
            "write": chunk_words(writes) | {"value": np.concatenate(values)},
            "done": {"clipped": np.array(clipped, np.int64)[:, None]},
        }
        return {name: {key: column[:words] for key, column in columns.items()} for name, columns in made.items()}

    def _normalised(self, one: dict[str, int], rows: np.ndarray, own: Words) -> tuple[np.ndarray, int]:
        """Chunks of the norms of rows, and how many values are clipped."""
        width = -(-one["features"] // self.norm_lanes)
        given = rows[:, : width * self.norm_lanes].reshape(-1, self.norm_lanes)
        side = np.repeat(np.arange(len(rows)) >= one["rows"], width)[:, None].astype(np.int64)
        operation = {name: np.array([[one[name]]]) for name in _SHARED} | {"rows": np.array([[len(rows)]])}
        words = {"operation": operation, "parameters": own, "i": {"value": given, "side": side}}
        found = self.norm.run(words, len(given))["o"]
        value = found["value"].reshape(len(rows), -1)
        padded = np.pad(value, ((0, 0), (0, -value.shape[1] % self.columns)))
        return padded.reshape(-1, self.columns), int(found["clipped"].sum() + found["clipped_scaled"].sum())

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Memories of the norm."""
        return self.norm.memories

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents of the norm's table."""
        return self.norm.roms()
