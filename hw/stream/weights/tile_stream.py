"""RTL of `tile_stream`: two readers with prefetch, and the tile number of the next beat."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from ....golden.stream.frozen_base import BLOCK
from ....golden.stream.weights.tensor_sequencer import BEAT_NUMBER
from ....golden.stream.weights.tile_dequant import LENGTH_BITS, MATRICES, TensorKind
from ....golden.stream.weights.tile_stream import BEAT_CORRECTIONS, TileStreamSpec
from ...axi.memory_port import byte_address
from ...ports import members
from ...primitives.fifo import Fifo
from ...primitives.registers import data_register
from ...probe import probe
from .read_ahead import ReadAhead

_TENSORS = 4
"""Queue depth of tensors with outstanding beats."""


class TileStream(wiring.Component):
    """Read tensors through a port and their sensitive weights through another, each in order.

    `fetched` and `correction_fetched` are ready for every requested beat.

    Attributes
    ----------
    idle : Out(1)
        All beats of all accepted tensors have arrived, with their padding, and all sensitive weights have been
        delivered.
    """

    def __init__(self, spec: TileStreamSpec) -> None:
        self.spec = spec
        super().__init__({**members(spec), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.idle.eq(self._tensors(m) & self._corrections(m))
        return m

    def _tensors(self, m: Module) -> Value:
        """Read tensors and track arriving beats; returns a flag: all have arrived."""
        spec, request, fetched = self.spec, self.reads.payload, self.fetched
        m.submodules.reader = reader = ReadAhead(spec.depth, spec.burst, spec.address, BEAT_NUMBER.width)
        m.submodules.asked = asked = Fifo(request.shape(), _TENSORS)
        m.d.comb += [
            asked.i.payload.eq(request),
            asked.i.valid.eq(self.reads.valid & reader.command.ready),
            reader.command.valid.eq(self.reads.valid & asked.i.ready),
            self.reads.ready.eq(reader.command.ready & asked.i.ready),
            reader.command.payload.address.eq(byte_address(self.base.beat + request.beat)),
            reader.command.payload.beats.eq(request.beats),
            self.command.valid.eq(reader.port.command.valid),
            self.command.payload.eq(reader.port.command.payload),
            reader.port.command.ready.eq(self.command.ready),
            self.beats.valid.eq(reader.o.valid),
            Value.cast(self.beats.payload).eq(reader.o.payload),
            reader.o.ready.eq(self.beats.ready),
        ]
        place = data_register(m, self.place, "place_next")
        active, remaining, final = Signal(), Signal(len(request.beats), reset_less=True), Signal(reset_less=True)
        comes, ends = Signal(), Signal()
        m.d.comb += [
            reader.port.beats.valid.eq(fetched.valid & active),
            reader.port.beats.payload.eq(Value.cast(fetched.payload)),
            fetched.ready.eq(active & reader.port.beats.ready),
            comes.eq(fetched.valid & fetched.ready),
            ends.eq(comes & final),
            asked.o.ready.eq(~active | ends),
        ]
        begins = asked.o.valid & asked.o.ready
        _count(m, asked.o.payload.beats, (active, final, remaining), begins, comes)
        with m.If(begins):
            m.d.sync += place.number.eq(asked.o.payload.number)
        self._tile(m, asked.o.payload, begins, comes, place.tile)
        probe(self, tensor_ends=ends)
        return asked.empty & ~active

    def _tile(self, m: Module, tensor: Any, begins: Value, comes: Value, tile: Value) -> None:
        """Count the tiles of arriving beats, without the padding beyond the inputs."""
        spec, dequant = self.spec, self.spec.sequencer.weights.dequant
        each = BLOCK // spec.lanes
        matrix, coded, blocks, block, tiles = (
            Signal(bits, reset_less=True) for bits in (1, 1, len(tensor.blocks), len(tensor.blocks), len(tensor.tiles))
        )
        within = Signal(range(each + 1), reset_less=True)
        beats = {kind: dequant.tile_beats(kind) for kind in MATRICES}
        most = max(*beats.values(), beats[TensorKind.NF4] + dequant.scale_beats)
        beat = Signal(range(most), reset_less=True)
        closing, record_ends = Signal(), Signal()
        tile_beats = Mux(coded, *(beats[kind] - 1 for kind in MATRICES))
        scales = Mux(coded, dequant.scale_beats, 0)
        m.d.comb += [
            closing.eq(block == 1),
            record_ends.eq((beat == 0) & (within == each - 1)),
        ]
        with m.If(comes & matrix):
            m.d.sync += beat.eq(beat - 1)
            with m.If(beat == 0):
                m.d.sync += [beat.eq(tile_beats), within.eq(within + 1)]
                with m.If(~closing | (within < tiles)):
                    m.d.sync += tile.eq(tile + 1)
            with m.If(record_ends):
                m.d.sync += [
                    beat.eq(tile_beats + scales),
                    within.eq(0),
                    block.eq(Mux(closing, blocks, block - 1)),
                ]
        with m.If(begins):
            nf4, tiled = tensor.kind == TensorKind.NF4, tensor.kind.matches(*MATRICES)
            m.d.sync += [
                tile.eq(0),
                matrix.eq(tiled),
                coded.eq(nf4),
                Cat(blocks, block).eq(tensor.blocks.replicate(2)),
                tiles.eq(tensor.tiles),
                within.eq(0),
                beat.eq(Mux(nf4, beats[TensorKind.NF4] + dequant.scale_beats - 1, beats[TensorKind.MATRIX] - 1)),
            ]

    def _corrections(self, m: Module) -> Value:
        """Read sensitive weights, two in a beat, and output them in order; returns a flag: all were delivered."""
        spec, request, fetched = self.spec, self.correction_reads.payload, self.correction_fetched
        m.submodules.correction_reader = reader = ReadAhead(
            spec.correction_depth, spec.correction_burst, spec.address, LENGTH_BITS
        )
        m.submodules.lists = lists = Fifo(len(request.weights), _TENSORS)
        command = self.correction_command
        m.d.comb += [
            lists.i.payload.eq(request.weights),
            lists.i.valid.eq(self.correction_reads.valid & reader.command.ready),
            reader.command.valid.eq(self.correction_reads.valid & lists.i.ready),
            self.correction_reads.ready.eq(reader.command.ready & lists.i.ready),
            reader.command.payload.address.eq(byte_address(self.correction_base.beat + request.beat)),
            reader.command.payload.beats.eq((request.weights + 1)[exact_log2(BEAT_CORRECTIONS) :]),
            command.valid.eq(reader.port.command.valid),
            command.payload.eq(reader.port.command.payload),
            reader.port.command.ready.eq(command.ready),
            reader.port.beats.valid.eq(fetched.valid),
            reader.port.beats.payload.eq(Value.cast(fetched.payload)),
            fetched.ready.eq(reader.port.beats.ready),
        ]
        active, final, half = Signal(), Signal(reset_less=True), Signal()
        remaining = Signal(len(request.weights), reset_less=True)
        moves, ends = Signal(), Signal()
        entry = Mux(half, reader.o.payload[64:], reader.o.payload[:64])
        m.d.comb += [
            self.corrections.valid.eq(active & reader.o.valid),
            Value.cast(self.corrections.payload).eq(entry),
            moves.eq(self.corrections.valid & self.corrections.ready),
            ends.eq(moves & final),
            reader.o.ready.eq(moves & (half | final)),
            lists.o.ready.eq(~active | ends),
        ]
        with m.If(moves):
            m.d.sync += half.eq(~half & ~final)
        _count(m, lists.o.payload, (active, final, remaining), lists.o.valid & lists.o.ready, moves)
        probe(self, list_ends=ends)
        return lists.empty & ~active


def _count(m: Module, total: Value, registers: tuple[Signal, Signal, Signal], begins: Value, moves: Value) -> None:
    """Count the words that are left of a tensor or list; the next begins with the last word, or while idle."""
    active, final, remaining = registers
    with m.If(moves & final):
        m.d.sync += active.eq(0)
    with m.If(begins):
        m.d.sync += active.eq(1)
    # timing: `begins` settles late in the cycle, so the next count is loaded without it
    with m.If(moves | ~active):
        m.d.sync += [
            remaining.eq(Mux(final | ~active, total, remaining - 1)),
            final.eq(Mux(final | ~active, total == 1, remaining == 2)),
        ]
