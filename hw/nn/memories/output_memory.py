"""Output memory: stage outputs in order of computation, a bank a column; and its reader."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out
from amaranth.utils import exact_log2

from ....golden.nn.array.mapping import Mapping
from ....golden.nn.array.memories import output_memory
from ...primitives.ram import ram
from ..interfaces import ACTIVATION, StageOutputs


class OutputMemory(wiring.Component):
    """Write all columns at consecutive addresses; read one column.

    Parameters
    ----------
    mapping : Mapping
        Columns, signs, depth.
    kept : int
        First stage with readable outputs.

    Attributes
    ----------
    begin : In, 1
        A stage begins; its outputs start at `first`.
    first : In, range(output_depth)
        First address of the stage.
    write : In, 1
        Outputs of all columns.
    position : In, range(output_depth), only where a stage has sums in parts
        Address of the outputs; otherwise consecutive.
    values : In, array of columns Q8.16
    enable : In, 1
        Read.
    address : In, range(output_depth)
    column : In, log2(columns) bits
    value : Out, Q8.16
        Value at `address` and `column`, a cycle after `enable`.
    """

    def __init__(self, mapping: Mapping, kept: int = 0) -> None:
        self.depth, self.dropped = mapping.output_depth, mapping.stages[kept].output
        self.banks = output_memory(mapping, kept)
        self.has_positions = mapping.most_parts > 1
        ports = {
            "begin": In(1),
            "first": In(range(self.depth)),
            "write": In(1),
            "values": In(data.ArrayLayout(ACTIVATION, mapping.columns)),
            "enable": In(1),
            "address": In(range(self.depth)),
            "column": In(exact_log2(mapping.columns)),
            "value": Out(ACTIVATION),
        }
        if self.has_positions:
            ports["position"] = In(range(self.depth))
        super().__init__(ports | self._ports(mapping))

    def _ports(self, mapping: Mapping) -> dict[str, Member]:
        """Ports of a subclass."""
        return {}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        write, first, address, depth = self.write, self.first, self.address, self.depth - self.dropped
        if self.dropped:
            keeping, write, address, first = Signal(), Signal(), Signal(range(depth)), Signal(range(depth))
            m.d.comb += [
                write.eq(self.write & keeping),
                first.eq(self.first - self.dropped),
                address.eq(self.address - self.dropped),
            ]
            with m.If(self.begin):
                m.d.sync += keeping.eq(self.first >= self.dropped)
        position: Value = Signal(range(depth), name="position", reset_less=True)
        if self.has_positions:
            m.d.comb += position.eq(self.position - self.dropped)
        else:
            with m.If(self.begin):
                m.d.sync += position.eq(first)
            with m.Elif(self.write):
                m.d.sync += position.eq(position + 1)
        reads = self._reads(m)
        position, address = self._of_side(m, position, address)
        bank_values = []
        for number in range(len(self.values)):
            bank = ram(platform, self.banks, ACTIVATION)
            m.submodules[f"bank{number}"] = bank
            port, into = bank.read_port(), bank.write_port()
            m.d.comb += [
                into.en.eq(write),
                into.addr.eq(position),
                into.data.eq(self._written(number, position)),
                port.en.eq(self.enable),
                port.addr.eq(self._row(number, address)),
            ]
            bank_values.append(port.data)
        for value, place in reads:
            m.d.comb += value.eq(Cat(bank_values).word_select(place, ACTIVATION.width).as_signed())
        return m

    def _reads(self, m: Module) -> list[tuple[Signal, Signal]]:
        """Read values, each with its bank."""
        column = Signal.like(self.column, name="column", reset_less=True)
        with m.If(self.enable):
            m.d.sync += column.eq(self.column)
        return [(self.value, column)]

    def _written(self, number: int, position: Value) -> Value:
        """Value written to a bank."""
        return self.values[number]

    def _row(self, number: int, address: Value) -> Value:
        """Row read from a bank."""
        return address

    def _of_side(self, m: Module, position: Value, address: Value) -> tuple[Value, Value]:
        """Addresses of a write and a read; `position` and `address` are within a sign's half."""
        return position, address


