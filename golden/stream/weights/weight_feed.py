"""Blocks of the weight path from memory to the array, sized by a tile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...block import Spec
from .tensor_sequencer import TensorSequencerSpec
from .tile_stream import TileStreamSpec
from .tile_weights import TileWeightsSpec


@dataclass(frozen=True, kw_only=True)
class WeightFeedSpec:
    """Blocks between instructions and the array.

    Parameters
    ----------
    lanes, columns : int
        Inputs and outputs of a tile.
    numbers : int
        Perturbation numbers per word.
    tables : int
        Tables of deltas: 2 for networks cut in two.
    depth, correction_depth, burst : int
        See `TileStreamSpec`.
    """

    lanes: int = 32
    columns: int = 16
    numbers: int = 31
    tables: int = 1
    depth: int = TileStreamSpec.depth
    correction_depth: int = TileStreamSpec.correction_depth
    burst: int = TileStreamSpec.burst

    @cached_property
    def sequencer(self) -> TensorSequencerSpec:
        return TensorSequencerSpec(lanes=self.lanes, columns=self.columns, numbers=self.numbers, tables=self.tables)

    @cached_property
    def stream(self) -> TileStreamSpec:
        return TileStreamSpec(
            lanes=self.lanes,
            columns=self.columns,
            depth=self.depth,
            correction_depth=self.correction_depth,
            burst=self.burst,
        )

    @property
    def weights(self) -> TileWeightsSpec:
        return self.sequencer.weights

    @property
    def parts(self) -> tuple[Spec, ...]:
        return self.sequencer, self.stream, self.weights
