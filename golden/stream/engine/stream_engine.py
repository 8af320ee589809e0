"""Engine that runs programs on the rows of a pass: its blocks, whose sizes follow from those of the core."""

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
    size : CoreSize
    features : int
        Most values of a bias, of a norm's row, and of a row of positions.
    numbers : int
        Numbers of a perturbation a word.
    tables : int
        Tables of deltas: 2 for networks that are cut in two parts.
    """

    size: CoreSize
    features: int
    numbers: int
    tables: int = 1

    @property
    def chunks(self) -> ChunkLayout:
        """Chunks of the activation memory."""
        size = self.size
        return ChunkLayout(size.lanes, size.columns, size.rows, size.wide_rows)

    @property
    def _memory(self) -> dict[str, int]:
        return vars(self.chunks)

    @cached_property
    def array(self) -> ArrayPathSpec:
        """Array and partial sums."""
        size = self.size
        queries = min(MOST_QUERIES, size.sums // 2)
        return ArrayPathSpec(lanes=size.lanes, columns=size.columns, sums=size.sums, drain=LANES, queries=queries)

    @cached_property
    def linear(self) -> LinearSequencerSpec:
        """Order of linear layers."""
        return LinearSequencerSpec(**self._memory, sums=self.size.sums)

    @cached_property
    def attention(self) -> AttentionSequencerSpec:
        """Order of attention."""
        size = self.size
        keys = max(size.sums // 2, size.lanes, 2 * size.columns)
        return AttentionSequencerSpec(
            **self._memory, sums=size.sums, exponentials=size.exponentials, queries=self.array.queries, keys=keys
        )

    @property
    def softmax(self) -> AttentionSoftmaxSpec:
        """Softmax of scores."""
        return self.attention.softmax

    @property
    def scale(self) -> ContextScaleSpec:
        """Division of contexts."""
        return self.attention.scale

    @cached_property
    def stationary(self) -> StationaryLoadSpec:
        """Tiles of keys and values."""
        return StationaryLoadSpec(lanes=self.size.lanes, columns=self.size.columns)

    @cached_property
    def memory(self) -> ActivationMemorySpec:
        """Activation memory: what comes back with a read is what the array, the tiles and the values need to know."""
        row = sum(item.width for item in self.array.row_fields)
        key = 1 + self.chunks.part.width + self.chunks.parts
        return ActivationMemorySpec(**self._memory, row_tag=row, key_tag=key, operand_tag=1)

    @cached_property
    def samples(self) -> SampleLoaderSpec:
        """Tokens of a pass."""
        return SampleLoaderSpec(**self._memory, sums=self.size.sums)

    @cached_property
    def values(self) -> ValuePathSpec:
        """Path of sums and values."""
        return ValuePathSpec(**self._memory, features=self.features)

    @cached_property
    def norm(self) -> NormPathSpec:
        """Norms."""
        size = self.size
        return NormPathSpec(**self._memory, sums=size.sums, norm_lanes=size.norm_lanes, features=self.features)

    @cached_property
    def pool(self) -> PoolHeadSpec:
        """Pools and unit lengths."""
        return PoolHeadSpec(**self._memory, sums=self.size.sums)

    @cached_property
    def rotary(self) -> RotarySpec:
        """Rotary positions."""
        return RotarySpec(**self._memory, sums=self.size.sums)

    @cached_property
    def feed(self) -> WeightFeedSpec:
        """Weights of both sides from the stream in memory."""
        return WeightFeedSpec(
            lanes=self.size.lanes, columns=self.size.columns, numbers=self.numbers, tables=self.tables
        )

    @cached_property
    def parts(self) -> tuple[Spec, ...]:
        """All blocks."""
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
        """Memories of all blocks."""
        return tuple(shape for part in self.parts for shape in part.memories)
