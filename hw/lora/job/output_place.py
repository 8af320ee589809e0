"""Address and column in the output memory, from value to value of a stage's outputs."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.lora.mapping import AdapterMapping
from ....golden.nn.array.stage_mapping import StageMapping


class OutputPlace:
    """Address and column of the next value: channel by channel, or across the columns for a vector.

    Parameters
    ----------
    mapping : AdapterMapping
    outputs : StageOutputs
        Port of the output memory.

    Attributes
    ----------
    group : Signal
        First address of the columns' current channels.
    vector : Signal
        The stage's outputs are a vector.
    wrapped : Signal
        The column is the last.
    """

    def __init__(self, mapping: AdapterMapping, outputs: wiring.PureInterface) -> None:
        self._outputs, self._columns = outputs, mapping.columns
        self.start, self.group, self.address = (
            Signal.like(outputs.address, name=name, reset_less=True) for name in ("start", "group", "address")
        )
        self.column = Signal(exact_log2(mapping.columns), reset_less=True)
        # with two outputs per write: columns to the right output, and its turn
        self._spreads = any(stage.spread for stage in mapping.forward.stages)
        self._spread, self._right = Signal.like(self.column, name="spread"), Signal(name="right", reset_less=True)
        self.wrapped, self.vector = Signal(), Signal()

    def connect(self, m: Module) -> None:
        """Address the memory."""
        column = self.column + Mux(self._right, self._spread, 0) if self._spreads else self.column
        m.d.comb += [self._outputs.address.eq(self.address), self._outputs.column.eq(column)]

    def load(self, m: Module, stage: StageMapping, blocks: int, values: int) -> None:
        """Begin a stage, in the module's current condition."""
        m.d.comb += self.start.eq(stage.output)
        m.d.sync += [self.address.eq(stage.output), self.vector.eq(is_vector(stage, blocks, values))]
        if self._spreads:
            m.d.sync += self._spread.eq(stage.spread)

    def restart(self, m: Module) -> None:
        """Begin with the first column, in the module's current condition."""
        m.d.sync += [self.column.eq(0), self.wrapped.eq(0)]
        if self._spreads:
            m.d.sync += self._right.eq(0)

    def step(self, m: Module, last_value: Signal) -> None:
        """Advance to the next value, in the module's current condition; `last_value` flags the end of a block."""
        with m.If(self.vector | last_value):
            m.d.sync += [self.column.eq(self.column + 1), self.wrapped.eq(self.column == self._columns - 2)]
        with m.If(self.vector):
            m.d.sync += self.address.eq(self.address + self.wrapped)
        with m.Elif(last_value):
            m.d.sync += self.address.eq(Mux(self.wrapped, self.behind, self.group))
        with m.Else():
            m.d.sync += self.address.eq(self.address + (self._right | ~self._spread.any() if self._spreads else 1))
        if self._spreads:
            m.d.sync += self._right.eq(~self._right & self._spread.any())

    @property
    def behind(self) -> Value:
        """Address after a block's last value."""
        return self.address + 1


class PairPlace(OutputPlace):
    """Addresses and columns of the next two values of a block; the second is invalid beyond the block's end.

    Attributes
    ----------
    odd : Signal
        Blocks have an odd number of values.
    """

    def __init__(self, mapping: AdapterMapping, outputs: wiring.PureInterface) -> None:
        super().__init__(mapping, outputs)
        self.odd = Signal(reset_less=True)
        # columns from the first value to the second; 0 if the second is at the next address
        self._apart = Signal.like(self.column, name="apart", reset_less=True)

    @property
    def _below(self) -> Value:
        return self._apart == 0

    def connect(self, m: Module) -> None:
        """Address the memory."""
        outputs = self._outputs
        m.d.comb += [
            outputs.address.eq(self.address),
            outputs.column.eq(self.column),
            outputs.second_address.eq(self.address + self._below),
            outputs.second_column.eq(self.column + self._apart),
        ]

    def load(self, m: Module, stage: StageMapping, blocks: int, values: int) -> None:
        """Begin a stage, in the module's current condition."""
        vector = is_vector(stage, blocks, values)
        m.d.comb += self.start.eq(stage.output)
        m.d.sync += [
            self.address.eq(stage.output),
            self.vector.eq(vector),
            self.odd.eq(values % 2),
            self._apart.eq(1 if vector else stage.spread),
        ]

    def restart(self, m: Module) -> None:
        """Begin with the first column, in the module's current condition."""
        m.d.sync += [self.column.eq(0), self.wrapped.eq(0)]

    def step(self, m: Module, last_value: Signal) -> None:
        """Advance to the next two values, in the module's current condition; `last_value` flags the end of a block."""
        with m.If(self.vector):
            m.d.sync += [self.column.eq(self.column + 2), self.wrapped.eq(self.column == self._columns - 4)]
            m.d.sync += self.address.eq(self.address + self.wrapped)
        with m.Elif(last_value):
            m.d.sync += [self.column.eq(self.column + 1), self.wrapped.eq(self.column == self._columns - 2)]
            m.d.sync += self.address.eq(Mux(self.wrapped, self.behind, self.group))
        with m.Else():
            m.d.sync += self.address.eq(self.address + 1 + self._below)

    @property
    def behind(self) -> Value:
        """Address after a block's last value."""
        return self.address + 1 + (self._below & ~self.odd)


def is_vector(stage: StageMapping, blocks: int, values: int) -> bool:
    """Whether a stage's outputs, `blocks` of `values` each, are a vector."""
    return blocks * values == stage.channels and blocks == 1
