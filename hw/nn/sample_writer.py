"""Sample writer: beats of a sample to the activation memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.array.activation_layout import sample_is_map
from ...golden.nn.array.mapping import Mapping
from .interfaces import ACTIVATION, BEAT_BITS, BEATS, ActivationWrite

BYTES_PER_BEAT = 16
"""Byte values a beat."""
WORDS_PER_BEAT = 4
"""Q8.16 values a beat, four bytes each."""


def activation_of_byte(value: Value) -> Value:
    """Q8.16 nearest to p / 255 of a byte p."""
    return Cat(value, value) + value[-1]


class SampleWriter(wiring.Component):
    """Write a value a cycle with its replicas for a map, up to `columns` values a cycle for a vector.

    Parameters
    ----------
    mapping : Mapping

    Attributes
    ----------
    start : In, 1
        A sample begins; the preceding sample is written.
    buffer : In, 1
        Sample buffer in the activation memory, with `start`.
    done : Out, 1
        The sample's last value is written.
    i : In stream of beats
        Image of the sample; ready only between `start` and `done`.
    ready : In, 1
        The activation memory takes `write` in this cycle.
    write : Out, `ActivationWrite`
        Held until `ready`.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.has_map = sample_is_map(mapping.network_stages)
        super().__init__(
            {
                "start": In(1),
                "buffer": In(1),
                "done": Out(1),
                "i": In(BEATS),
                "ready": In(1),
                "write": Out(ActivationWrite(mapping)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, write = self.mapping, self.write
        per_beat = BYTES_PER_BEAT if mapping.byte_inputs else WORDS_PER_BEAT
        step = 1 if self.has_map else min(mapping.columns, per_beat)
        part = Signal(range(max(per_beat // step, 2)), reset_less=True)
        beat = Signal(BEAT_BITS, reset_less=True)
        held, ended = Signal(), Signal()
        address = Signal.like(write.address, reset_less=True)
        moves = Signal()
        m.d.comb += [moves.eq(held & self.ready), write.address.eq(address), write.replicate.eq(self.has_map)]
        width = BEAT_BITS // per_beat
        fields = [beat[place * width : (place + 1) * width] for place in range(step)]
        values = [activation_of_byte(field) if mapping.byte_inputs else field[: ACTIVATION.width] for field in fields]
        m.d.comb += [write.value.eq(values[0]), *(write.values[place].eq(value) for place, value in enumerate(values))]
        mask = self._walk(m, moves, address, ended, step)
        m.d.comb += [write.write.eq(Mux(held, mask, 0)), self.done.eq(moves & ended)]
        last_part = part == per_beat // step - 1
        active = Signal()
        with m.If(self.start):
            m.d.sync += [active.eq(1), held.eq(0), address.eq(self._origin())]
        with m.Elif(self.done):
            m.d.sync += [active.eq(0), held.eq(0)]
        with m.Elif(active & ~held):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [held.eq(self.i.valid), part.eq(0), beat.eq(self.i.payload)]
        with m.Elif(moves):
            m.d.sync += [part.eq(part + 1), beat.eq(beat >> width * step), held.eq(~last_part)]
        return m

    def _origin(self) -> Value:
        """Address of the sample's first value, after the padding."""
        origin = self.mapping.layout(-1).origin
        return Mux(self.buffer, origin + self.mapping.sample_values, origin)

    def _walk(self, m: Module, moves: Signal, address: Signal, ended: Signal, step: int) -> Signal:
        """Next address, end of the sample, and mask of the written elements."""
        mapping = self.mapping
        mask = Signal(mapping.row_replicas if self.has_map else len(self.write.write))
        if not self.has_map:
            total = mapping.inputs
            left = Signal(range(total + step + 1), reset_less=True)
            m.d.comb += [ended.eq(left <= step), mask.eq(Cat(left > place for place in range(step)))]
            with m.If(self.start):
                m.d.sync += left.eq(total)
            with m.Elif(moves):
                m.d.sync += [left.eq(left - step), address.eq(address + step)]
            return mask
        channels, height, width = mapping.input_shape
        replicas, (rows, pitch, column, origin) = mapping.row_replicas, mapping.layout(-1)
        top = origin // pitch
        sizes = {"x": width, "y": height, "channel": channels}
        x, y, channel = (Signal(range(size + 1), name=name, reset_less=True) for name, size in sizes.items())
        # last column, row, channel: registers because of their fan-out
        row_end, map_end, image_end = Signal(), Signal(), Signal()
        m.d.comb += ended.eq(row_end & map_end & image_end)
        if replicas > 1:
            below = [Const(1, 1) if e <= top else y >= e - top for e in range(replicas)]
            m.d.comb += mask.eq(Cat(is_below & (y + top < rows + e) for e, is_below in enumerate(below)))
        else:
            m.d.comb += mask.eq(1)
        with m.If(self.start):
            m.d.sync += [x.eq(0), y.eq(0), channel.eq(0)]
            m.d.sync += [row_end.eq(width == 1), map_end.eq(height == 1), image_end.eq(channels == 1)]
        with m.Elif(moves):
            m.d.sync += [x.eq(x + 1), row_end.eq(x == width - 2), address.eq(address + column)]
            with m.If(row_end):
                m.d.sync += [x.eq(0), row_end.eq(width == 1), address.eq(address + pitch - (width - 1) * column)]
                m.d.sync += [y.eq(y + 1), map_end.eq(y == height - 2)]
                with m.If(map_end):
                    back = (height - 1) * pitch + (width - 1) * column
                    m.d.sync += [y.eq(0), map_end.eq(height == 1), address.eq(address + replicas - back)]
                    m.d.sync += [channel.eq(channel + 1), image_end.eq(channel == channels - 2)]
        return mask
