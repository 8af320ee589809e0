"""Memory of activations: any `lanes` neighbours in a read, a run of a few neighbours, or copies, in a write."""

import itertools
from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.fixed import Q8_16
from ...golden.nn.mapping import Mapping

VALUE = signed(Q8_16.width)


class ActivationMemory(wiring.Component):
    """One bank a lane. Reads any address, one word a cycle, `LATENCY` registers deep; what is read is rotated in place.

    Parameters
    ----------
    mapping : Mapping
        Its lanes, columns, and the values that have room.

    Attributes
    ----------
    address, word
        Of the first lane; the word follows `LATENCY` cycles later, its last rotation still to do: `odd` says whether
        by one lane.
    write, write_address, values
        Element e of a run, where `write` has its bit set, goes to ``write_address + e``.
    copy, value
        Instead of a run, element e is `value` and goes to ``write_address + e - e * pitch``.
    """

    LATENCY = 4

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.bits = (mapping.activation_values - 1).bit_length()
        self.run = max(mapping.columns, mapping.row_replicas)
        self.pitch = mapping.layout(0).pitch if mapping.row_replicas > 1 else 0
        super().__init__(
            {
                "address": In(unsigned(self.bits)),
                "word": Out(data.ArrayLayout(VALUE, mapping.lanes)),
                "odd": Out(1),
                "write": In(self.run),
                "write_address": In(unsigned(self.bits)),
                "values": In(data.ArrayLayout(VALUE, mapping.columns)),
                "copy": In(1),
                "value": In(VALUE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.mapping.lanes
        low = exact_log2(lanes)
        rows = -(-self.mapping.activation_values // lanes)
        banks = [memory.Memory(shape=VALUE, depth=rows, init=[], attrs={"ram_style": "block"}) for _ in range(lanes)]
        for number, bank in enumerate(banks):
            m.submodules[f"bank{number}"] = bank
        self._read(m, banks, low)
        self._write(m, banks, low)
        return m

    def _read(self, m: Module, banks: list[memory.Memory], low: int) -> None:
        lanes = len(banks)
        row = self.address[low:]
        this, following = Signal.like(row), Signal.like(row)
        wrapped = Signal(lanes)
        turn = [Signal(low, name=f"turn{stage}") for stage in range(4)]
        m.d.sync += [
            this.eq(row),
            following.eq(row + 1),
            wrapped.eq(Cat(self.address[:low] > lane for lane in range(lanes - 1))),  # nothing is above the last
            turn[0].eq(self.address[:low]),
            *(after.eq(before) for before, after in itertools.pairwise(turn)),
        ]
        words = []
        for lane, bank in enumerate(banks):
            port = bank.read_port()
            m.d.comb += port.addr.eq(Mux(wrapped[lane], following, this))
            words.append(port.data)
        # lane i takes bank (i + turn) mod lanes: the turn's high bits in two registers, the lowest outside
        done, high = words, low
        for step, width in enumerate((-(-(low - 1) // 2), (low - 1) // 2)):
            unit = 1 << (high - width)
            select = turn[1 + step][high - width : high]
            turned = [Signal(VALUE, name=f"turned{step}_{lane}") for lane in range(lanes)]
            for lane, into in enumerate(turned):
                m.d.sync += into.eq(Array(done[(lane + unit * by) % lanes] for by in range(1 << width))[select])
            done, high = turned, high - width
        m.d.comb += [self.odd.eq(turn[3][0]), *(self.word[lane].eq(value) for lane, value in enumerate(done))]

    def _write(self, m: Module, banks: list[memory.Memory], low: int) -> None:
        """Two registers: rows of all elements, and which bank the run begins in; then for each bank its element."""
        lanes, columns = len(banks), self.mapping.columns
        first, row = self.write_address[:low], self.write_address[low:]
        begins, wrapped, turn = Signal(lanes), Signal(lanes), Signal(exact_log2(columns))
        values, write, copy, value = Signal.like(self.values), Signal.like(self.write), Signal(), Signal(VALUE)
        apart = self.pitch // lanes
        rows = [[Signal.like(row, name=f"row{e}_{carry}") for carry in range(2)] for e in range(self.run)]
        m.d.sync += [
            begins.eq(Cat(first == lane for lane in range(lanes))),
            wrapped.eq(Cat(first > lane for lane in range(lanes - 1))),
            turn.eq(first),
            values.eq(self.values),
            write.eq(self.write),
            copy.eq(self.copy),
            value.eq(self.value),
        ]
        for element, pair in enumerate(rows):
            for carry, one in enumerate(pair):
                m.d.sync += one.eq(row + Mux(self.copy, carry - element * apart, carry))
        for lane, bank in enumerate(banks):
            port = bank.write_port()
            mine = [begins[(lane - element) % lanes] & write[element] for element in range(self.run)]
            places = [Mux(wrapped[lane], *reversed(pair)) for pair in rows]
            where = [Mux(own, place, 0) for own, place in zip(mine, places, strict=True)]
            chosen = Array(values[(lane - by) % columns] for by in range(columns))[turn]
            m.d.sync += [
                port.en.eq(Cat(mine).any()),
                port.addr.eq(reduce(or_, where)),
                port.data.eq(Mux(copy, value, chosen)),
            ]
