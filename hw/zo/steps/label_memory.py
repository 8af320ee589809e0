"""Labels of a step's samples."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.zo.coefficient import LABEL_MEMORY, LARGEST_BATCH
from ...primitives.ram import ram
from .order_list import LABEL_BITS


class SampleLabels(wiring.Signature):
    """Labels of a step's samples; the directions are those of the source.

    Attributes
    ----------
    label : Out stream of `LABEL_BITS` bits
        See `LabelMemory.i`.
    sample : Out, 1
        See `LabelMemory.sample`.
    """

    def __init__(self) -> None:
        super().__init__({"label": Out(stream.Signature(LABEL_BITS)), "sample": Out(1)})


class LabelMemory(wiring.Component):
    """Store a sample's label when it is first computed, and output the labels of a step cyclically.

    Attributes
    ----------
    i : In stream of `LABEL_BITS` bits
        Labels in sample order. Must be valid when `sample` is high.
    sample : In, 1
        The step's next sample is computed for the first time: store its label. One cycle.
    last_sample : In, 8
        Number of samples in the step, minus 1; stable during a step.
    o : Out stream of `LABEL_BITS` bits
        Labels in sample order. `valid` is always high, but the payload is current only three cycles after `sample`, and
        two cycles after a label was accepted. A pair of losses takes far longer.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(LABEL_BITS)),
                "sample": In(1),
                "last_sample": In(range(LARGEST_BATCH)),
                "o": Out(stream.Signature(LABEL_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = labels = ram(platform, LABEL_MEMORY)
        into, port = labels.write_port(), labels.read_port(domain="comb")
        stored, fetched = Signal(self.last_sample.shape()), Signal(self.last_sample.shape())
        m.d.comb += [
            self.i.ready.eq(self.sample),
            into.en.eq(self.sample),
            into.addr.eq(stored),
            into.data.eq(self.i.payload),
            port.addr.eq(fetched),
        ]
        with m.If(self.sample):
            m.d.sync += stored.eq(Mux(stored == self.last_sample, 0, stored + 1))
        m.d.sync += self.o.payload.eq(port.data)
        m.d.comb += self.o.valid.eq(1)
        with m.If(self.o.ready):
            m.d.sync += fetched.eq(Mux(fetched == self.last_sample, 0, fetched + 1))
        return m
