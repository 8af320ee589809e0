"""Images of a transformer for a core: the program, the stream of weights, and the model whose bits they give."""

from __future__ import annotations

from dataclasses import dataclass

from ...axi.bus import BEAT
from ...axi.regions import Bytes
from ...errors import UserError
from ..frozen_base import FrozenBase
from ..transformer_model import TransformerModel
from .core_size import CoreSize
from .layout import HEADER_BEATS, StreamLayout, digest
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
