"""Trace of the activation memories after each instruction, and its first difference from the golden model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...axi.bus import BEAT
from ...fixed import Integers
from ...stream.instruction import Instruction, RowAddress
from ...stream.machine.images import StreamImages
from ...stream.machine.schedule import TransformerSchedule
from ...stream.memory.chunks import ChunkLayout
from ...stream.words import TensorName
from .pass_memory import passes_of

VALUE_BYTES = 4
SIDES = ("plus", "minus")


@dataclass(frozen=True)
class MemoryTraceLayout:
    """Image of both memories: chunks of the narrow memory row by row, then those of the wide memory, 4 bytes per value.

    Parameters
    ----------
    chunks : ChunkLayout
    """

    chunks: ChunkLayout

    @property
    def chunk_beats(self) -> int:
        """Beats of a chunk."""
        return self.chunks.columns * VALUE_BYTES // BEAT

    @property
    def narrow_chunks(self) -> int:
        """Chunks of the narrow memory."""
        return self.chunks.rows * self.chunks.parts

    @property
    def beats(self) -> int:
        """Beats of the image."""
        return (self.narrow_chunks + self.chunks.wide_rows) * self.chunk_beats

    @property
    def bits(self) -> int:
        """Bits of a beat number."""
        return (self.beats - 1).bit_length()

    def rows(self, image: NDArray[np.uint8], wide: bool) -> Integers:
        """Rows of a memory, (rows, values)."""
        chunks = self.chunks
        values = image.view("<i4").reshape(-1, chunks.columns)
        if wide:
            return values[self.narrow_chunks :].astype(np.int64)
        # the narrow memory stores only 24 bits of a value
        narrow = (values[: self.narrow_chunks].astype(np.int64) << 40) >> 40
        return narrow.reshape(chunks.rows, chunks.lanes)


@dataclass(frozen=True)
class OperationDifference:
    """First wrong value of a core.

    Parameters
    ----------
    operation : int
        Number of the operation in the network.
    title : str
        Name of the operation in the user's model.
    sample, token, feature : int
        Numbers of the sample in the step, of the token in the sample (0 after a pool), and of the value.
    side : "plus" or "minus"
    found, expected : int
        In the format of the operation's outputs.
    """

    operation: int
    title: str
    sample: int
    token: int
    feature: int
    side: str
    found: int
    expected: int

    def __str__(self) -> str:
        return (
            f"operation {self.operation} ({self.title}), {self.side} side, sample {self.sample}, token {self.token}, "
            f"feature {self.feature}: {self.found} instead of {self.expected}"
        )


@dataclass(frozen=True)
class MemoryTrace:
    """Contents of a core's activation memories after each instruction of each pass of a step.

    Parameters
    ----------
    images : StreamImages
    layout : MemoryTraceLayout
    traced : array of uint8, (passes times instructions, bytes)
    """

    images: StreamImages
    layout: MemoryTraceLayout
    traced: NDArray[np.uint8]

    def first_difference(
        self, inputs: Integers, sides: Sequence[dict[TensorName, Integers]]
    ) -> OperationDifference | None:
        """First value that differs from the golden model, in order of pass, instruction and position; None if all
        agree.

        Parameters
        ----------
        inputs : array of int
            Samples of the step, see `TransformerModel.forward`.
        sides : sequence of mapping
            Parameters of the plus and of the minus side, `TransformerModel.parameters`.
        """
        model, program = self.images.model, self.images.program
        rows, lengths = model.rows_of(inputs)
        parts = np.split(rows, np.cumsum(lengths)[:-1])
        steps = TransformerSchedule(model.transformer, program.size.lanes, program.size.columns, self.images.cut).steps
        images = iter(self.traced)
        for some in passes_of(lengths, program.capacity):
            pass_rows, pass_lengths = (
                np.concatenate([parts[number] for number in some]),
                tuple(lengths[number] for number in some),
            )
            outputs = [model.transformer.run(side, pass_rows, pass_lengths, model.product)[0] for side in sides]
            for step, instruction, image in zip(steps, program.instructions, images, strict=False):
                expected = np.concatenate([side[step.result] for side in outputs])
                stored = self._stored(image, instruction, len(expected))
                if (wrong := np.argwhere(stored != expected)).size:
                    return self._named(step.result, wrong[0], stored, expected, pass_lengths, some.start)
        return None

    def _stored(self, image: NDArray[np.uint8], instruction: Instruction, rows: int) -> Integers:
        """Outputs of an instruction in an image, (rows of both sides, features)."""
        buffer, capacity = RowAddress.of(instruction.destination), self.images.program.capacity
        memory = self.layout.rows(image, buffer.wide)
        lines = -(-instruction.outputs // memory.shape[1])
        first = buffer.first * capacity
        stored = (memory[first + line * capacity :][:rows] for line in range(lines))
        return np.concatenate([*stored], axis=1)[:, : instruction.outputs]

    def _named(
        self,
        operation: int,
        place: Integers,
        stored: Integers,
        expected: Integers,
        lengths: tuple[int, ...],
        first: int,
    ) -> OperationDifference:
        """Difference at a position in the memory."""
        row, feature = map(int, place)
        network = self.images.model.transformer.network
        side, side_row = divmod(row, len(expected) // len(SIDES))
        pooled = network.shapes[operation][1]
        ends = np.cumsum(lengths)
        sample = side_row if pooled else int(np.searchsorted(ends, side_row, side="right"))
        token = 0 if pooled else side_row - int(ends[sample] - lengths[sample])
        values = int(stored[row, feature]), int(expected[row, feature])
        return OperationDifference(
            operation, network.titles[operation], first + sample, token, feature, SIDES[side], *values
        )
