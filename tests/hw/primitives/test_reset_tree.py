# amaranth: UnusedElaboratable=no
"""The reset tree: registers and timing of each leaf, and synthesis keeps the leaves separate."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.hw.primitives.reset_tree import LOADS, ResetTree

from ..simulation import simulate


class Registers(wiring.Component):
    """Counting registers of the given widths, and submodules with some; `free` has no reset."""

    def __init__(self, widths, parts=()):
        self.parts = parts
        self.own = [Signal(width, init=min(3, (1 << width) - 1)) for width in widths]
        self.free = Signal(8, reset_less=True)
        super().__init__({"o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules += self.parts
        m.d.sync += [each.eq(each + 1) for each in (*self.own, self.free)]
        # a register driven in halves
        self.halves = Signal(4, init=9)
        m.d.sync += self.halves[:2].eq(self.halves[:2] + 1)
        m.d.sync += self.halves[2:].eq(self.halves[2:] + 1)
        m.d.comb += self.o.eq(Cat(self.free, self.halves, *self.own, *(each.o for each in self.parts)).xor())
        return m

    @property
    def all(self):
        """All registers inside that have a reset."""
        return [*self.own, *(each for part in self.parts for each in part.all)]


def part():
    """A submodule with a large module, a deep module, small neighbours, and a register wider than a leaf's limit."""
    small = [Registers([5]) for _ in range(4)]
    deep = Registers([2], [Registers([30], [Registers([7, 7])])])
    return Registers([40, 9], [*small, deep, Registers([90])])


@pytest.mark.parametrize("loads", [16, 50, LOADS])
def test_every_register_is_reset_once_and_no_leaf_has_more_loads(loads):
    whole = part()
    tree = ResetTree(whole, root := Signal(), loads)

    async def body(ctx):
        for cycles in (1, 3):
            await ctx.tick().repeat(20)
            before = [ctx.get(each) for each in whole.all]
            free = ctx.get(whole.free)
            assert before != [each.init for each in whole.all]
            ctx.set(root, 1)
            for cycle in range(cycles + 2):
                await ctx.tick()
                ctx.set(root, cycle + 1 < cycles)
                # from the second cycle, and as long as the root
                at_rest = [ctx.get(each) for each in whole.all] == [each.init for each in whole.all]
                assert at_rest == (1 <= cycle <= cycles)
                assert ctx.get(whole.halves) == 9 or not at_rest
                assert ctx.get(tree.active) == (cycle < cycles)
            assert ctx.get(whole.free) == (free + cycles + 2) % 256

    simulate(tree, body)
    registers = sum(len(each) for each in whole.all) + 4 * 9
    assert sum(tree.loads) == registers
    assert max(tree.loads) <= loads
    assert len(tree.loads) <= 2 * -(-registers // loads)


@pytest.mark.parametrize("loads", [16, LOADS])
def test_synthesis_keeps_the_leaves_apart(loads):
    whole = part()
    tree = ResetTree(whole, root := Signal(name="root"), loads)
    m = Module()
    m.domains.sync = clocked = ClockDomain("sync", local=True, reset_less=True)
    clock, o = Signal(name="clock"), Signal(name="o")
    m.submodules.tree = tree
    m.d.comb += [clocked.clk.eq(clock), o.eq(whole.o)]
    found = estimate_rtlil(rtlil.convert(m, name="top", ports=[clock, root, o], emit_src=False), "top")
    assert (len(tree.loads) > 10) == (loads == 16)
    assert found.resources["ff"] == sum(tree.loads) + len(tree.loads) + 8 * 9
