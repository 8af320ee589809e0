"""Clear of the activation memory."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.nn.array.mapping import Mapping
from ..interfaces import activation_address


class ActivationClear(wiring.Component):
    """Address sequence of a clear, `columns` values a cycle.

    No other write makes the zero padding around samples and outputs, and memories are undefined at power-up.

    Parameters
    ----------
    mapping : Mapping
        Size of the activation memory, and columns.

    Attributes
    ----------
    start : In, 1
        Start, or restart, a clear.
    active : Out, 1
        Write zeros to `columns` values at `address`; from the cycle after `start`, for `Mapping.clear_cycles`.
    address : Out, `activation_address`
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        super().__init__({"start": In(1), "active": Out(1), "address": Out(activation_address(mapping))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = self.mapping.columns
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.address.eq(0)]
        with m.Elif(self.active):
            m.d.sync += self.address.eq(self.address + columns)
            with m.If(self.address == columns * (self.mapping.clear_cycles - 1)):
                m.d.sync += self.active.eq(0)
        return m
