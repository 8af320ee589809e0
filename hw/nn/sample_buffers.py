"""Sample buffers: while one sample is computed, the next one comes in, where the activation memory has room for two."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.mapping import Mapping


class SampleBuffers(wiring.Component):
    """Count the samples in the activation memory and start them one after the other, in the order of their arrival.

    Parameters
    ----------
    mapping : Mapping
        Its number of sample buffers, 1 or 2.
    passes : int
        Most times that a sample is computed, 1 or 2.

    Attributes
    ----------
    enter : In, 1
        A sample begins to come in; only where `room` is 1.
    room : Out, 1
        A buffer is free.
    arrived : In, 1
        The sample that comes in is complete.
    into : Out, 1
        Buffer of the sample that comes in.
    hold : In, 1
        Start no further sample.
    begin : Out, 1
        A sample is started, for one cycle.
    done : In, 1
        The sample that was started last is computed.
    current : Out, 1
        Buffer of the sample that is computed, or will be next.
    running : Out, 1
        A sample is computed: from the cycle after `begin` to the one of `done`.
    twice : In, 1, only with two passes
        Compute each sample twice; stays the same while samples are there.
    again : Out, 1, only with two passes
        A sample's second pass is computed, or is next; `hold` does not stop it.
    restore, restored : In, 1, only with two passes
        Passes do not take samples, but begin as soon as `restored`; the former stays the same during a pass.
    """

    def __init__(self, mapping: Mapping, passes: int = 1) -> None:
        self.buffers, self.passes = mapping.sample_buffers, passes
        super().__init__(
            {
                "enter": In(1),
                "room": Out(1),
                "arrived": In(1),
                "into": Out(1),
                "hold": In(1),
                "begin": Out(1),
                "done": In(1),
                "current": Out(1),
                "running": Out(1),
                **({"twice": In(1), "again": Out(1), "restore": In(1), "restored": In(1)} if passes == 2 else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, waiting = Signal(2), Signal(2)
        ready = (waiting != 0) & ~self.running & ~self.hold
        begin, first, over = self.begin, self.begin, self.done
        if self.passes == 2:
            first, over = Signal(), Signal()
            own, restored = ~self.restore, self.restored & ~(self.hold & ~self.again) & ~self.running
            m.d.comb += [first.eq(ready & ~self.again & own), over.eq(self.done & (self.again | ~self.twice) & own)]
            m.d.sync += self.again.eq(Mux(self.done, self.twice & ~self.again, self.again))
            ready = Mux(own, first | (self.again & ~self.running), restored)
        m.d.comb += [self.room.eq(held != self.buffers), begin.eq(ready)]
        m.d.sync += [
            held.eq(held + self.enter - over),
            waiting.eq(waiting + self.arrived - first),
            self.running.eq((self.running | begin) & ~self.done),
        ]
        if self.buffers == 2:
            m.d.sync += [self.into.eq(self.into ^ self.arrived), self.current.eq(self.current ^ over)]
        return m
