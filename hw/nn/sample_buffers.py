"""Sample buffers: entry of a sample overlaps the computation of another, if the activation memory has two buffers."""

from typing import ClassVar

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ...golden.nn.array.mapping import Mapping


class SampleBuffers(wiring.Component):
    """Count samples in the activation memory and start them in order of arrival.

    Parameters
    ----------
    mapping : Mapping
        Number of sample buffers, 1 or 2.

    Attributes
    ----------
    enter : In, 1
        A sample starts to enter; only while `room` is 1.
    room : Out, 1
        A buffer is free.
    arrived : In, 1
        The entering sample is complete.
    into : Out, 1
        Buffer of the entering sample.
    hold : In, 1
        Start no further sample.
    begin : Out, 1
        One-cycle pulse: a sample starts.
    done : In, 1
        The sample started last is computed.
    current : Out, 1
        Buffer of the present or next sample.
    running : Out, 1
        A sample is computed: from the cycle after `begin` to `done`.
    runs_next : Out, 1
        `running` of the next cycle, for replicated registers of it.
    """

    ports: ClassVar[dict[str, Member]] = {}
    """Ports of a subclass."""

    def __init__(self, mapping: Mapping) -> None:
        self.buffers = mapping.sample_buffers
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
                "runs_next": Out(1),
                **self.ports,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, waiting = Signal(2), Signal(2)
        ready, first, over = self._first(m, (waiting != 0) & ~self.running & ~self.hold)
        m.d.comb += [
            self.room.eq(held != self.buffers),
            self.begin.eq(ready),
            self.runs_next.eq((self.running | self.begin) & ~self.done),
        ]
        m.d.sync += [
            held.eq(held + self.enter - over),
            waiting.eq(waiting + self.arrived - first),
            self.running.eq(self.runs_next),
        ]
        if self.buffers == 2:
            m.d.sync += [self.into.eq(self.into ^ self.arrived), self.current.eq(self.current ^ over)]
        return m

    def _first(self, m: Module, ready: Value) -> tuple[Value, Value, Value]:
        """Flags: a pass begins, a pass begins with a sample, a pass with a sample ends."""
        return ready, self.begin, self.done


class OverlappingBuffers(SampleBuffers):
    """Sample buffers that start a sample after the last word of the preceding sample.

    Parameters
    ----------
    mapping : Mapping
        As for `SampleBuffers`.

    Attributes
    ----------
    consumed : In, 1
        The last word that reads the sample started last is issued: its buffer is free.
    issued : In, 1
        The last word of the sample started last is issued.
    done : In, 1
        The oldest started sample is computed.
    current : Out, 1
        Buffer of the sample whose words are issued, or are next.
    running : Out, 1
        A sample is computed: from the cycle after `begin` to `done`.
    """

    ports: ClassVar = dict.fromkeys(("consumed", "issued"), In(1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, waiting, started, issuing = Signal(2), Signal(2), Signal(2), Signal()
        started_next = Signal(2)
        m.d.comb += [
            self.room.eq(held != self.buffers),
            self.begin.eq((waiting != 0) & ~issuing & ~self.hold),
            started_next.eq(started + self.begin - self.done),
            self.runs_next.eq(started_next != 0),
        ]
        m.d.sync += [
            held.eq(held + self.enter - self.consumed),
            waiting.eq(waiting + self.arrived - self.begin),
            started.eq(started_next),
            issuing.eq((issuing | self.begin) & ~self.issued),
            self.running.eq(self.runs_next),
        ]
        if self.buffers == 2:
            m.d.sync += [self.into.eq(self.into ^ self.arrived), self.current.eq(self.current ^ self.issued)]
        return m


class RestoringBuffers(SampleBuffers):
    """Sample buffers with passes that begin with restored outputs.

    Parameters
    ----------
    mapping : Mapping
        As for `SampleBuffers`.

    Attributes
    ----------
    restore : In, 1
        Passes begin with restored outputs; constant during a pass.
    restored : In, 1
        With `restore`: input of the next pass is ready.
    """

    ports: ClassVar = dict.fromkeys(("restore", "restored"), In(1))

    def _first(self, m: Module, ready: Value) -> tuple[Value, Value, Value]:
        first, over, sampled = Signal(), Signal(), ~self.restore
        m.d.comb += [first.eq(ready & sampled), over.eq(self.done & sampled)]
        return first | (self.restore & self.restored & ~self.running & ~self.hold), first, over
