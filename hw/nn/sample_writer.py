"""A sample, as beats, to where the first stage reads it."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.models.network import Convolution
from ...golden.nn.mapping import Plan
from ..lora.batch_unpacker import PIXELS, pixel
from .pooling import VALUE


class Image(wiring.Component):
    """For a convolution one value a cycle, with its copies; for a vector as many as there are columns.

    Attributes
    ----------
    start, place, done
        A sample begins, in this place of the activations' memory; its last value is written.
    i : In stream of beats
    write, write_address, copy, value, values, ready
        To the activations' memory.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.convolution = isinstance(plan.network.stages[0].layer, Convolution)
        self.bits = (plan.activations - 1).bit_length()
        self.run = max(plan.columns, plan.copies)
        super().__init__(
            {
                **dict.fromkeys(("start", "place", "ready"), In(1)),
                **dict.fromkeys(("done", "copy"), Out(1)),
                "i": In(stream.Signature(128)),
                "write": Out(self.run),
                "write_address": Out(self.bits),
                "value": Out(VALUE),
                "values": Out(data.ArrayLayout(VALUE, plan.columns)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        per_beat = PIXELS if plan.pixels else 4
        step = 1 if self.convolution else min(plan.columns, per_beat)
        part, beat = Signal(range(max(per_beat // step, 2))), Signal(128)
        held, ended = Signal(), Signal()
        address = Signal(self.bits)
        moves = Signal()
        m.d.comb += [moves.eq(held & self.ready), self.write_address.eq(address), self.copy.eq(self.convolution)]
        width = 128 // per_beat
        now = [beat[at * width : (at + 1) * width] for at in range(step)]
        shown = [pixel(one) if plan.pixels else one[: VALUE.width].as_signed() for one in now]
        m.d.comb += [self.value.eq(shown[0]), *(self.values[at].eq(one) for at, one in enumerate(shown))]
        mask = self._walk(m, moves, address, ended, step)
        m.d.comb += [self.write.eq(Mux(held, mask, 0)), self.done.eq(moves & ended)]
        last_part = part == per_beat // step - 1
        active = Signal()
        with m.If(self.start):
            m.d.sync += [active.eq(1), held.eq(0), address.eq(self._origin(self.place))]
        with m.Elif(self.done):
            m.d.sync += [active.eq(0), held.eq(0)]
        with m.Elif(active & ~held):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [held.eq(self.i.valid), part.eq(0), beat.eq(self.i.payload)]
        with m.Elif(moves):
            m.d.sync += [part.eq(part + 1), beat.eq(beat >> width * step), held.eq(~last_part)]
        return m

    def _origin(self, place: Signal) -> Signal:
        plan, base = self.plan, 0
        if self.convolution:
            base = self._padding * (self._pitch + self._column)
        return Mux(place, base + plan.image, base)

    @property
    def _padding(self) -> int:
        """Zeros on each side."""
        layer = self.plan.network.stages[0].layer
        return layer.padding if isinstance(layer, Convolution) else 0

    @property
    def _pitch(self) -> int:
        """Values from row to row."""
        plan = self.plan
        return plan.stages[0].loops[5].stride // plan.network.stages[0].pool

    @property
    def _column(self) -> int:
        """Values from column to column."""
        plan = self.plan
        return plan.stages[0].loops[4].stride // plan.network.stages[0].pool

    def _walk(self, m: Module, moves: Signal, address: Signal, ended: Signal, step: int) -> Signal:
        """The address after this one, the end, and which elements of the run are written."""
        plan = self.plan
        mask = Signal(plan.copies if self.convolution else self.run)
        if not self.convolution:
            total = plan.network.stages[0].inputs
            left = Signal(range(total + step + 1))
            m.d.comb += [ended.eq(left <= step), mask.eq(Cat(left > at for at in range(step)))]
            with m.If(self.start):
                m.d.sync += left.eq(total)
            with m.Elif(moves):
                m.d.sync += [left.eq(left - step), address.eq(address + step)]
            return mask
        channels, height, width = plan.network.input_shape
        padding = self._padding
        copies, pitch, column = plan.copies, self._pitch, self._column
        rows = plan.stages[0].loops[5].count * plan.network.stages[0].pool
        x, y, channel = Signal(range(width + 1)), Signal(range(height + 1)), Signal(range(channels + 1))
        # whether this is the last column, row, channel: registers, as much depends on them
        row_end, map_end, image_end = Signal(), Signal(), Signal()
        m.d.comb += ended.eq(row_end & map_end & image_end)
        if copies > 1:
            below = [Const(1, 1) if e <= padding else y >= e - padding for e in range(copies)]
            m.d.comb += mask.eq(Cat(one & (y + padding < rows + e) for e, one in enumerate(below)))
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
                    m.d.sync += [y.eq(0), map_end.eq(height == 1), address.eq(address + copies - back)]
                    m.d.sync += [channel.eq(channel + 1), image_end.eq(channel == channels - 2)]
        return mask
