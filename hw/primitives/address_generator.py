"""Address of an array element, in one DSP."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT_COUNT_BITS
from .pipeline import delayed
from .registers import data_register


class AddressGenerator(wiring.Component):
    """Compute the address of an array element: ``(base + index * stride) mod 2**address``.

    Computes one address at a time. The unsigned multiplication of 24 x 16 bits has registers at inputs and output, to
    map to one DSP.

    Attributes
    ----------
    start : In(1)
        Begin, and sample `index`, `stride` and `base`. At most once in `LATENCY` cycles.
    index : In(24)
        Number of the element, from 0.
    stride : In(16)
        Difference between the addresses of neighbouring elements; as many bits as the beats of a transfer command.
    base : In, `address` bits
        Address of element 0.
    done : Out(1)
        High from `LATENCY` cycles after `start` until the cycle after the next `start`.
    address : Out, `address` bits
        Address, modulo 2**address. Valid while `done`.
    """

    LATENCY = 3

    def __init__(self, address: int) -> None:
        super().__init__(
            {
                "start": In(1),
                "index": In(24),
                "stride": In(BEAT_COUNT_BITS),
                "base": In(address),
                "done": Out(1),
                "address": Out(address),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        index, stride, base = (
            Signal.like(port, name=name, reset_less=True)
            for name, port in (("index_given", self.index), ("stride_given", self.stride), ("base_given", self.base))
        )
        product = Signal(len(index) + len(stride), reset_less=True)
        computed = delayed(m, self.start, self.LATENCY - 1, "found")
        with m.If(self.start):
            m.d.sync += [index.eq(self.index), stride.eq(self.stride), base.eq(self.base), self.done.eq(0)]
        with m.Elif(computed):
            m.d.sync += self.done.eq(1)
        m.d.sync += [product.eq(index * stride), data_register(m, self.address).eq(base + product)]
        return m
