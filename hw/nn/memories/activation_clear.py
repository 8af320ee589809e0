"""Clear of the activation memory: zeros everywhere, of which those around the maps stay."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.nn.array.mapping import Mapping
from ..interfaces import activation_address


class ActivationClear(wiring.Component):
    """Walk over the activation memory, as many values a cycle as the array has columns.

    Samples and outputs are written within zeros that no other write makes, and a memory holds anything at power-up.

    Parameters
    ----------
    mapping : Mapping
        Its activation memory and its columns.

    Attributes
    ----------
    start : In, 1
        Clear; while it does, from the beginning.
    active : Out, 1
        From the cycle after `start`, for `Mapping.clear_cycles`: the run of `columns` values at `address` is zero.
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
