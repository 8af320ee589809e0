"""Delivery of a pass's weights, from memory to the array."""

from dataclasses import replace

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.stream.weights.weight_feed import WeightFeedSpec
from ...axi.memory_port import ReadPort, beat_number
from ...ports import members
from ...primitives.fifo import Fifo
from .tensor_sequencer import TensorSequencer
from .tile_stream import TileStream
from .tile_weights import TileWeights

NUMBER_BITS = 32
_AHEAD = 4
"""Queue depth of tensors, and of requests for offsets."""
_TILES = 2
"""Queue depth of tile beats before the array."""
_CORRECTIONS = 2
"""Queue depth of sensitive weights."""


class WeightFeed(wiring.Component):
    """Deliver the tensors of instructions in order, and prefetch the following tensors.

    Attributes
    ----------
    operation : In, stream of the fields of `golden.stream.weights.tensor_sequencer.PassInstruction`
        Instructions; an instruction may be offered while earlier tensors are still in use.
    address : In, `address` bits
        Byte address of the weight stream, after its header; stable for a pass.
    stream_read, corrections_read : Out, `ReadPort`
        Reads of the weight stream with its tables, and of sensitive weights. Requested beats are always accepted.
    request, offsets : Out, In, streams
        Requests for offset words (``factor``, ``word``, ``count``, ``fraction``, ``wide``, as in a command of
        `WordOffsets`), and the words.
    w, v : Out, streams
        Tiles and vectors of both signs, as in `TileWeights`.
    failed : Out(1)
        The stream is invalid: sensitive weights are not ascending, or lie outside their matrix. Held until reset, like
        `number`.
    number : Out(32)
        Index, in its tensor, of the first invalid tile.
    place : Out, ``number`` (16 bits), ``tile``
        Operation and tile of the next beat. After a bus error, of the failed beat, which never arrives.
    fetched : Out(1)
        All beats have arrived of each tensor whose reads have begun.
    """

    def __init__(self, spec: WeightFeedSpec, address: int = ADDRESS_BITS) -> None:
        self.spec = spec
        self.sequencer, self.weights = TensorSequencer(spec.sequencer), TileWeights(spec.weights)
        self.reads = TileStream(replace(spec.stream, address=address))
        ours, stored, reads = (members(part.spec) for part in (self.sequencer, self.weights, self.reads))
        fields = dict(self.sequencer.offsets.payload.shape())
        request = {{"words": "count"}.get(name, name): field.shape for name, field in fields.items()}
        super().__init__(
            {
                "operation": ours["operation"],
                "address": In(address),
                "stream_read": Out(ReadPort(address)),
                "corrections_read": Out(ReadPort(address)),
                "request": Out(stream.Signature(data.StructLayout(request))),
                "offsets": stored["offsets"],
                "w": stored["w"],
                "v": stored["v"],
                "failed": Out(1),
                "number": Out(NUMBER_BITS),
                "place": reads["place"],
                "fetched": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer, m.submodules.reads, m.submodules.weights = self.sequencer, self.reads, self.weights
        sequencer, reads, weights = self.sequencer, self.reads, self.weights
        for ours, outer in ((sequencer.operation, self.operation), (weights.offsets, self.offsets)):
            wiring.connect(m, wiring.flipped(outer), ours)
        # timing: the array's `ready` settles late in the cycle; the queue keeps it out of the wide tile registers
        m.submodules.tiles = tiles = Fifo(weights.w.payload.shape(), _TILES)
        wiring.connect(m, weights.w, tiles.i)
        wiring.connect(m, tiles.o, wiring.flipped(self.w))
        wiring.connect(m, weights.v, wiring.flipped(self.v))
        # reads of the tensors in this queue have already begun
        m.submodules.tensors = tensors = Fifo(sequencer.tensors.payload.shape(), _AHEAD)
        m.submodules.requests = requests = Fifo(sequencer.offsets.payload.shape(), _AHEAD)
        wiring.connect(m, sequencer.tensors, tensors.i)
        wiring.connect(m, tensors.o, weights.operation)
        wiring.connect(m, sequencer.offsets, requests.i)
        base = beat_number(self.address)
        for asked, sink, start in (
            (sequencer.beats, reads.reads, reads.base),
            (sequencer.corrections, reads.correction_reads, reads.correction_base),
        ):
            wiring.connect(m, asked, sink)
            m.d.comb += start.beat.eq(base)
        _connected(m, requests.o, self.request)
        for port, command, fetched in (
            (self.stream_read, reads.command, reads.fetched),
            (self.corrections_read, reads.correction_command, reads.correction_fetched),
        ):
            _connected(m, command, port.command)
            _connected(m, port.beats, fetched)
        # timing: the consumer's `ready` settles late in the cycle
        m.submodules.corrections = corrections = Fifo(reads.corrections.payload.shape(), _CORRECTIONS)
        wiring.connect(m, reads.corrections, corrections.i)
        # a beat with a bus error never arrives, so `error` stays unconnected
        for source, taken in ((reads.beats, weights.beats), (corrections.o, weights.corrections)):
            m.d.comb += [
                taken.valid.eq(source.valid),
                source.ready.eq(taken.ready),
                *(
                    getattr(taken.payload, name).eq(getattr(source.payload, name))
                    for name in source.payload.shape().members
                ),
            ]
        number = Signal(NUMBER_BITS, reset_less=True)
        m.d.comb += [self.place.eq(reads.place), self.number.eq(number), self.fetched.eq(reads.idle)]
        with m.If(~self.failed):
            m.d.sync += [self.failed.eq(self.w.valid & self.w.payload.error), number.eq(self.w.payload.tile)]
        return m


def _connected(m: Module, source: stream.Interface, taken: stream.Interface) -> None:
    m.d.comb += [
        taken.valid.eq(source.valid),
        Value.cast(taken.payload).eq(Value.cast(source.payload)),
        source.ready.eq(taken.ready),
    ]
