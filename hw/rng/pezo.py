"""RTL of `pezo`: the two generators behind one stream, and the array's way back to a mark."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring

from ...golden.rng.pezo import PezoSpec
from ..ports import members
from .pool import Pool
from .scale import Scale
from .urng import Urng


class Pezo(wiring.Component):
    """Numbers, and on the fly their factor, one word a cycle.

    With `replay` the word after this transfer is the one at the mark, with `mark` the word after it becomes the mark (a
    replay wins). From the pool both are free. The array on the fly goes round its load ring once for either, and
    once after reset: no word comes in those cycles, and a load waits for them.
    """

    def __init__(self, spec: PezoSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        return self._pool() if self.spec.strategy == "pool" else self._array()

    def _pool(self) -> Module:
        m = Module()
        m.submodules.pool = pool = Pool(self.spec.pool)
        for name in self.spec.streams():
            inner, outer = getattr(pool, name), getattr(self, name)
            m.d.comb += outer.eq(inner) if name == "scan" else [] if name in ("load", "o") else inner.eq(outer)
        wiring.connect(m, wiring.flipped(self.load), pool.load)
        wiring.connect(m, pool.o, wiring.flipped(self.o))
        return m

    def _array(self) -> Module:
        m = Module()
        m.submodules.urng = urng = Urng(self.spec.scale.urng)
        m.submodules.scale = scale = Scale(self.spec.scale)
        if self.spec.replay:
            self._ring(m, scale.scan.bit, urng.load)
        else:
            wiring.connect(m, wiring.flipped(self.load), urng.load)
        m.d.comb += [
            self.scan.bit.eq(scale.scan.bit),
            scale.load.valid.eq(urng.load.valid),
            scale.load.payload.bit.eq(urng.scan.bit),
            scale.load.payload.last.eq(urng.load.payload.last),
            self.o.valid.eq(urng.o.valid & scale.o.valid),
            urng.o.ready.eq(self.o.ready & scale.o.valid),
            scale.o.ready.eq(self.o.ready & urng.o.valid),
            self.o.payload.number.eq(urng.o.payload.number),
            self.o.payload.scale.eq(scale.o.payload.scale),
        ]
        return m

    def _ring(self, m: Module, falls_out: Signal, load: wiring.PureInterface) -> None:
        """A shift register beside the array: what enters the one enters the other, from either of the two ends."""
        length = self.spec.state_bits
        copy = Signal(length, reset_less=True)
        left = Signal(range(length), init=length - 1)
        turning = Signal(init=1)
        restoring = Signal()
        final = Signal()
        m.d.comb += [
            self.load.ready.eq(~turning),
            final.eq(left == 0),
            load.valid.eq(turning | self.load.valid),
            load.payload.bit.eq(Mux(turning, Mux(restoring, copy[-1], falls_out), self.load.payload.bit)),
            load.payload.last.eq(Mux(turning, final, self.load.payload.last)),
        ]
        with m.If(load.valid):
            m.d.sync += copy.eq(Cat(load.payload.bit, copy[:-1]))
        with m.If(turning):
            m.d.sync += left.eq(left - 1)
            with m.If(final):
                m.d.sync += [turning.eq(0), left.eq(length - 1)]
        with m.Elif(self.o.valid & self.o.ready & (self.replay.bit | self.mark.bit)):
            m.d.sync += [turning.eq(1), restoring.eq(self.replay.bit)]
