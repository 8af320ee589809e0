"""Blocks of the engine that runs programs, sized by the core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...block import Spec
from ...memories.plan import MemoryShape
from ..array.array_path import ArrayPathSpec
from ..array.linear_sequencer import LinearSequencerSpec
from ..array.stationary_load import StationaryLoadSpec
from ..machine.core_size import LANES, MOST_QUERIES, CoreSize
from ..memory.activation_memory import ActivationMemorySpec
from ..memory.chunks import ChunkLayout
from ..memory.sample_loader import SampleLoaderSpec
from ..softmax.attention_sequencer import AttentionSequencerSpec
from ..softmax.attention_softmax import AttentionSoftmaxSpec
from ..softmax.context_scale import ContextScaleSpec
from ..values.norm_path import NormPathSpec
from ..values.pool_head import PoolHeadSpec
from ..values.rotary import RotarySpec
from ..values.value_path import ValuePathSpec
from ..weights.weight_feed import WeightFeedSpec


@dataclass(frozen=True)
class StreamEngineSpec:
    """Blocks of the engine.

    Parameters
    ----------
    features : int
        Largest number of values of a bias, a norm's row, or a row of positions.
    numbers : int
        Perturbation numbers per word.
    tables : int
        Number of tables of deltas: 2 for networks cut in two.
    """

    size: CoreSize
    features: int
    numbers: int
    tables: int = 1

    @property
    def chunks(self) -> ChunkLayout:
        size = self.size
        return ChunkLayout(size.lanes, size.columns, size.rows, size.wide_rows)

    @property
    def _memory(self) -> dict[str, int]:
        return vars(self.chunks)

    @cached_property
    def array(self) -> ArrayPathSpec:
        size = self.size
        queries = min(MOST_QUERIES, size.sums // 2)
        return ArrayPathSpec(lanes=size.lanes, columns=size.columns, sums=size.sums, drain=LANES, queries=queries)

    @cached_property
    def linear(self) -> LinearSequencerSpec:
        return LinearSequencerSpec(**self._memory, sums=self.size.sums)

    @cached_property
    def attention(self) -> AttentionSequencerSpec:
        size = self.size
        keys = max(size.sums // 2, size.lanes, 2 * size.columns)
        return AttentionSequencerSpec(
            **self._memory, sums=size.sums, exponentials=size.exponentials, queries=self.array.queries, keys=keys
        )

    @property
    def softmax(self) -> AttentionSoftmaxSpec:
        return self.attention.softmax

    @property
    def scale(self) -> ContextScaleSpec:
        return self.attention.scale

    @cached_property
    def stationary(self) -> StationaryLoadSpec:
        return StationaryLoadSpec(lanes=self.size.lanes, columns=self.size.columns)

    @cached_property
    def memory(self) -> ActivationMemorySpec:
        """Activation memory; a read's tag carries fields for the array, the stationary tiles or the value path."""
        row = sum(item.width for item in self.array.row_fields)
        key = 1 + self.chunks.part.width + self.chunks.parts
        return ActivationMemorySpec(**self._memory, row_tag=row, key_tag=key, operand_tag=1)

    @cached_property
    def samples(self) -> SampleLoaderSpec:
        return SampleLoaderSpec(**self._memory, sums=self.size.sums)

    @cached_property
    def values(self) -> ValuePathSpec:
        return ValuePathSpec(**self._memory, features=self.features)

    @cached_property
    def norm(self) -> NormPathSpec:
        size = self.size
        return NormPathSpec(**self._memory, sums=size.sums, norm_lanes=size.norm_lanes, features=self.features)

    @cached_property
    def pool(self) -> PoolHeadSpec:
        return PoolHeadSpec(**self._memory, sums=self.size.sums)

    @cached_property
    def rotary(self) -> RotarySpec:
        return RotarySpec(**self._memory, sums=self.size.sums)

    @cached_property
    def feed(self) -> WeightFeedSpec:
        return WeightFeedSpec(
            lanes=self.size.lanes, columns=self.size.columns, numbers=self.numbers, tables=self.tables
        )

    @cached_property
    def parts(self) -> tuple[Spec, ...]:
        return (
            *self.feed.parts,
            self.memory,
            self.samples,
            self.linear,
            self.array,
            self.stationary,
            self.attention,
            self.softmax,
            self.scale,
            self.values,
            self.norm,
            self.pool,
            self.rotary,
        )

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return tuple(shape for part in self.parts for shape in part.memories)
