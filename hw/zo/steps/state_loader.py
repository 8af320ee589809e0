"""Serial loader of a generator state."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT
from ....golden.rng.generators import Generator
from ...axi.memory_port import BEATS
from ...ports import layout


class StateLoader(wiring.Component):
    """Send the bits of a state image serially, lowest bit of a beat first.

    Attributes
    ----------
    beats : In stream of beats
        The image, see `golden.zo.memory_layout.ZerothOrderLayout.state`; padding bits of the last beat are dropped.
    load : Out stream of ``bit`` (1 bit), ``last`` (1 bit)
        The generator's stream of the same name.
    done : Out, 1
        The last bit has been accepted; one cycle.
    """

    def __init__(self, spec: Generator) -> None:
        self.spec = spec
        super().__init__(
            {
                "beats": In(BEATS),
                "load": Out(stream.Signature(layout(spec.streams()["load"]))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, held = self.spec.state_bits, Signal()
        beat, number = Signal(8 * BEAT, reset_less=True), Signal(range(bits))
        last = number == bits - 1
        taken = self.load.valid & self.load.ready
        m.d.comb += [
            self.beats.ready.eq(~held),
            self.load.valid.eq(held),
            self.load.payload.bit.eq(beat[0]),
            self.load.payload.last.eq(last),
            self.done.eq(taken & last),
        ]
        with m.If(self.beats.valid & self.beats.ready):
            m.d.sync += [held.eq(1), beat.eq(self.beats.payload)]
        with m.If(taken):
            m.d.sync += [beat.eq(beat >> 1), number.eq(number + 1)]
            with m.If(last | (number[: (8 * BEAT - 1).bit_length()] == 8 * BEAT - 1)):
                m.d.sync += held.eq(0)
            with m.If(last):
                m.d.sync += number.eq(0)
        return m
