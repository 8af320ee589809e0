"""Output reader: a stage's outputs as a stream, channel by channel, row by row."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.mapping import Mapping
from .interfaces import ACTIVATION, StageOutputs


class OutputReader(wiring.Component):
    """Read the outputs of one stage, a value a cycle; all other stages' outputs are dropped.

    Parameters
    ----------
    mapping : Mapping
    stage : int
        Number of the stage; -1 for the last one.

    Attributes
    ----------
    outputs : In, `StageOutputs`
        From the forward engine.
    o : Out stream of Q8.16
        Outputs in the order of ``Stage.output_shape``: the last value of a sample is its last channel's.
    """

    def __init__(self, mapping: Mapping, stage: int = -1) -> None:
        self.mapping, self.number = mapping, range(len(mapping.stages))[stage]
        super().__init__({"outputs": In(StageOutputs(mapping)), "o": Out(stream.Signature(ACTIVATION))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, columns, outputs = self.mapping.stages[self.number], self.mapping.columns, self.outputs
        group, address = (
            Signal(outputs.address.shape(), init=stage.output, name=name) for name in ("group", "address")
        )
        cell, column, channel = Signal(range(stage.cells)), Signal.like(outputs.column), Signal(range(stage.channels))
        full, reading, advance = Signal(), Signal(), Signal()
        m.d.comb += [
            outputs.full[self.number].eq(full),
            advance.eq(~self.o.valid | self.o.ready),
            outputs.enable.eq(advance),
            outputs.address.eq(address),
            outputs.column.eq(column),
            self.o.payload.eq(outputs.value),
        ]
        # filled, full, reading: as many cycles as `StageOutputs` asks for
        with m.If(outputs.filled[self.number]):
            m.d.sync += full.eq(1)
        with m.If(full):
            m.d.sync += reading.eq(1)
        with m.If(advance):
            m.d.sync += self.o.valid.eq(reading)
            with m.If(reading):
                m.d.sync += [cell.eq(cell + 1), address.eq(address + 1)]
                with m.If(cell == stage.cells - 1):
                    m.d.sync += [cell.eq(0), column.eq(column + 1), channel.eq(channel + 1)]
                    with m.If(column == columns - 1):
                        m.d.sync += [address.eq(address + 1), group.eq(address + 1)]
                    with m.Else():
                        m.d.sync += address.eq(group)
                    with m.If(channel == stage.channels - 1):
                        m.d.sync += [full.eq(0), reading.eq(0), channel.eq(0), column.eq(0)]
                        m.d.sync += [address.eq(stage.output), group.eq(stage.output)]
        return m
