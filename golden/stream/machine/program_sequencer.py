"""`program_sequencer`: loads a program, checks every instruction against the core's limits, and issues instructions.

Checks, reasons and operation numbers are those of the Python model. The host checks the digest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...axi.bus import BEAT, BEAT_COUNT_BITS, data_field
from ...axi.regions import Bytes
from ...block import Field, Spec, Stream, Words, described
from ...errors import UserError
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
COUNTS = {
    "operations": 16,
    "capacity": 16,
    "features": 32,
    "inputs": 32,
    "words": 32,
    "behind": 32,
    "stream_beats": 32,
    "beats": 32,
}
"""Fields of a program that hold for all instructions, with their bits."""


@dataclass(frozen=True, kw_only=True)
class ProgramSequencerSpec(Spec):
    """Parameters and model of `program_sequencer`.

    Parameters
    ----------
    operations : int
        Instructions of a program, at most: 1 to 4,096.
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
        Values of a bias, a row of positions, and a norm, at most: 1 to 4,096.
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
        if not 1 <= self.operations <= 4096:
            raise UserError(f"operations = {self.operations} is not in 1 to 4096")
        if not 1 <= self.features <= MOST_FEATURES:
            raise UserError(f"features = {self.features} is not in 1 to {MOST_FEATURES}")
        _ = self.size

    @cached_property
    def size(self) -> CoreSize:
        return CoreSize(self.lanes, self.columns, self.rows, self.wide_rows, self.sums)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (MemoryShape("instructions", self.operations * INSTRUCTION_BEATS, 8 * BEAT),)

    def streams(self) -> dict[str, Stream]:
        counts = (Field(name, Format(bits, 0, signed=False)) for name, bits in COUNTS.items())
        instruction = (Field(name, Format(bits, 0, signed=False)) for name, bits in FIELD_BITS.items())
        count = Field(
            "count",
            Format(BEAT_COUNT_BITS, 0, signed=False),
            doc="beats of the image to load; or the most instructions to give, 0 for all to the end",
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
                    doc="To load an image of so many beats, or to give so many instructions from the first on, all "
                    "where the count is 0; taken when the one before is done.",
                ),
                "image": Stream(
                    "in",
                    (data_field(8 * BEAT), Field("error", BIT, doc="the bus told an error")),
                    doc="Beats of an image, taken one a cycle while it is loaded, all of them whatever is in them.",
                ),
                "status": Stream(
                    "out",
                    (
                        Field("reason", REASON, doc="0, or why it is refused"),
                        Field("place", NUMBER, doc="number of the operation that is refused"),
                        *counts,
                    ),
                    doc="A word for each load, and for a run that is refused: `Reason`, the operation's number, and "
                    "what the program says of all its instructions, 0 where there is none.",
                ),
                "o": Stream("out", tuple(instruction), doc="One after the other, some cycles apart."),
            },
            {
                "image.data": "the byte at the lowest address in the lowest bits",
                "status.operations": "what the program says of all instructions; 0 where there is none",
                "status.beats": "what the program says of all instructions; 0 where there is none",
                "o.kind": "its fields",
                "o.part": "its fields",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Load and run: a status for each load and each refused run, an instruction for each that runs.

        A command's count is the beats of an image to load, or the instructions to run, 0 for all from the first.
        """
        program: Program | None = None
        statuses, ran, place = list[dict[str, int]](), list[Instruction](), 0
        commands = inputs["command"]
        for run, first, count in zip(*(commands[name][:, 0] for name in ("run", "first", "count")), strict=True):
            if run == RUN:
                if program is None or first >= len(program.instructions):
                    reason = Reason.NO_OPERATION if program else Reason.NO_PROGRAM
                    statuses.append(self._status(reason, 0, program))
                    continue
                ran.extend(program.instructions[first : first + count if count else None])
                continue
            beats = slice(place, place + count)
            place += count
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
        """Program of an image, reason of its refusal, number of the refused operation."""
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
        counts = dict.fromkeys(COUNTS, 0)
        if program:
            values = {item.name: getattr(program, item.name) for item in fields(program)}
            counts = {name: values.get(name, len(program.instructions)) for name in COUNTS}
        return {"reason": int(reason), "place": number, **counts}
