"""Weights of a pass from memory to the array: tensors of instructions, reads of their beats, weights of both sides."""

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
"""Tensors, and requests for offsets, that wait for the ones before."""
_TILES = 2
"""Beats of tiles that wait for the array."""
_CORRECTIONS = 2
"""Sensitive weights that wait for their tile."""


class WeightFeed(wiring.Component):
    """Bring the tensors of instructions in their order; the next ones are read ahead.

    Parameters
    ----------
    spec : WeightFeedSpec
    address : int
        Bits of a byte address.

    Attributes
    ----------
    operation : In, stream of the fields of `golden.stream.weights.tensor_sequencer.PassInstruction`
        An instruction; it is taken before its tensors are used, and may be given before those before it are.
    address : In, `address` bits
        Byte address of the stream of weights, behind its header; stays for a pass.
    stream_read, corrections_read : Out, `ReadPort`
        Reads of the stream and its tables, and of sensitive weights. Beats that were asked for are always taken.
    request, offsets : Out, In, streams
        Requests for the offsets of words, ``factor``, ``word``, ``count``, ``fraction``, ``wide``, as a command of
        `WordOffsets` has them, and these words.
    w, v : Out, streams
        Tiles and vectors of both sides, as `TileWeights` gives them.
    failed : Out(1)
        The stream is wrong: sensitive weights do not ascend, or are beyond their matrix. Held until reset, as is:
    number : Out(32)
        Of the first such tile in its tensor. What the bus answers with an error does not come at all.
    place : Out, ``number`` (16 bits), ``tile``
        Operation and tile of the beat that comes next: where none comes any more, of the one that is missing.
    fetched : Out(1)
        All beats of the tensors whose reads have begun have come.
    """

    def __init__(self, spec: WeightFeedSpec, address: int = ADDRESS_BITS) -> None:
        self.spec = spec
        self.sequencer, self.weights = TensorSequencer(spec.sequencer), TileWeights(spec.weights)
        self.reads = TileStream(replace(spec.stream, address=address))
        ours, stored, reads = (members(part.spec) for part in (self.sequencer, self.weights, self.reads))
        fields = dict(self.sequencer.offsets.payload.shape())
        # a command's count is how many words it gives
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
        # what the array takes is known late, and all of a tile's registers would wait for it
        m.submodules.tiles = tiles = Fifo(weights.w.payload.shape(), _TILES)
        wiring.connect(m, weights.w, tiles.i)
        wiring.connect(m, tiles.o, wiring.flipped(self.w))
        wiring.connect(m, weights.v, wiring.flipped(self.v))
        # reads of what waits here have begun
        m.submodules.tensors = tensors = Fifo(sequencer.tensors.payload.shape(), _AHEAD)
        m.submodules.requests = requests = Fifo(sequencer.offsets.payload.shape(), _AHEAD)
        wiring.connect(m, sequencer.tensors, tensors.i)
        wiring.connect(m, tensors.o, weights.operation)
        wiring.connect(m, sequencer.offsets, requests.i)
        base = beat_number(self.address)
        for asked, given, start in (
            (sequencer.beats, reads.reads, reads.base),
            (sequencer.corrections, reads.correction_reads, reads.correction_base),
        ):
            wiring.connect(m, asked, given)
            m.d.comb += start.beat.eq(base)
        _connected(m, requests.o, self.request)
        for port, command, fetched in (
            (self.stream_read, reads.command, reads.fetched),
            (self.corrections_read, reads.correction_command, reads.correction_fetched),
        ):
            _connected(m, command, port.command)
            _connected(m, port.beats, fetched)
        # when a tile takes one is known late
        m.submodules.corrections = corrections = Fifo(reads.corrections.payload.shape(), _CORRECTIONS)
        wiring.connect(m, reads.corrections, corrections.i)
        # beats in error do not come
        for given, taken in ((reads.beats, weights.beats), (corrections.o, weights.corrections)):
            m.d.comb += [
                taken.valid.eq(given.valid),
                given.ready.eq(taken.ready),
                *(
                    getattr(taken.payload, name).eq(getattr(given.payload, name))
                    for name in given.payload.shape().members
                ),
            ]
        number = Signal(NUMBER_BITS, reset_less=True)
        m.d.comb += [self.place.eq(reads.place), self.number.eq(number), self.fetched.eq(reads.idle)]
        with m.If(~self.failed):
            m.d.sync += [self.failed.eq(self.w.valid & self.w.payload.error), number.eq(self.w.payload.tile)]
        return m


def _connected(m: Module, given: stream.Interface, taken: stream.Interface) -> None:
    """Connect streams whose payloads have the same bits."""
    m.d.comb += [
        taken.valid.eq(given.valid),
        Value.cast(taken.payload).eq(Value.cast(given.payload)),
        given.ready.eq(taken.ready),
    ]
