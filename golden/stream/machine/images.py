"""Images of a transformer for a core: program, weight stream, and the bit-exact model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...axi.bus import BEAT
from ...axi.regions import Bytes
from ...errors import UserError
from ..frozen_base import WEIGHT, FrozenBase
from ..instruction import Instruction
from ..transformer_model import TransformerModel
from .core_size import CoreSize
from .layout import HEADER_BEATS, StreamLayout, check_image, digest
from .program import Program, program_of


@dataclass(frozen=True, eq=False)
class StreamImages:
    """Transformer as a core holds it in DRAM: its program, and its image of header, stream and tables.

    The model is not a part and has the core's tile size. The program is cut before operation `cut`; 0 without a cut.
    """

    model: TransformerModel
    program: Program
    weights: Bytes
    cut: int = 0

    @property
    def cached(self) -> bool:
        """True if the program has a cut and nothing tuned before it: a forward cache holds the values at the cut."""
        return self.cut > 0 and self.program.words == 0

    def check_stream(self) -> None:
        """Refuse a stream of another program, or with sensitive weights that a core cannot merge.

        Raises `UserError` if the image is not a stream for the core, was changed, or belongs to another model; also if
        sensitive weights do not ascend, lie outside their matrix, or are too large: the error then names the operation.
        """
        name, program = self.model.transformer.network.name, self.program
        body = check_image(self.weights, program.size)
        if digest(body) != program.stream:
            raise UserError(f"{name} has a stream of weights of another model than its program: the digests differ")
        for number, instruction in enumerate(program.instructions):
            first = instruction.correction_beat * BEAT
            entries = body[first : first + 8 * instruction.corrections].view("<i4").reshape(-1, 2)
            if problem := _problem(instruction, entries, program.size):
                raise UserError(f"{name}, operation {number} of {len(program.instructions)}: {problem}")

    @classmethod
    def of(cls, model: TransformerModel, base: FrozenBase, size: CoreSize, cut: int = 0) -> StreamImages:
        """Images of a model of the same base.

        The network is cut before operation `cut`, see `Split`, or a forward cache ends there. Raises `UserError` if the
        model has other tiles, is a part, or does not fit the core, or if the cut is invalid.
        """
        name = model.transformer.network.name
        if (model.lanes, model.columns) != (size.lanes, size.columns):
            raise UserError(
                f"{name} in tiles of {model.lanes} x {model.columns} is not one for a core of {size.lanes} x "
                f"{size.columns}"
            )
        if len(model.operations) < len(model.transformer.network.operations):
            raise UserError(f"a part of {name}, operations {model.operations}, has no images: give the whole model")
        layout = StreamLayout(base.transformer, frozenset(base.codes), size, model.sensitive, cut)
        weights = layout.encode({**base.integers, **base.codes}, base.integers)
        program = program_of(layout, digest(weights[HEADER_BEATS * BEAT :]), model.tuned)
        return cls(model, program, weights, cut)


def _problem(instruction: Instruction, entries: NDArray[np.int32], size: CoreSize) -> str:
    """Error of the first wrong sensitive weight, or empty; `entries` are rows of word-stream address and value."""
    addresses, values = entries[:, 0].view(np.uint32).astype(np.int64), entries[:, 1]
    word, within = np.divmod(addresses, size.multipliers)
    group, tile = np.divmod(word, -(-instruction.inputs // size.lanes))
    lane, column = np.divmod(within, size.columns)
    beyond = (group * size.columns + column >= instruction.outputs) | (tile * size.lanes + lane >= instruction.inputs)
    for text, wrong in (
        ("is not behind the one before", np.diff(addresses, prepend=-1) <= 0),
        (f"is beyond a matrix of {instruction.outputs} x {instruction.inputs}", beyond),
        (f"is outside {WEIGHT}", (values < WEIGHT.minimum) | (values > WEIGHT.maximum)),
    ):
        if wrong.any():
            index = int(wrong.argmax())
            return f"sensitive weight {index}, {values[index]} at place {addresses[index]}, {text}"
    return ""
