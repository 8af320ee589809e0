"""Activation memory: unaligned reads of `lanes` adjacent values; writes of adjacent values or of replicas by row."""

import itertools

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from ....golden.nn.array import latency
from ....golden.nn.array.mapping import Mapping
from ....golden.nn.array.memories import activation_memory
from ...primitives.ram import ram
from ...primitives.registers import data_register, replicas
from ..interfaces import ACTIVATION, ActivationWrite, activation_address


class ActivationBanks(wiring.Component):
    """A bank a lane; a word a cycle from any address, rotated to its lanes.

    Parameters
    ----------
    mapping : Mapping
        Lanes, columns, row replicas, number of values.
    copies : int
        Replicated registers of `odd`.

    Attributes
    ----------
    address : In, `activation_address`
        First address of the word.
    word : Out, array of lanes Q8.16
        The word, `LATENCY` cycles later, before its last rotation: with `odd`, lane i is at i + 1.
    odd : Out, a bit for each of `copies`
        The reader has to rotate the word by one lane; equal registers.
    write : In, `ActivationWrite`
        A write a cycle, visible to reads `golden.nn.array.latency.ACTIVATION_WRITE` cycles later.
    """

    LATENCY = latency.ACTIVATION_READ

    def __init__(self, mapping: Mapping, copies: int = 1) -> None:
        self.mapping, self.copies = mapping, copies
        super().__init__(
            {
                "address": In(activation_address(mapping)),
                "word": Out(data.ArrayLayout(ACTIVATION, mapping.lanes)),
                "odd": Out(copies),
                "write": In(ActivationWrite(mapping)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.mapping.lanes
        low = exact_log2(lanes)
        banks = [ram(platform, activation_memory(self.mapping), ACTIVATION) for _ in range(lanes)]
        for number, bank in enumerate(banks):
            m.submodules[f"bank{number}"] = bank
        self._read(m, banks, low)
        self._write(m, banks, low)
        return m

    def _read(self, m: Module, banks: list[memory.Memory], low: int) -> None:
        lanes = len(banks)
        row = self.address[low:]
        this_row, following_row = Signal.like(row, reset_less=True), Signal.like(row, reset_less=True)
        wrapped = Signal(lanes, reset_less=True)
        turn = [Signal(low, name=f"turn{stage}", reset_less=True) for stage in range(self.LATENCY)]
        m.d.sync += [
            this_row.eq(row),
            following_row.eq(row + 1),
            wrapped.eq(Cat(self.address[:low] > lane for lane in range(lanes - 1))),  # nothing is above the last
            turn[0].eq(self.address[:low]),
            *(after.eq(before) for before, after in itertools.pairwise(turn)),
        ]
        words = []
        for lane, bank in enumerate(banks):
            port = bank.read_port()
            m.d.comb += port.addr.eq(Mux(wrapped[lane], following_row, this_row))
            words.append(port.data)
        # lane i takes bank (i + turn) mod lanes: high bits of the turn in two registers, the lowest by the reader
        done, high = words, low
        for step, width in enumerate((-(-(low - 1) // 2), (low - 1) // 2)):
            unit = 1 << (high - width)
            select = turn[1 + step][high - width : high]
            turned = [Signal(ACTIVATION, name=f"turned{step}_{lane}", reset_less=True) for lane in range(lanes)]
            for lane, into in enumerate(turned):
                m.d.sync += into.eq(Array(done[(lane + unit * by) % lanes] for by in range(1 << width))[select])
            done, high = turned, high - width
        odd: Value = turn[-1][0]
        if self.copies > 1:
            registers = replicas(self.copies, "odd_copy")
            m.d.sync += [each.eq(turn[-2][0]) for each in registers]
            odd = Cat(registers)
        m.d.comb += [self.odd.eq(odd), *(self.word[lane].eq(value) for lane, value in enumerate(done))]

    def _write(self, m: Module, banks: list[memory.Memory], low: int) -> None:
        """Two registers: write and first bank of the run; then element and row of each bank."""
        lanes, columns, request = len(banks), self.mapping.columns, self.write
        elements = len(request.write)
        first, row = request.address[:low], Signal(len(request.address) - low, name="row", reset_less=True)
        begins, wrapped = Signal(lanes, reset_less=True), Signal(lanes, reset_less=True)
        turn, values = Signal(ceil_log2(elements), reset_less=True), Signal.like(request.values, reset_less=True)
        replicate, value = Signal(reset_less=True), Signal(ACTIVATION, reset_less=True)
        write = Signal.like(request.write)
        m.d.sync += [
            begins.eq(Cat(first == lane for lane in range(lanes))),
            wrapped.eq(Cat(first > lane for lane in range(lanes - 1))),
            turn.eq(first),
            row.eq(request.address[low:]),
            values.eq(request.values),
            write.eq(request.write),
            replicate.eq(request.replicate),
            value.eq(request.value),
        ]
        rows = self._rows(m, row, turn, replicate)
        for lane, bank in enumerate(banks):
            port = bank.write_port()
            stored = [begins[(lane - element) % lanes] & write[element] for element in range(elements)]
            this_row, following_row = rows[lane % len(rows)]
            chosen = Array(values[(lane - by) % columns] for by in range(columns))[turn[: exact_log2(columns)]]
            m.d.sync += [
                port.en.eq(Cat(stored).any()),
                data_register(m, port.addr, f"address{lane}").eq(Mux(wrapped[lane], following_row, this_row)),
                data_register(m, port.data, f"written{lane}").eq(Mux(replicate, value, chosen)),
            ]

    def _rows(self, m: Module, row: Signal, turn: Signal, replicate: Signal) -> list[list[Signal]]:
        """Row of a write, and the following row, for each of `period` banks.

        A bank's element depends on `turn`, the begin of the run, and repeats every `period` banks. It is the distance
        of a replica's row.
        """
        mapping = self.mapping
        replicates = mapping.row_replicas > 1
        apart, period = mapping.layout(-1).pitch // mapping.lanes, 1 << len(turn) if replicates else 1
        rows = [[Signal.like(row, name=f"row{bank}_{carry}") for carry in range(2)] for bank in range(period)]
        for bank, pair in enumerate(rows):
            back = [(bank - begin) % period * apart for begin in range(period)]
            for carry, into in enumerate(pair):
                distance = Array(Const(carry - rows_back) for rows_back in back)[turn]
                m.d.comb += into.eq(row + (Mux(replicate, distance, carry) if replicates else carry))
        return rows
