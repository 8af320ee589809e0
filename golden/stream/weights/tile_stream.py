"""`tile_stream`: beats of tensors and their sensitive weights, read from memory ahead of their use.

A read is requested only with free space for its beats, so a shared port never waits for the array. After a bus error
neither the failing beat nor later beats arrive; `place` then has the operation and tile of the failing beat.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...axi.bus import ADDRESS_BITS, BEAT, BEAT_COUNT_BITS
from ...block import Field, Spec, Stream, Words, described, rows_of
from ...errors import UserError, check_range
from ...fixed import Format, Integers
from ...memories.plan import MemoryShape, fifo_memory
from ...rng.perturbation import cycles_of
from ..frozen_base import BLOCK
from .tensor_sequencer import CorrectionReads, TensorReads, TensorSequencerSpec, words_of
from .tile_dequant import BEAT_VALUES, MATRICES, WORD, TensorKind

BEAT_CORRECTIONS = BEAT // 8
"""Sensitive weights of a beat."""


class BeatRead(NamedTuple):
    """Read of `beats` beats from a byte address."""

    address: int
    beats: int


@dataclass(frozen=True, kw_only=True)
class TileStreamSpec(Spec):
    """Parameters and model of `tile_stream`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: 8, 16, 32 or 64, so that tiles divide a block of 64 inputs.
    columns : int
        Outputs of a tile: 4, 8, 16 or 32.
    depth : int
        Beats of tensors that are read ahead: a power of two, at least two bursts.
    correction_depth : int
        Beats of sensitive weights that are read ahead: a power of two from 4.
    burst : int
        Maximum number of beats of a read: a power of two from 2 to 256; reads end at multiples of it.
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
        check_range("address", self.address, 16, 63)
        _ = self.sequencer

    @cached_property
    def sequencer(self) -> TensorSequencerSpec:
        return TensorSequencerSpec(lanes=self.lanes, columns=self.columns)

    @property
    def correction_burst(self) -> int:
        return min(self.burst, self.correction_depth // 2)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (
            fifo_memory("beats ahead", self.depth, 8 * BEAT),
            fifo_memory("corrections ahead", self.correction_depth, 8 * BEAT),
        )

    def streams(self) -> dict[str, Stream]:
        requests, weights = self.sequencer.streams(), self.sequencer.weights.streams()
        base = Field("beat", Format(self.address - 4, 0, signed=False))
        count = Field("beats", Format(BEAT_COUNT_BITS, 0, signed=False), doc="byte address and number of beats")
        command = Field("address", Format(self.address, 0, signed=False), doc="byte address and number of beats"), count
        data = (Field("data", WORD, BEAT_VALUES),)
        number, tile = requests["beats"].fields[-1], weights["w"].fields[-1]
        return described(
            {
                "reads": Stream(
                    "in", requests["beats"].fields, doc="A tensor's beats, as `TensorSequencer` gives them."
                ),
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
                "correction_reads": Stream("in", requests["corrections"].fields, doc="The same for sensitive weights."),
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
        """Reads of all tensors, and their beats from `fetched`."""
        reads = rows_of(inputs["reads"], TensorReads)
        pairs = rows_of(inputs["correction_reads"], CorrectionReads)
        counts = [cycles_of(tensor.weights, BEAT_CORRECTIONS) for tensor in pairs]
        bases = (inputs[name]["beat"][:, 0].tolist() for name in ("base", "correction_base"))
        starts = (base + tensor.beat for tensor, base in zip(reads, next(bases), strict=True))
        commands = self._commands(zip(starts, (tensor.beats for tensor in reads), strict=True), self.burst)
        starts = (base + tensor.beat for tensor, base in zip(pairs, next(bases), strict=True))
        correction_commands = self._commands(zip(starts, counts, strict=True), self.correction_burst)
        values, first = [np.zeros((0, 2), np.int64)], 0
        for tensor, count in zip(pairs, counts, strict=True):
            entries = inputs["correction_fetched"]["data"][first : first + count].reshape(-1, 2)
            values.append(entries[: tensor.weights])
            first += count
        place, value = np.concatenate(values).T[..., None]
        form = self.streams()["corrections"].fields[1].format
        tiles = [np.zeros(0, np.int64), *(self.tiles(tensor) for tensor in reads)]
        numbers = np.repeat([tensor.number for tensor in reads], [tensor.beats for tensor in reads])
        fields = self.streams()["command"].fields
        return {
            "command": words_of(commands, fields, words),
            "place": {"number": numbers[:, None].astype(np.int64), "tile": np.concatenate(tiles)[:, None]},
            "beats": {"data": inputs["fetched"]["data"][:words]},
            "correction_command": words_of(correction_commands, fields, words),
            "corrections": {"place": place, "value": (value + form.maximum + 1) % (1 << form.width) + form.minimum},
        }

    def _commands(self, requests: Iterable[tuple[int, int]], burst: int) -> list[BeatRead]:
        """Reads of at most a burst, ending at multiples of it; byte addresses wrap."""
        commands = []
        for first, count in requests:
            end = first + count
            while first < end:
                beats = min(end - first, burst - first % burst)
                commands.append(BeatRead(BEAT * first % (1 << self.address), beats))
                first += beats
        return commands

    def tiles(self, tensor: TensorReads) -> Integers:
        """Tile of each beat of a tensor: scales belong to their record's first tile, skipped beats to the next tile."""
        dequant, beats = self.sequencer.weights.dequant, np.arange(tensor.beats)
        if tensor.kind not in MATRICES:
            return np.zeros_like(beats)
        record, beat = np.divmod(beats, dequant.record_beats(tensor.kind))
        scales = dequant.scale_beats if tensor.kind == TensorKind.NF4 else 0
        each = BLOCK // self.lanes
        group, block = np.divmod(record, tensor.blocks)
        within = np.maximum(beat - scales, 0) // dequant.tile_beats(tensor.kind)
        last = np.where(block == tensor.blocks - 1, tensor.tiles, each)
        tiles: Integers = group * (tensor.blocks * each - each + tensor.tiles) + block * each + np.minimum(within, last)
        return tiles
