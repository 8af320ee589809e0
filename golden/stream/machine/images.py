"""Images of a transformer for a core: the program, the stream of weights, and the model whose bits they give."""

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
    """Transformer as a core has it in DRAM.

    Parameters
    ----------
    model : TransformerModel
        Whole model; its tiles are the core's.
    program : Program
    weights : array of uint8
        Image of the stream and its tables, with the header.
    cut : int
        Operation before which the program is cut in two parts; 0 for one that is not.
    """

    model: TransformerModel
    program: Program
    weights: Bytes
    cut: int = 0

    @property
    def cached(self) -> bool:
        """Whether it is cut, and nothing before the cut is tuned: what passes there is kept in a forward cache."""
        return self.cut > 0 and self.program.words == 0

    def check_stream(self) -> None:
        """Refuse a stream that is not the program's, or whose sensitive weights no core can merge.

        Raises
        ------
        UserError
            If it is no stream for the core, or was changed, or is another model's, or sensitive weights do not ascend,
            are beyond their matrix, or are too large, with the number of the operation.
        """
        name, program = self.model.transformer.network.name, self.program
        body = check_image(self.weights, program.size)
        if digest(body) != program.stream:
            raise UserError(f"{name} has a stream of weights of another model than its program: the digests differ")
        for number, one in enumerate(program.instructions):
            first = one.correction_beat * BEAT
            entries = body[first : first + 8 * one.corrections].view("<i4").reshape(-1, 2)
            if problem := _problem(one, entries, program.size):
                raise UserError(f"{name}, operation {number} of {len(program.instructions)}: {problem}")

    @classmethod
    def of(cls, model: TransformerModel, base: FrozenBase, size: CoreSize, cut: int = 0) -> StreamImages:
        """Make the images of a model.

        Parameters
        ----------
        model : TransformerModel
            Made of the base, with what is tuned.
        base : FrozenBase
            Its frozen tensors.
        size : CoreSize
        cut : int
            Operation before which the network is cut, see `Split`, or below which a forward cache keeps what is fixed.

        Raises
        ------
        UserError
            If the model has other tiles, is a part, or has no place on the core, or the cut is none.
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


def _problem(one: Instruction, entries: NDArray[np.int32], size: CoreSize) -> str:
    """Describe the first sensitive weight that is wrong, of places in the words' stream and values; or nothing."""
    places, values = entries[:, 0].view(np.uint32).astype(np.int64), entries[:, 1]
    word, within = np.divmod(places, size.multipliers)
    group, tile = np.divmod(word, -(-one.inputs // size.lanes))
    lane, column = np.divmod(within, size.columns)
    beyond = (group * size.columns + column >= one.outputs) | (tile * size.lanes + lane >= one.inputs)
    for text, wrong in (
        ("is not behind the one before", np.diff(places, prepend=-1) <= 0),
        (f"is beyond a matrix of {one.outputs} x {one.inputs}", beyond),
        (f"is outside {WEIGHT}", (values < WEIGHT.minimum) | (values > WEIGHT.maximum)),
    ):
        if wrong.any():
            at = int(wrong.argmax())
            return f"sensitive weight {at}, {values[at]} at place {places[at]}, {text}"
    return ""