class SidedOutputMemory(OutputMemory):
    """Output memory with a half for each perturbation sign.

    Parameters
    ----------
    mapping, kept
        As for `OutputMemory`.

    Attributes
    ----------
    into : In, 1
        Sign of the stage's outputs, with `begin`.
    side : In, 1
        Sign to read, with `enable`.
    """

    def _ports(self, mapping: Mapping) -> dict[str, Member]:
        return dict.fromkeys(("into", "side"), In(1))

    def _of_side(self, m: Module, position: Value, address: Value) -> tuple[Value, Value]:
        side = Signal(reset_less=True)
        with m.If(self.begin):
            m.d.sync += side.eq(self.into)
        return Cat(position, side), Cat(address, self.side)


class PairedOutputMemory(OutputMemory):
    """Output memory with two reads at once, of adjacent values in a row or a column.

    At odd addresses adjacent columns are exchanged, so that a column's adjacent addresses are in two banks.

    Parameters
    ----------
    mapping : Mapping
        As for `OutputMemory`, with all outputs readable.

    Attributes
    ----------
    second_address, second_column, second_value
        See `StageOutputs`.
    """

    def _ports(self, mapping: Mapping) -> dict[str, Member]:
        return {
            "second_address": In(range(mapping.output_depth)),
            "second_column": In(exact_log2(mapping.columns)),
            "second_value": Out(ACTIVATION),
        }

    def _reads(self, m: Module) -> list[tuple[Signal, Signal]]:
        first, second = (Signal.like(self.column, name=f"{name}_bank", reset_less=True) for name in ("first", "second"))
        with m.If(self.enable):
            m.d.sync += [
                first.eq(self.column ^ self.address[0]),
                second.eq(self.second_column ^ self.second_address[0]),
            ]
        return [(self.value, first), (self.second_value, second)]

    def _written(self, number: int, position: Value) -> Value:
        return Mux(position[0], self.values[number ^ 1], self.values[number])

    def _row(self, number: int, address: Value) -> Value:
        is_first = (self.column[0] ^ address[0]) == number % 2
        return Mux(is_first, address, self.second_address)


class OutputReader(wiring.Component):
    """Stream of a stage's outputs, a value a cycle; other stages are ignored. Signs are read as they are filled.

    Parameters
    ----------
    mapping : Mapping
    stage : int
        Number of the stage; -1 for the last.

    Attributes
    ----------
    outputs : In, `StageOutputs`
        From the forward engine.
    o : Out stream of Q8.16
        Outputs in the order of `Stage.output_shape`, the last channel last.
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
        sides, first = self.mapping.sides, self.number * self.mapping.sides
        full, reading, advance = Signal(sides), Signal(), Signal()
        m.d.comb += [
            outputs.full[first : first + sides].eq(full),
            advance.eq(~self.o.valid | self.o.ready),
            outputs.enable.eq(advance),
            outputs.address.eq(address),
            self.o.payload.eq(outputs.value),
        ]
        column_read, moves = self._columns(m, stage.spread, column, reading, advance)
        m.d.comb += outputs.column.eq(column_read)
        # filled, full, reading: the latency of `StageOutputs`
        for number in range(sides):
            with m.If(outputs.filled[first + number]):
                m.d.sync += full[number].eq(1)
        with m.If(full):
            m.d.sync += reading.eq(1)
        if sides == 2:
            side = Signal()
            m.d.comb += outputs.side.eq(side)
            # both are full only during a read
            with m.If(~reading):
                m.d.sync += side.eq(~full[0])
        with m.If(advance):
            m.d.sync += self.o.valid.eq(reading)
            with m.If(moves):
                m.d.sync += [cell.eq(cell + 1), address.eq(address + 1)]
                with m.If(cell == stage.cells - 1):
                    m.d.sync += [cell.eq(0), column.eq(column + 1), channel.eq(channel + 1)]
                    with m.If(column == columns - 1):
                        m.d.sync += [address.eq(address + 1), group.eq(address + 1)]
                    with m.Else():
                        m.d.sync += address.eq(group)
                    with m.If(channel == stage.channels - 1):
                        m.d.sync += [reading.eq(0), channel.eq(0), column.eq(0)]
                        m.d.sync += [address.eq(stage.output), group.eq(stage.output)]
                        if sides == 1:
                            m.d.sync += full.eq(0)
                        else:
                            m.d.sync += full.bit_select(side, 1).eq(0)
        return m

    def _columns(self, m: Module, spread: int, column: Signal, reading: Signal, advance: Signal) -> tuple[Value, Value]:
        """Column to read, and whether the address advances; outputs written in pairs alternate between two columns."""
        if not spread:
            return column, reading
        right = Signal()
        with m.If(advance & reading):
            m.d.sync += right.eq(~right)
        return column + Mux(right, spread, 0), reading & right
