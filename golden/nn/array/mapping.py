"""Mapping of a network onto the array of multipliers: stage loops, memory regions, addresses of weights and biases.

A *word* is `lanes` values of a tensor, or `lanes` x `columns` weights: those lanes of `columns` outputs. For windows
that leave much of a word empty, both halves of the lanes take the same `lanes` / 2 values, with weights of
2 x `columns` outputs. Words of convolutions with at most `columns` / 2 outputs may be of two pixels, see `pixel_pairs`.

Maps are stored by the pixel, channels adjacent, so that a kernel row is a run of adjacent values, see
`activation_layout`. Each tensor has its own region for the whole sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from ...axi.bus import BEAT
from ...errors import UserError
from ...models.layers import Convolution, Depthwise, Linear
from ...models.network import Network
from ...models.stages import Stage
from ..arithmetic.forward import Reciprocal, beyond_map
from . import latency
from .activation_layout import CopyNeededError, RegionSlice, TensorLayout, places, row_replicas, tensor_layout
from .activation_units import ActivationUnit, units_of
from .pixel_pairs import Pairs, PixelPair, pixel_pairs
from .stage_mapping import (
    Loop,
    ResidualRead,
    StageMapping,
    averaged_of,
    group_outputs,
    limit_of,
    unmapped,
    unwalked,
)
from .window import Window, one_offset, window_of

LEAST_SAVING = 1 / 8
"""Share of convolution cycles that sums of half the lanes must save, as they cost LUTs."""


@dataclass(frozen=True)
class Mapping:
    """Stages on the array of multipliers.

    Parameters
    ----------
    name : str
        Name of the network, for messages.
    network_stages : tuple of Stage
        One or more, without batch norm.
    lanes : int
        Inputs multiplied at once: 16 or 32.
    columns : int
        Outputs computed at once: 2, 4, 8 or 16.
    byte_inputs : bool
        Samples of bytes, 0 to 1; otherwise Q8.16 in four bytes.
    sides : int
        Perturbation signs, 1 or 2. Signs alternate stage by stage; each has its own regions after the samples.
    pairs : "none", "frozen" or "perturbed"
        Convolutions with words of two pixels, which hold each weight twice: none, any, or only those whose copies share
        an offset, see `window.one_offset`.
    """

    name: str
    network_stages: tuple[Stage, ...]
    lanes: int = 32
    columns: int = 4
    byte_inputs: bool = True
    sides: int = 1
    pairs: Pairs = "none"

    def __post_init__(self) -> None:
        for number, stage in enumerate(self.network_stages):
            if stage.batch_norm:
                raise UserError(f"{self.name} has batch norm: fold it first (golden.models.network.deployed)")
            if reason := unmapped(self.network_stages, stage):
                raise self._refusal(number, reason)
        try:
            _ = self._places
        except CopyNeededError as error:
            raise self._refusal(error.stage, str(error)) from None
        for what, value in (("lanes", self.lanes), ("columns", self.columns)):
            if value & (value - 1):
                raise UserError(f"{what} = {value} is not a power of two")
        if not 16 <= self.lanes <= 32 or not 2 <= self.columns <= 16:
            raise UserError(f"lanes = {self.lanes} is 16 or 32, columns = {self.columns} is 2 to 16")
        for number, stage in enumerate(self.network_stages):
            if reason := unwalked(stage, self.columns):
                raise self._refusal(number, reason)

    def _refusal(self, number: int, reason: str) -> UserError:
        where = f"{self.name}, stage {number} ({type(self.network_stages[number].layer).__name__})"
        return UserError(f"{where} has {reason}, which the array does not map yet")

    @classmethod
    def of(
        cls,
        network: Network,
        lanes: int = 32,
        columns: int = 4,
        byte_inputs: bool = True,
        sides: int = 1,
        pairs: Pairs = "none",
    ) -> Mapping:
        """Mapping of all stages of a network."""
        return cls(network.name, network.stages, lanes, columns, byte_inputs, sides, pairs)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of a sample: (channels, height, width) or (features,)."""
        return self.network_stages[0].input_shape

    @property
    def inputs(self) -> int:
        """Values a sample."""
        return self.network_stages[0].inputs

    # -- sizes in the memory outside, in beats ---------------------------------------------------------------------

    @property
    def sample_beats(self) -> int:
        """Beats a sample."""
        return -(-self.inputs * (1 if self.byte_inputs else 4) // BEAT)

    @property
    def word_beats(self) -> int:
        """Beats a word of parameters."""
        return self.lanes * self.columns * 2 // BEAT

    @property
    def column_beats(self) -> int:
        """Beats of `columns` parameters, as of a group's biases."""
        return -(-self.columns * 2 // BEAT)

    @property
    def frozen_beats(self) -> int:
        """Beats of the frozen image: weights, then biases."""
        return self.weight_words * self.word_beats + self.groups * self.column_beats

    # -- memories on the chip --------------------------------------------------------------------------------------

    @cached_property
    def row_replicas(self) -> int:
        """Adjacent copies of a sample's rows."""
        return row_replicas(self.network_stages, self.lanes)

    @property
    def has_limits(self) -> bool:
        """Whether an activation has an upper clip."""
        return any(limit_of(stage) is not None for stage in self.network_stages)

    @property
    def has_padded_pools(self) -> bool:
        """Whether a pool has padding."""
        return any(any(beyond_map(stage)) for stage in self.network_stages)

    @cached_property
    def units(self) -> tuple[ActivationUnit, ...]:
        """Units of activations beyond a clip, in pipeline order ahead of the pools."""
        return units_of([stage.activation for stage in self.network_stages])

    @cached_property
    def averages(self) -> tuple[Reciprocal, ...]:
        """Divisions of the average pools, one a window size."""
        return tuple(map(Reciprocal, sorted({averaged_of(stage) for stage in self.network_stages} - {0})))

    @cached_property
    def average_turns(self) -> int:
        """Columns that share a divider: as many as cycles between ends of pools."""
        cycles = [stage.average * stage.sum_words if stage.parts == 1 else 1 for stage in self.stages if stage.average]
        return min(self.columns, 1 << min(cycles).bit_length() - 1)

    @property
    def pooling_latency(self) -> int:
        """Cycles from a pool's last sums to its outputs, equal in all stages."""
        pooling = latency.POOLING + sum(unit.latency for unit in self.units)
        if not self.averages:
            return pooling
        division = max(own.latency for own in self.averages)
        return pooling + latency.AVERAGING + self.average_turns + division

    @property
    def dsps(self) -> int:
        """DSPs of the array, of activation units and of average pools."""
        dividers = self.columns // self.average_turns if self.averages else 0
        divisions = dividers * sum(own.dsps for own in self.averages)
        return (self.lanes + sum(unit.dsps for unit in self.units)) * self.columns + divisions

    @property
    def most_parts(self) -> int:
        """Most parts of a sum, `StageMapping.parts`."""
        return max(stage.parts for stage in self.stages)

    @property
    def lane_parts(self) -> int:
        """Parts of sums of single lanes; 0 without such a stage."""
        return self.lanes // self.columns if self.has_within else 0

    @property
    def has_halves(self) -> bool:
        """Whether a stage has sums of half the lanes."""
        return any(stage.halved for stage in self.stages)

    @property
    def has_within(self) -> bool:
        """Whether a stage has sums of single lanes."""
        return any(stage.within for stage in self.stages)

    @property
    def has_merged_pixels(self) -> bool:
        """Whether a stage has words of two pixels of a max-pool."""
        return any(stage.merged for stage in self.stages)

    @property
    def pooled_parts(self) -> tuple[int, ...]:
        """Distinct `parts` of stages with pools, ascending; (1,) without pools."""
        return tuple(sorted({stage.parts for stage in self.stages if stage.pooled})) or (1,)

    @property
    def most_lane_terms(self) -> int:
        """Most products of a lane's sum; 1 without sums of single lanes."""
        return max(stage.sum_words if stage.within else 1 for stage in self.stages)

    @property
    def has_residuals(self) -> bool:
        """Whether a stage has a residual."""
        return any(stage.residual is not None for stage in self.network_stages)

    @property
    def weight_words(self) -> int:
        """Words of the weight memory."""
        return sum(stage.weight_groups * stage.words for stage in self.stages)

    @property
    def groups(self) -> int:
        """Words of the bias memory, groups of all stages."""
        return sum(stage.groups for stage in self.stages)

    @property
    def output_depth(self) -> int:
        """Depth of the output memory: outputs of a column, all stages."""
        return sum(stage.groups * stage.cells for stage in self.stages)

    @property
    def sample_values(self) -> int:
        """Values of a sample in the activation memory, padding and replicas included."""
        return self._regions[1]

    @cached_property
    def sample_buffers(self) -> int:
        """Samples in the activation memory: two, unless it exceeds the depth of a block RAM."""
        rest = self._regions[-1] - self._regions[1] + (self.sides - 1) * self.side_values
        return 2 if (2 * self.sample_values + rest) // self.lanes < 512 else 1

    @property
    def side_values(self) -> int:
        """Values between the regions of both perturbation signs: all outputs, and `lanes` for the last stage's."""
        return self._regions[-1] - self._regions[1] + self.lanes

    @property
    def cycles(self) -> int:
        """Words of a sample, all stages."""
        return sum(stage.cycles for stage in self.stages)

    @property
    def activation_values(self) -> int:
        """Values of the activation memory; windows may reach `lanes` beyond the last region."""
        return self._base(len(self.network_stages) - 1) + (self.sides - 1) * self.side_values + self.lanes

    @property
    def clear_cycles(self) -> int:
        """Cycles to clear the activation memory, the least of a load."""
        return -(-self.activation_values // self.lanes) * self.lanes // self.columns

    def _base(self, tensor: int) -> int:
        """First address of a tensor's region; after all regions for the last stage's outputs."""
        return self._regions[tensor + 1] + (self.sample_buffers - 1) * self.sample_values * (tensor >= 0)

    @cached_property
    def _regions(self) -> tuple[int, ...]:
        """Begin of each region with one sample buffer, and the end; parts of a concatenation share a region."""
        begins, end = list[int](), 0
        for tensor in range(-1, len(self.network_stages) - 1):
            place = self._places.get(tensor)
            if place is not None and place.region[0] < tensor:
                begins.append(begins[place.region[0] + 1])
                continue
            rows, pitch, _, _ = self.layout(tensor)
            begins.append(end)
            end += -(-rows * pitch // self.lanes) * self.lanes
        return (*begins, end)

    @cached_property
    def _places(self) -> dict[int, RegionSlice]:
        return places(self.network_stages)

    @cached_property
    def _layouts(self) -> tuple[TensorLayout, ...]:
        tensors = range(-1, len(self.network_stages))
        return tuple(tensor_layout(self.network_stages, tensor, self.lanes, self._places) for tensor in tensors)

    def layout(self, tensor: int) -> TensorLayout:
        """Layout of a stage's outputs, or of the sample, -1."""
        return self._layouts[tensor + 1]

    # -- stages ----------------------------------------------------------------------------------------------------

    @cached_property
    def stages(self) -> tuple[StageMapping, ...]:
        """Mapped stages in order."""
        mapped: list[StageMapping] = []
        weights = biases = output = 0
        for at, stage in enumerate(self.network_stages):
            target, targets = self._target(at)
            own = StageMapping(
                self._loops(at),
                self._inner,
                self._first(at),
                weights,
                biases,
                stage.activation is not None and stage.activation.rectified,
                limit_of(stage),
                beyond_map(stage),
                averaged_of(stage),
                target,
                targets,
                output,
                stage.biases,
                -(-stage.biases // self.columns),
                self._parts(at),
                self._sum_lanes(at),
                self._pairs.get(at),
                self._residual(at),
            )
            mapped.append(own)
            weights += own.weight_groups * own.words
            biases += own.groups
            output += own.groups * own.cells
        return tuple(mapped)

    def window(self, at: int) -> Window:
        """Window of a word's sums in stage `at`, of one or two pixels."""
        return self._window(at, self._pairs.get(at))

    def _window(self, at: int, pair: PixelPair | None) -> Window:
        stage = self.network_stages[at]
        layout, replicated = self.layout(stage.source[0]), stage.source == (-1,) and self.row_replicas > 1
        return window_of(stage, layout, self.lanes, replicated, pair.apart if pair else 0)

    @cached_property
    def _pairs(self) -> dict[int, PixelPair]:
        """Pixel pairs by convolution, where they save cycles."""
        found: dict[int, PixelPair] = {}
        for at, stage in enumerate(self.network_stages) if self.pairs != "none" else ():
            # nothing reads the last stage's outputs
            pixel = self.layout(at).column if at + 1 < len(self.network_stages) else stage.biases
            for pair in pixel_pairs(stage, self.columns, pixel):
                allowed = self.pairs == "frozen" or one_offset(self._window(at, pair), self.lanes, self.columns)
                if allowed and self._cycles(at, 1, pair) < self._cycles(at, 1, found.get(at)):
                    found[at] = pair
        return found

    @cached_property
    def _halved(self) -> frozenset[int]:
        """Convolutions with sums of half the lanes, where these save cycles."""
        cycles = {
            at: tuple(self._cycles(at, parts, self._pairs.get(at)) for parts in (1, 1 + self._may_be_halved(at)))
            for at, stage in enumerate(self.network_stages)
            if isinstance(stage.layer, Convolution)
        }
        saved = {at: whole - halved for at, (whole, halved) in cycles.items() if halved < whole}
        enough = LEAST_SAVING * sum(whole for whole, _ in cycles.values())
        return frozenset(saved) if sum(saved.values()) >= enough else frozenset()

    def _may_be_halved(self, at: int) -> bool:
        stage, outputs = self.network_stages[at], group_outputs(self.network_stages[at])
        # a residual is one word, with a lane a channel in half of the lanes
        if at in self._pairs or (stage.residual is not None and 4 * self.columns > self.lanes):
            return False
        return outputs == stage.biases or outputs % (2 * self.columns) == 0

    def _cycles(self, at: int, parts: int, pair: PixelPair | None) -> int:
        """Cycles of a stage with `parts` sums a column, each of ``lanes / parts`` lanes, and with a pixel pair."""
        stage = self.network_stages[at]
        words = self._window(at, pair).words(self.lanes // parts) + (stage.residual is not None)
        sums = prod(loop.count for loop in self._turns(at, pair)) * -(-stage.biases // (parts * self.columns))
        return sums * max(words, parts)

    def _parts(self, at: int) -> int:
        if isinstance(self.network_stages[at].layer, Depthwise):
            return self.lanes // self.columns
        return 2 if at in self._halved else 1

    def _sum_lanes(self, at: int) -> int:
        return 1 if isinstance(self.network_stages[at].layer, Depthwise) else self.lanes // self._parts(at)

    def _first(self, at: int) -> int:
        """First address of the first window, within the zero padding."""
        stage = self.network_stages[at]
        _, pitch, column, origin = self.layout(stage.source[0])
        first = self._base(stage.source[0]) + origin
        if not isinstance(stage.layer, Linear):
            top, _, left, _ = stage.layer.padding
            above, _, before, _ = beyond_map(stage)
            down, across = stage.layer.stride
            first -= (top + above * down) * pitch + (left + before * across) * column
        return first

    @cached_property
    def _inner(self) -> int:
        """Loops within a sum: 3 if a window row has several runs, depthwise stages apart."""
        stages = enumerate(self.network_stages)
        apart = (self.window(at).across for at, stage in stages if not isinstance(stage.layer, Depthwise))
        return 3 if any(runs.count > 1 for runs in apart) else 2

    @cached_property
    def _has_groups(self) -> bool:
        """Whether a convolution has groups of more than one iteration each."""
        stages = enumerate(self.network_stages)
        return any(self._parts(at) * self.columns < group_outputs(stage) < stage.biases for at, stage in stages)

    def _loops(self, at: int) -> tuple[Loop, ...]:
        stage, wide = self.network_stages[at], self._parts(at) * self.columns
        window, lanes, within = self.window(at), self._sum_lanes(at), isinstance(stage.layer, Depthwise)
        # a depthwise run is one word
        run = Loop(1, 0) if within else Loop(-(-window.values // lanes), lanes)
        inside = (
            (run, window.across, window.down) if self._inner == 3 else (window.across if within else run, window.down)
        )
        loops = (*inside, *self._turns(at, self._pairs.get(at)))
        outputs = group_outputs(stage)
        if outputs == stage.biases:
            outermost = Loop(-(-stage.biases // wide), wide if within else 0), Loop(1, 0)
        else:
            outermost = Loop(outputs // wide, 0), Loop(stage.biases // outputs, window.values)
        if self._has_groups:
            return (*loops, *outermost)
        return (*loops, outermost[0] if outputs == stage.biases else outermost[1])

    def _turns(self, at: int, pair: PixelPair | None) -> tuple[Loop, Loop, Loop, Loop]:
        """Loops around a sum, except groups."""
        stage = self.network_stages[at]
        if isinstance(stage.layer, Linear) or len(stage.output_shape) == 1:
            return (Loop(1, 0),) * 4
        _, down, across = stage.output_shape
        _, pitch, column, _ = self.layout(stage.source[0])
        # strides to the next computed pixel, in a row and below
        beside, below = stage.layer.stride[1] * column, stage.layer.stride[0] * pitch
        (height, width), (pool_down, pool_across) = (1, 1), (1, 1)
        if stage.pool is not None:
            (height, width), (pool_down, pool_across) = stage.pool.size, stage.pool.stride
        in_pool, across_map = Loop(width, beside), Loop(across, pool_across * beside)
        if pair is not None and pair.merged:
            in_pool = in_pool.in_pairs
        elif pair is not None:
            across_map = across_map.in_pairs
        return in_pool, Loop(height, below), across_map, Loop(down, pool_down * below)

    def _residual(self, at: int) -> ResidualRead | None:
        stage = self.network_stages[at]
        if stage.residual is None:
            return None
        _, pitch, column, origin = self.layout(stage.residual[0])
        across = 1 if stage.pool is None else stage.pool.stride[1]
        down = 1 if stage.pool is None else stage.pool.stride[0]
        strides = column, pitch, across * column, down * pitch, *self._outer_strides(at)
        above, _, before, _ = beyond_map(stage)
        return ResidualRead(self._base(stage.residual[0]) + origin - above * pitch - before * column, strides)

    def _target(self, at: int) -> tuple[int, tuple[int, ...]]:
        outer = self._outer_strides(at)
        if at + 1 == len(self.network_stages):
            return self._base(at), (0,) * (2 + len(outer))
        _, pitch, column, origin = self.layout(at)
        if (pair := self._pairs.get(at)) is not None and not pair.merged:
            column *= 2
        return self._base(at) + origin, (column, pitch, *outer)

    def _outer_strides(self, at: int) -> tuple[int, ...]:
        """Channel stride of each loop around a channel's pixels."""
        return (self._parts(at) * self.columns, *([group_outputs(self.network_stages[at])] if self._has_groups else []))
