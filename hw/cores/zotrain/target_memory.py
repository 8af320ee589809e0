"""Target memory: the samples of an autoencoder, stored by beats and read by values as targets."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.nn.array.mapping import Mapping
from ....golden.nn.array.memories import target_memory
from ...nn.interfaces import ACTIVATION, BEAT_BITS
from ...nn.sample_writer import BYTES_PER_BEAT, WORDS_PER_BEAT, activation_of_byte
from ...primitives.ram import ram


class TargetMemory(wiring.Component):
    """Stores the samples in the forward engine, and outputs each sample once for each side, in order.

    Parameters
    ----------
    mapping : Mapping
        Samples, sample buffers of the engine, and sides.

    Attributes
    ----------
    start : In, 1
        A sample begins to arrive; one cycle, only while `room` is 1.
    room : Out, 1
        The memory has space for a sample.
    write : In, 1
        `beat` is the next beat of the samples.
    beat : In, 128
    o : Out stream of Q8.16
        Values of each complete sample, once for each side; one a cycle except for a value after a pause.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        # samples in the engine, and the sample whose outputs are read
        self.samples = mapping.sample_buffers + 1
        super().__init__(
            {
                "start": In(1),
                "room": Out(1),
                "write": In(1),
                "beat": In(BEAT_BITS),
                "o": Out(stream.Signature(ACTIVATION)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, beats = self.mapping, self.mapping.sample_beats
        planned = target_memory(mapping)
        depth = planned.depth
        m.submodules.beats = store = ram(platform, planned)
        into, port = store.write_port(), store.read_port()
        coming, written = Signal(range(beats)), into.addr
        m.d.comb += [into.en.eq(self.write), into.data.eq(self.beat)]
        last_written = coming == beats - 1
        with m.If(self.write):
            m.d.sync += [coming.eq(Mux(last_written, 0, coming + 1)), written.eq(_after(written, depth))]

        # stored samples, and complete samples
        held, complete = Signal(range(self.samples + 1)), Signal(range(self.samples + 1))
        load, final, oldest_done = Signal(), Signal(), Signal()
        m.d.comb += [self.room.eq(held != self.samples), oldest_done.eq(load & final)]
        m.d.sync += [
            held.eq(held + self.start - oldest_done),
            complete.eq(complete + (self.write & last_written) - oldest_done),
        ]

        # the next beat: its address, its number in the sample, the sample's first address, the side
        place, number, first, side = port.addr, Signal(range(beats)), Signal.like(port.addr), Signal()
        fetched, ended = Signal(), number == beats - 1
        m.d.comb += final.eq(ended & (side if mapping.sides == 2 else 1))
        m.d.sync += fetched.eq((complete != 0) & ~load)
        following = _after(place, depth)
        with m.If(load):
            m.d.sync += [number.eq(Mux(ended, 0, number + 1)), place.eq(following)]
            with m.If(ended):
                m.d.sync += side.eq(~side)
                with m.If(final):
                    m.d.sync += first.eq(following)
                with m.Else():
                    m.d.sync += place.eq(first)

        # the beat of the present values
        per_beat = BYTES_PER_BEAT if mapping.byte_inputs else WORDS_PER_BEAT
        beat, tail = Signal(BEAT_BITS, reset_less=True), Signal(reset_less=True)
        part = Signal(range(per_beat), reset_less=True)
        last_part = part == Mux(tail, (mapping.inputs - 1) % per_beat, per_beat - 1)
        value = activation_of_byte(beat[:8]) if mapping.byte_inputs else beat[: ACTIVATION.width]
        m.d.comb += [
            self.o.payload.eq(value),
            load.eq(fetched & (complete != 0) & (~self.o.valid | (self.o.ready & last_part))),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [beat.eq(beat >> BEAT_BITS // per_beat), part.eq(part + 1), self.o.valid.eq(~last_part)]
        with m.If(load):
            m.d.sync += [beat.eq(port.data), part.eq(0), tail.eq(ended), self.o.valid.eq(1)]
        return m


def _after(place: Signal, depth: int) -> Value:
    return Mux(place == depth - 1, 0, place + 1)
