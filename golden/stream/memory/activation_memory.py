"""`activation_memory`: activations of a pass in a narrow and a wide memory; one writer, three readers.

The array and the key tiles read whole rows of the narrow memory. All other ports read and write chunks, see `chunks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...block import Field, Spec, Stream, Words, described, tag_fields
from ...errors import UserError
from ...fixed import Q8_16, Integers
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from ..norms import Q11_16
from .chunks import ChunkLayout

READERS = ("operands", "keys", "rows")
"""Read ports; the narrow memory serves the first one first."""
READS_AHEAD = 8
"""Outstanding reads of a port, waiting results included."""


@dataclass(frozen=True, kw_only=True)
class ActivationMemorySpec(Spec):
    """Parameters and model of `activation_memory`.

    Parameters
    ----------
    lanes : int
        Values of a row of the narrow memory, see `ChunkLayout`: a power of two from 4 to 64.
    columns : int
        Values of a chunk, a power of two, at most `lanes`. A row of the wide memory is a chunk, with 27 bits a value.
    rows : int
        Rows of the narrow memory, 2 to 1,048,576.
    wide_rows : int
        Rows of the wide memory, 2 to 1,048,576.
    row_tag : int
        Tag bits of a read of `rows`, 0 to 32; 0 for no tag.
    key_tag : int
        Tag bits of a read of `keys`, 0 to 32; 0 for no tag.
    operand_tag : int
        Tag bits of a read of `operands`, 0 to 32; 0 for no tag.
    """

    name: ClassVar[str] = "activation_memory"
    summary: ClassVar[str] = "activations of a pass in two memories: a chunk a cycle in, rows, keys and operands out"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "small": {"lanes": 16, "columns": 4, "rows": 1024, "wide_rows": 512},
    }

    lanes: int = 32
    columns: int = 16
    rows: int = 12_288
    wide_rows: int = 4_096
    row_tag: int = 11
    key_tag: int = 6
    operand_tag: int = 9

    def __post_init__(self) -> None:
        super().__post_init__()
        self.streams()

    @cached_property
    def layout(self) -> ChunkLayout:
        return ChunkLayout(self.lanes, self.columns, self.rows, self.wide_rows)

    @property
    def latency(self) -> int:
        """Cycles from a read to its result: address, memory, word, and two for the queue."""
        return 5

    def streams(self) -> dict[str, Stream]:
        address = Field("address", self.layout.address)
        chunk = (Field("wide", BIT, doc="its place"), address, Field("part", self.layout.part, doc="its place"))
        values = Field("value", Q11_16, self.columns)
        ports = {
            "write": Stream(
                "in",
                (*chunk, values),
                doc="A chunk; always taken. Of a value the narrow memory takes the lower 24 bits.",
            )
        }
        tags = (tag_fields(bits) for bits in (self.operand_tag, self.key_tag, self.row_tag))
        for name, tag in zip(READERS, tags, strict=True):
            wide = name == "operands"
            ports[f"{name}_read"] = Stream(
                "in",
                (*(chunk if wide else (address,)), *tag),
                doc=f"{'A chunk' if wide else 'A row of the narrow memory'} to read. A read sees what was written in "
                "earlier cycles, and nothing later.",
            )
            ports[name] = Stream(
                "out",
                (values if wide else Field("value", Q8_16, self.lanes), *tag),
                doc=f"{'Chunks' if wide else 'Rows'} in the order of their reads.",
            )
        return described(
            ports,
            {
                "write.address": "row of that memory",
                "write.value": "of each the narrow memory takes the lower 24 bits",
                "rows_read.address": "row of the narrow memory",
                "rows_read.tag": "comes back with the row",
                "rows.value": "part 0 in the lowest bits",
                "rows.tag": "that of the read",
                "operands_read.address": "row of that memory",
                "operands_read.tag": "what comes back with it",
                "operands.value": "sign-extended where they are narrow",
                "operands.tag": "that of the read",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Results of all reads after all writes.

        The model has no time. In the RTL a read sees only the writes of earlier cycles. Both agree if every read
        follows the writes of its address, for example in phases. Raises `UserError` if an address is outside a memory
        or never written, or a value does not fit the narrow memory's 24 bits.
        """
        contents = _Contents(self)
        contents.write(inputs["write"])
        outputs = {}
        for name in READERS:
            reads = {field: column[:words] for field, column in inputs[f"{name}_read"].items()}
            value = contents.chunks(reads) if name == "operands" else contents.narrow_rows(reads)
            outputs[name] = {"value": value} | ({"tag": reads["tag"]} if "tag" in reads else {})
        return outputs

    @property
    def narrow_memory(self) -> MemoryShape:
        """Narrow memory: one memory for each part of a row, because parts are written separately."""
        width = self.columns * Q8_16.width
        return MemoryShape("activations", self.rows, width, count=self.layout.parts, ultra=True)

    @property
    def wide_memory(self) -> MemoryShape:
        return MemoryShape("wide activations", self.wide_rows, self.columns * Q11_16.width, ultra=True)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.narrow_memory, self.wide_memory


class _Contents:
    """Contents of both memories, with flags of written chunks."""

    def __init__(self, spec: ActivationMemorySpec) -> None:
        layout = spec.layout
        self._values = {
            wide: np.zeros((rows, 1 if wide else layout.parts, spec.columns), np.int64)
            for wide, rows in ((False, spec.rows), (True, spec.wide_rows))
        }
        self._known = {wide: np.zeros(values.shape[:2], bool) for wide, values in self._values.items()}

    def write(self, words: Words) -> None:
        for wide, where, address, part in self._places(words):
            values = words["value"][where]
            if not wide and (values.max(initial=0) > Q8_16.maximum or values.min(initial=0) < Q8_16.minimum):
                raise UserError(f"a value of the narrow memory does not fit {Q8_16.width} bits")
            self._values[wide][address, part] = values
            self._known[wide][address, part] = True

    def chunks(self, words: Words) -> Integers:
        values = np.zeros((len(words["address"]), self._values[True].shape[2]), np.int64)
        for wide, where, address, part in self._places(words):
            self._check(wide, address, self._known[wide][address, part])
            values[where] = self._values[wide][address, part]
        return values

    def narrow_rows(self, words: Words) -> Integers:
        address = words["address"][:, 0]
        self._inside(False, address)
        self._check(False, address, np.logical_and.reduce(self._known[False][address], axis=1))
        values = self._values[False]
        return values[address].reshape(len(address), values[0].size)

    def _places(self, words: Words) -> Iterator[tuple[bool, Integers, Integers, Integers]]:
        """Words that address each memory: flag `wide`, then indices, addresses and parts of these words."""
        for wide in (False, True):
            where = np.flatnonzero(words["wide"][:, 0] == wide)
            address, part = words["address"][where, 0], words["part"][where, 0]
            self._inside(wide, address)
            if (part >= self._values[wide].shape[1]).any():
                raise UserError(f"there is no part {part.max()} of a row of the {_TITLES[wide]} memory")
            yield wide, where, address, part

    def _inside(self, wide: bool, address: Integers) -> None:
        rows = len(self._values[wide])
        if address.max(initial=0) >= rows:
            raise UserError(f"address {address.max()} is outside the {_TITLES[wide]} memory of {rows} rows")

    def _check(self, wide: bool, address: Integers, known: NDArray[np.bool_]) -> None:
        if not known.all():
            row = address[np.flatnonzero(~known)[0]]
            raise UserError(f"row {row} of the {_TITLES[wide]} memory is read and was never written")


_TITLES = {False: "narrow", True: "wide"}
