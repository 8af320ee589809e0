"""`program_sequencer`: loads a program, checks every instruction against the core's limits, and issues instructions.

Checks, reasons and instruction numbers match the Python model, `golden.stream.machine.program`. The host checks the
digests.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...axi.bus import BEAT, BEAT_COUNT_BITS, data_field
from ...axi.regions import Bytes
from ...block import Field, Spec, Stream, Words, described
from ...errors import UserError, check_range
from ...fixed import Format
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from ..instruction import FIELD_BITS, INSTRUCTION_BEATS, Instruction
from .core_size import CoreSize
from .limits import MOST_FEATURES, Reason
from .program import Program, ProgramError, read_program

LOAD, RUN = 0, 1
REASON = Format(6, 0, signed=False)
NUMBER = Format(16, 0, signed=False)
HEADER_FIELDS = {
    "operations": 16,
    "capacity": 16,
    "features": 32,
    "inputs": 32,
    "words": 32,
    "behind": 32,
    "stream_beats": 32,
    "beats": 32,
}
"""Widths, in bits, of the header fields that a status reports; each is common to all instructions."""


@dataclass(frozen=True, kw_only=True)
class ProgramSequencerSpec(Spec):
    """Parameters and model of `program_sequencer`.

    Parameters
    ----------
    operations : int
        Maximum number of instructions in a program: 1 to 4,096.
    lanes : int
        Inputs of a tile, see `golden.stream.machine.core_size.CoreSize`: a power of two from 2 to 64.
    columns : int
        Outputs of a tile, see `golden.stream.machine.core_size.CoreSize`: a power of two from 2 to 64.
    rows : int
        Rows of the activation memory, see `golden.stream.machine.core_size.CoreSize`: at least 1.
    wide_rows : int
        Rows of the wide memory, see `golden.stream.machine.core_size.CoreSize`: at least 1.
    sums : int
        Rows of partial sums, see `golden.stream.machine.core_size.CoreSize`: at least 1.
    features : int
        Maximum number of values in a bias, in a row of positions and in a norm: 1 to 4,096.
    """

    name: ClassVar[str] = "program_sequencer"
    summary: ClassVar[str] = "a program from memory, checked instruction by instruction, and its instructions in order"

    operations: int = 512
    lanes: int = 32
    columns: int = 16
    rows: int = CoreSize.rows
    wide_rows: int = CoreSize.wide_rows
    sums: int = CoreSize.sums
    features: int = MOST_FEATURES

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lanes", "columns"):
            if getattr(self, name).bit_count() != 1 or not 2 <= getattr(self, name) <= 64:
                raise UserError(f"{name} = {getattr(self, name)}: give a power of two from 2 to 64")
        check_range("operations", self.operations, 1, 4096)
        check_range("features", self.features, 1, MOST_FEATURES)
        _ = self.size

    @cached_property
    def size(self) -> CoreSize:
        return CoreSize(self.lanes, self.columns, self.rows, self.wide_rows, self.sums)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (MemoryShape("instructions", self.operations * INSTRUCTION_BEATS, 8 * BEAT),)

    def streams(self) -> dict[str, Stream]:
        counts = (Field(name, Format(bits, 0, signed=False)) for name, bits in HEADER_FIELDS.items())
        instruction = (Field(name, Format(bits, 0, signed=False)) for name, bits in FIELD_BITS.items())
        count = Field(
            "count",
            Format(BEAT_COUNT_BITS, 0, signed=False),
            doc="beats of the image to load; or number of instructions to give, 0 for all to the end",
        )
        return described(
            {
                "command": Stream(
                    "in",
                    (
                        Field("run", BIT, doc="0 loads an image, 1 gives instructions"),
                        Field("first", NUMBER, doc="the first instruction to give"),
                        count,
                    ),
                    doc="`run` = 0: load `count` beats. `run` = 1: give `count` instructions from `first`, 0 for all."
                    " Accepted after the previous command.",
                ),
                "image": Stream(
                    "in",
                    (data_field(8 * BEAT), Field("error", BIT, doc="the bus reported an error")),
                    doc="Beats of an image, accepted one a cycle during a load, also if the image is wrong.",
                ),
                "status": Stream(
                    "out",
                    (
                        Field("reason", REASON, doc="0, or the reason to refuse the program or the run"),
                        Field("place", NUMBER, doc="number of the refused instruction"),
                        *counts,
                    ),
                    doc="A word for each load and each refused run: `Reason`, the instruction's number, and the fields "
                    "of the program's header, 0 without a valid program.",
                ),
                "o": Stream("out", tuple(instruction), doc="Instructions in order, some cycles apart."),
            },
            {
                "image.data": "the byte at the lowest address in the lowest bits",
                "status.operations": "number of instructions",
                "status.capacity": "tokens in the buffers at once",
                "status.features": "features of an input token",
                "status.inputs": "`RowAddress` of the inputs",
                "status.words": "perturbation words; of a cut network, those of the first part",
                "status.behind": "perturbation words of the part after the cut",
                "status.stream_beats": "beats of the weight stream",
                "status.beats": "beats of the weight stream and the tables",
                "o.kind": "fields of `Instruction`",
                "o.part": "fields of `Instruction`",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Statuses of all loads and of refused runs, and the instructions of accepted runs, in order."""
        program: Program | None = None
        statuses, ran, first_beat = list[dict[str, int]](), list[Instruction](), 0
        commands = inputs["command"]
        for run, first, count in zip(*(commands[name][:, 0] for name in ("run", "first", "count")), strict=True):
            if run == RUN:
                if program is None or first >= len(program.instructions):
                    reason = Reason.NO_OPERATION if program else Reason.NO_PROGRAM
                    statuses.append(self._status(reason, 0, program))
                    continue
                ran.extend(program.instructions[first : first + count if count else None])
                continue
            beats = slice(first_beat, first_beat + count)
            first_beat += count
            image = inputs["image"]["data"][beats].astype(np.uint8).reshape(-1)
            program, reason, number = self._loaded(image, bool(inputs["image"]["error"][beats].any()))
            statuses.append(self._status(reason, number, program))
        columns = {name: np.array([[getattr(item, name)] for item in ran], np.int64) for name in FIELD_BITS}
        names = [item.name for item in self.streams()["status"].fields]
        status_columns = {name: np.array([[item[name]] for item in statuses], np.int64) for name in names}
        return {
            "status": {name: column.reshape(-1, 1)[:words] for name, column in status_columns.items()},
            "o": {name: column.reshape(-1, 1)[:words] for name, column in columns.items()},
        }

    def _loaded(self, image: Bytes, error: bool) -> tuple[Program | None, Reason, int]:
        """Program of an image, or the reason of the refusal and the number of the refused instruction."""
        if error:
            return None, Reason.BUS, 0
        try:
            program = read_program(image, self.size)
            if len(program.instructions) > self.operations:
                return None, Reason.LENGTH, 0
            program.check(self.features)
        except ProgramError as refused:
            return None, refused.reason, refused.number
        return program, Reason.NONE, 0

    @staticmethod
    def _status(reason: Reason, number: int, program: Program | None) -> dict[str, int]:
        counts = dict.fromkeys(HEADER_FIELDS, 0)
        if program:
            values = {item.name: getattr(program, item.name) for item in fields(program)}
            counts = {name: values.get(name, len(program.instructions)) for name in HEADER_FIELDS}
        return {"reason": int(reason), "place": number, **counts}
