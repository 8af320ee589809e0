"""Sample buffers: while one sample is computed, the next one comes in, where the activation memory has room for two."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.array.mapping import Mapping


class SampleBuffers(wiring.Component):
    """Count the samples in the activation memory and start them one after the other, in the order of their arrival.

    Parameters
    ----------
    mapping : Mapping
        Its number of sample buffers, 1 or 2.
    restores : bool
        Passes may begin with what was restored, and not with samples.

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
    restore, restored : In, 1, only with `restores`
        Passes do not take samples, but begin as soon as `restored`; the former stays the same during a pass.
    """

    def __init__(self, mapping: Mapping, restores: bool = False) -> None:
        self.buffers, self.restores = mapping.sample_buffers, restores
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
                **(dict.fromkeys(("restore", "restored"), In(1)) if restores else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, waiting = Signal(2), Signal(2)
        ready = (waiting != 0) & ~self.running & ~self.hold
        begin, first, over = self.begin, self.begin, self.done
        if self.restores:
            first, over, own = Signal(), Signal(), ~self.restore
            m.d.comb += [first.eq(ready & own), over.eq(self.done & own)]
            ready = first | (self.restore & self.restored & ~self.running & ~self.hold)
        m.d.comb += [self.room.eq(held != self.buffers), begin.eq(ready)]
        m.d.sync += [
            held.eq(held + self.enter - over),
            waiting.eq(waiting + self.arrived - first),
            self.running.eq((self.running | begin) & ~self.done),
        ]
        if self.buffers == 2:
            m.d.sync += [self.into.eq(self.into ^ self.arrived), self.current.eq(self.current ^ over)]
        return m
