"""Names in the emitted text: signals without a name in Amaranth, equal names, registers and ports."""

import itertools
import re

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from fabtune.hw.naming import convert
from fabtune.hw.source_names import names_from_source


class Inner(wiring.Component):
    """Registers that Amaranth would not name, and a register that leaves through a port of another name."""

    def __init__(self):
        super().__init__({"i": In(8), "o": Out(8), "sum": Out(9)})

    def elaborate(self, platform):
        m = Module()
        first, second = Signal(8), Signal(8)
        delays = [Signal(8) for _ in range(3)]
        parts = {"low": Signal(4), "high": Signal(4)}
        m.d.sync += [first.eq(self.i), second.eq(first), delays[0].eq(second)]
        m.d.sync += [later.eq(before) for before, later in itertools.pairwise(delays)]
        m.d.sync += Cat(*parts.values()).eq(delays[2])
        m.d.comb += [self.o.eq(second), self.sum.eq(Cat(*parts.values()) + delays[0])]
        return m


class Outer(wiring.Component):
    """Two `Inner`, one of which reads a part of the other's sum; and a memory."""

    def __init__(self):
        super().__init__({"i": In(8), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.one = one = Inner()
        m.submodules.other = other = Inner()
        m.submodules.words = words = memory.Memory(shape=8, depth=4, init=[])
        write, read = words.write_port(), words.read_port()
        m.d.comb += [one.i.eq(self.i), other.i.eq(one.sum[2:7]), write.addr.eq(self.i), write.data.eq(other.o)]
        m.d.comb += [write.en.eq(1), read.addr.eq(self.i), self.o.eq(read.data)]
        return m


@pytest.fixture(scope="module")
def modules():
    with names_from_source():
        text = convert(Outer(), "top", None)
    return dict(re.findall(r"^module \\(\S+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL))


def wires(module):
    return set(re.findall(r"^  wire .*?(\S+)$", module, re.MULTILINE))


def test_signals_have_the_names_of_what_they_are_assigned_to(modules):
    assert {"\\first", "\\second", "\\delays", "\\delays_1", "\\delays_2", "\\low", "\\high"} <= wires(
        modules["top.one"]
    )
    assert {"\\write__addr", "\\read__data"} <= wires(modules["top"])


def test_no_name_has_a_number_that_moves(modules):
    assert not [name for module in modules.values() for name in wires(module) if re.match(r"\\.*\$", name)]


def test_a_register_has_its_own_name_and_not_that_of_a_port(modules):
    assert re.search(r"connect \\o \\second ", modules["top.one"], re.MULTILINE)
    assert re.search(r"connect \\Q \\second$", modules["top.one"], re.MULTILINE)


def test_a_port_for_a_part_of_a_signal_is_called_by_that_signal(modules):
    inputs = re.findall(r"wire width (\d+) input \d+ +(\S+)$", modules["top.other"], re.MULTILINE)
    assert ("5", "\\sum_6_2") in inputs
    assert re.search(r"connect \\sum_6_2 \\sum \[6:2\]", modules["top"])


def test_names_are_found_only_as_long_as_asked():
    with names_from_source():
        left, right = Signal(), Signal()
        made = [Signal() for _ in range(2)]
    after, _ = Signal(), Signal()
    assert [one.name for one in (left, right, *made)] == ["left", "right", "made", "made"]
    assert after.name == "$signal"


def test_a_source_that_cannot_be_read_gives_no_names():
    made = {}
    with names_from_source():
        exec("from amaranth.hdl import Signal\na, b = Signal(), Signal()", made)
    assert made["a"].name == "$signal"
