"""RTL of `pezo`: a pool or an array as generator, with replay from a mark."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring

from ...golden.rng.pezo import PezoSpec
from ..ports import members
from .pool import Pool
from .scale import Scale
from .urng import Urng


class Pezo(wiring.Component):
    """Random numbers of PeZO, from a pool in block RAM or computed on the fly, a word a cycle.

    With the pool, a replay or a mark takes no cycle. On the fly, a replay, a mark or a reset shifts the state once
    around, in `spec.replay_cycles` cycles. Meanwhile no word is valid, and a load waits.
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
        """Connect a shift register in parallel to the array; input: the load, its own output, or the array's output."""
        length = self.spec.state_bits
        copy = Signal(length, reset_less=True)
        remaining = Signal(range(length), init=length - 1)
        turning = Signal(init=1)
        restoring = Signal()
        final = Signal()
        m.d.comb += [
            self.load.ready.eq(~turning),
            final.eq(remaining == 0),
            load.valid.eq(turning | self.load.valid),
            load.payload.bit.eq(Mux(turning, Mux(restoring, copy[-1], falls_out), self.load.payload.bit)),
            load.payload.last.eq(Mux(turning, final, self.load.payload.last)),
        ]
        with m.If(load.valid):
            m.d.sync += copy.eq(Cat(load.payload.bit, copy[:-1]))
        with m.If(turning):
            m.d.sync += remaining.eq(remaining - 1)
            with m.If(final):
                m.d.sync += [turning.eq(0), remaining.eq(length - 1)]
        with m.Elif(self.o.valid & self.o.ready & (self.replay.bit | self.mark.bit)):
            m.d.sync += [turning.eq(1), restoring.eq(self.replay.bit)]
