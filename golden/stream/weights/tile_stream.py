"""`tile_stream`: beats of tensors and their sensitive weights, read from memory ahead of their use.

Nothing is asked for that has no room: a port that others share never waits for the array. A beat that the bus answers
with an error does not come, nor does any behind it; the place of the beat that comes next says which tile it is of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...axi.bus import ADDRESS_BITS, BEAT, BEAT_COUNT_BITS
from ...block import Field, Spec, Stream, Words, described, rows_of
from ...errors import UserError
from ...fixed import Format, Integers
from ...memories.plan import MemoryShape, fifo_memory
from ...rng.perturbation import cycles_of
from ..frozen_base import BLOCK
from .tensor_sequencer import CorrectionReads, Reads, TensorSequencerSpec, words_of
from .tile_dequant import BEAT_VALUES, MATRICES, WORD, TensorKind

BEAT_CORRECTIONS = BEAT // 8
"""Sensitive weights of a beat."""


class Command(NamedTuple):
    """Read of some beats.

    Parameters
    ----------
    address : int
        Byte address of the first one.
    beats : int
    """

    address: int
    beats: int


@dataclass(frozen=True, kw_only=True)
class TileStreamSpec(Spec):
    """Parameters and model of `tile_stream`.

    Parameters
    ----------
    lanes : int
        Inputs and outputs of a tile. Refused: not 8, 16, 32 or 64: tiles divide a block of 64 inputs.
    columns : int
        Inputs and outputs of a tile. Refused: not 4, 8, 16 or 32.
    depth : int
        Beats of tensors, and of sensitive weights, that are read ahead: powers of two. Refused: no power of two, or
        less than two bursts.
    correction_depth : int
        Beats of tensors, and of sensitive weights, that are read ahead: powers of two. Refused: no power of two from 4
        up.
    burst : int
        Most beats of a read, a power of two; reads end at multiples of it. Refused: no power of two from 2 to 256.
    address : int
        Bits of a byte address, 16 to 63.
    """

    name: ClassVar[str] = "tile_stream"
    summary: ClassVar[str] = "beats of tensors and sensitive weights, read from memory ahead of their use"

    lanes: int = 32
    columns: int = 16
    depth: int = 512
    correction_depth: int = 32
    burst: int = 64
    address: int = ADDRESS_BITS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.burst.bit_count() != 1 or not 2 <= self.burst <= 256:
            raise UserError(f"burst = {self.burst}: give a power of two from 2 to 256")
        if self.depth.bit_count() != 1 or self.depth < 2 * self.burst:
            raise UserError(f"depth = {self.depth}: give a power of two, at least two bursts of {self.burst}")
        if self.correction_depth.bit_count() != 1 or self.correction_depth < 4:
            raise UserError(f"correction_depth = {self.correction_depth}: give a power of two from 4 up")
        if not 16 <= self.address <= 63:
            raise UserError(f"address = {self.address} is not in 16 to 63")
        _ = self.sequencer

    @cached_property
    def sequencer(self) -> TensorSequencerSpec:
        """Spec of the block that asks for the reads."""
        return TensorSequencerSpec(lanes=self.lanes, columns=self.columns)

    @property
    def correction_burst(self) -> int:
        """Most beats of a read of sensitive weights."""
        return min(self.burst, self.correction_depth // 2)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """FIFOs of beats."""
        return (
            fifo_memory("beats ahead", self.depth, 8 * BEAT),
            fifo_memory("corrections ahead", self.correction_depth, 8 * BEAT),
        )

    def streams(self) -> dict[str, Stream]:
        """Streams: reads and what they ask of memory; beats from there, and to `tile_weights`; `place` of a beat."""
        asked, weights = self.sequencer.streams(), self.sequencer.weights.streams()
        base = Field("beat", Format(self.address - 4, 0, signed=False))
        count = Field("beats", Format(BEAT_COUNT_BITS, 0, signed=False), doc="byte address and number of beats")
        command = Field("address", Format(self.address, 0, signed=False), doc="byte address and number of beats"), count
        data = (Field("data", WORD, BEAT_VALUES),)
        number, tile = asked["beats"].fields[-1], weights["w"].fields[-1]
        return described(
            {
                "reads": Stream("in", asked["beats"].fields, doc="A tensor's beats, as `TensorSequencer` gives them."),
                "base": Stream(
                    "in", (base,), follows="reads", doc="With `reads`: number in memory of the beat that is number 0."
                ),
                "command": Stream("out", command, doc="Reads of at most `spec.burst` beats."),
                "fetched": Stream("in", data, doc="Their beats."),
                "place": Stream(
                    "out",
                    (number, tile),
                    follows="fetched",
                    doc="Operation and tile of the beat that `fetched` gives next. Where no further beat comes, it "
                    "stays.",
                ),
                "beats": Stream("out", data, doc="The beats, for `TileWeights`."),
                "correction_reads": Stream("in", asked["corrections"].fields, doc="The same for sensitive weights."),
                "correction_base": Stream(
                    "in", (base,), follows="correction_reads", doc="The same for sensitive weights."
                ),
                "correction_command": Stream("out", command, doc="The same for sensitive weights."),
                "correction_fetched": Stream("in", data, doc="The same for sensitive weights."),
                "corrections": Stream("out", weights["corrections"].fields[:2], doc="Sensitive weights, one a cycle."),
            },
            {
                "base.beat": "with `reads`: number in memory of the stream's first beat behind its header",
                "correction_base.beat": "the same for these",
            },
        )

    # -- the model ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Read all tensors; a memory gives their beats."""
        reads = rows_of(inputs["reads"], Reads)
        pairs = rows_of(inputs["correction_reads"], CorrectionReads)
        counts = [cycles_of(one.weights, BEAT_CORRECTIONS) for one in pairs]
        bases = (inputs[name]["beat"][:, 0].tolist() for name in ("base", "correction_base"))
        starts = (base + one.beat for one, base in zip(reads, next(bases), strict=True))
        commands = self._commands(zip(starts, (one.beats for one in reads), strict=True), self.burst)
        starts = (base + one.beat for one, base in zip(pairs, next(bases), strict=True))
        own = self._commands(zip(starts, counts, strict=True), self.correction_burst)
        values, first = [np.zeros((0, 2), np.int64)], 0
        for one, count in zip(pairs, counts, strict=True):
            entries = inputs["correction_fetched"]["data"][first : first + count].reshape(-1, 2)
            values.append(entries[: one.weights])
            first += count
        place, value = np.concatenate(values).T[..., None]
        form = self.streams()["corrections"].fields[1].format
        tiles = [np.zeros(0, np.int64), *(self.tiles(one) for one in reads)]
        numbers = np.repeat([one.number for one in reads], [one.beats for one in reads])
        fields = self.streams()["command"].fields
        return {
            "command": words_of(commands, fields, words),
            "place": {"number": numbers[:, None].astype(np.int64), "tile": np.concatenate(tiles)[:, None]},
            "beats": {"data": inputs["fetched"]["data"][:words]},
            "correction_command": words_of(own, fields, words),
            "corrections": {"place": place, "value": (value + form.maximum + 1) % (1 << form.width) + form.minimum},
        }

    def _commands(self, asked: Iterable[tuple[int, int]], burst: int) -> list[Command]:
        """Reads of at most a burst, which end at multiples of it; addresses are those of the bus, and wrap."""
        found = []
        for first, count in asked:
            end = first + count
            while first < end:
                beats = min(end - first, burst - first % burst)
                found.append(Command(BEAT * first % (1 << self.address), beats))
                first += beats
        return found

    def tiles(self, one: Reads) -> Integers:
        """Tile of each beat of a tensor: scales are of the tile behind them, what is skipped of the next one."""
        dequant, beats = self.sequencer.weights.dequant, np.arange(one.beats)
        if one.kind not in MATRICES:
            return np.zeros_like(beats)
        record, at = np.divmod(beats, dequant.record_beats(one.kind))
        scales = dequant.scale_beats if one.kind == TensorKind.NF4 else 0
        each = BLOCK // self.lanes
        group, block = np.divmod(record, one.blocks)
        within = np.maximum(at - scales, 0) // dequant.tile_beats(one.kind)
        last = np.where(block == one.blocks - 1, one.tiles, each)
        found: Integers = group * (one.blocks * each - each + one.tiles) + block * each + np.minimum(within, last)
        return found
