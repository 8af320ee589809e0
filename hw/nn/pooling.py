"""What becomes of a stage's sums: the largest of a pool, ReLU, and where it is kept."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.fixed import Q8_16
from ...golden.nn.mapping import Mapping

VALUE = signed(Q8_16.width)


class Pooling(wiring.Component):
    """Two registers deep. Keeps the values for the next stage, and in the outbox for the record.

    Attributes
    ----------
    valid, values, pool_first, pool_last, relu, target, mask
        Sums as they come, with the sequencer's flags.
    write, writes, write_address, o
        To the activations' memory; whether any column is there.
    begin, place
        A stage begins: its first address in the outbox.
    read, read_address, read_column, value
        The outbox: `value` follows one cycle after `read`.
    """

    LATENCY = 2

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        address = unsigned((mapping.activation_values - 1).bit_length())
        values = data.ArrayLayout(VALUE, mapping.columns)
        super().__init__(
            {
                **dict.fromkeys(("valid", "pool_first", "pool_last", "relu", "begin", "read"), In(1)),
                "values": In(values),
                "target": In(address),
                "mask": In(mapping.columns),
                "write": Out(mapping.columns),
                "writes": Out(1),
                "write_address": Out(address),
                "o": Out(values),
                "place": In(range(mapping.output_depth)),
                "read_address": In(range(mapping.output_depth)),
                "read_column": In(exact_log2(mapping.columns)),
                "value": Out(VALUE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = self.mapping.columns
        best = [Signal(VALUE, name=f"best{column}") for column in range(columns)]
        out, target, mask, relu = Signal(), Signal.like(self.target), Signal.like(self.mask), Signal()
        m.d.sync += [
            out.eq(self.valid & self.pool_last),
            target.eq(self.target),
            mask.eq(self.mask),
            relu.eq(self.relu),
        ]
        for column, kept in enumerate(best):
            value = self.values[column]
            with m.If(self.valid & (self.pool_first | (value > kept))):
                m.d.sync += kept.eq(value)
        m.d.sync += [self.write.eq(Mux(out, mask, 0)), self.writes.eq(out), self.write_address.eq(target)]
        m.d.sync += [into.eq(Mux(relu & kept[-1], 0, kept)) for into, kept in zip(self.o, best, strict=True)]

        place, column = Signal.like(self.place), Signal.like(self.read_column)
        with m.If(self.begin):
            m.d.sync += place.eq(self.place)
        with m.Elif(self.writes):
            m.d.sync += place.eq(place + 1)
        with m.If(self.read):
            m.d.sync += column.eq(self.read_column)
        found = []
        for number in range(columns):
            store = memory.Memory(shape=VALUE, depth=self.mapping.output_depth, init=[], attrs={"ram_style": "block"})
            m.submodules[f"outbox{number}"] = store
            port, into = store.read_port(), store.write_port()
            m.d.comb += [
                into.en.eq(self.writes),
                into.addr.eq(place),
                into.data.eq(self.o[number]),
                port.en.eq(self.read),
                port.addr.eq(self.read_address),
            ]
            found.append(port.data)
        m.d.comb += self.value.eq(Cat(found).word_select(column, VALUE.width).as_signed())
        return m
