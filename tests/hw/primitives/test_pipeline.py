# amaranth: UnusedElaboratable=no
"""Pipeline and delay line: latency and number of registers follow the stages, and values may wait."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data

from fabtune.hw.primitives.pipeline import Pipeline, delayed

from ..simulation import simulate

STAGES = {"issue": 0, "operands": 1, "product": 0, "sum": 3}


def wires(m, *ports):
    """Names of all signals of a converted module."""
    lines = (line.split() for line in rtlil.convert(m, ports=ports).splitlines())
    return {words[-1].lstrip("\\") for words in lines if words and words[0] == "wire"}


@pytest.mark.parametrize("cycles", [0, 1, 4])
def test_values_come_later(cycles):
    m, value, result, reset = Module(), Signal(8), Signal(8), Signal()
    inner = Module()
    m.submodules.inner = ResetInserter(reset)(inner)
    inner.d.comb += result.eq(delayed(inner, value, cycles))
    clock = Signal()
    m.d.sync += clock.eq(~clock)

    async def bench(ctx):
        for cycle in range(12):
            ctx.set(value, cycle + 1)
            assert ctx.get(result) == max(cycle + 1 - cycles, 0)
            await ctx.tick()
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(value, 99)
        for _ in range(cycles):
            assert ctx.get(result) == 0
            await ctx.tick()
        assert ctx.get(result) == 99

    simulate(m, bench)


def test_a_view_comes_back_as_one():
    m, layout = Module(), data.StructLayout({"a": 3, "b": 5})
    assert delayed(m, Signal(layout), 2).shape() == layout
    assert len(delayed(m, Signal(5), 2)) == 5


def test_latency_is_that_of_the_stages_between():
    pipeline = Pipeline(Module(), STAGES)
    assert [pipeline.latency("issue", stage) for stage in STAGES] == [0, 1, 1, 4]
    assert pipeline.latency("product", "sum") == 3


def test_stages_out_of_order_are_refused():
    m = Module()
    with pytest.raises(ValueError, match="stage sum is -1 cycles behind the one before: give 0 or more"):
        Pipeline(m, {"issue": 0, "sum": -1})
    pipeline = Pipeline(m, STAGES)
    with pytest.raises(ValueError, match="stage issue is 4 cycles before stage sum: give one behind it"):
        pipeline.place("sum", Signal(), "late").at("issue")
    with pytest.raises(KeyError, match="quotient"):
        pipeline.latency("issue", "quotient")


@pytest.mark.parametrize("stalls", [False, True])
def test_values_travel_with_the_stages_and_wait_with_them(stalls):
    m, value, enable = Module(), Signal(8), Signal(init=1)
    pipeline = Pipeline(m, STAGES, enable) if stalls else Pipeline(m, STAGES)
    whole = pipeline.place("operands", value, "whole")
    flag = pipeline.place_flag("operands", value[0], Signal(3))
    clock = Signal()
    m.d.sync += clock.eq(~clock)
    taken = [0, 0, 0, 0]

    async def bench(ctx):
        for cycle in range(30):
            moves = not stalls or cycle % 3 != 1
            ctx.set(value, cycle + 1)
            ctx.set(enable, moves)
            taken[0] = cycle + 1
            for stage in ("operands", "product", "sum"):
                expected = taken[pipeline.latency("operands", stage)]
                assert ctx.get(whole.at(stage)) == expected
                assert ctx.get(flag.at(stage)) == expected % 2
            await ctx.tick()
            if moves:
                taken[1:] = taken[:-1]

    for stage in STAGES:
        if stage != "issue":
            whole.at(stage)
    simulate(m, bench)


def test_registers_are_made_once_and_only_as_far_as_they_are_read():
    m, value, result = Module(), Signal(8), Signal(8)
    pipeline = Pipeline(m, {**STAGES, "rounded": 3})
    placed = pipeline.place("issue", value, "number")
    m.d.comb += result.eq(placed.at("operands") + placed.at("sum") + placed.at("product"))
    pipeline.place("issue", value, "unread")
    assert {name for name in wires(m, value, result) if "_" in name} == {f"number_{copy}" for copy in range(4)}
    assert placed.at("sum") is placed.at("sum")
    assert placed.at("issue") is value


@pytest.mark.parametrize("reset_less", [False, True])
def test_registers_keep_their_contents_in_a_reset_if_told_so(reset_less):
    pipeline = Pipeline(Module(), STAGES)
    assert pipeline.place("issue", Signal(3), "data", reset_less).at("sum").reset_less == reset_less


def test_a_placed_view_is_read_as_one():
    layout = data.StructLayout({"a": 3, "b": 5})
    assert Pipeline(Module(), STAGES).place("issue", Signal(layout), "fields").at("sum").shape() == layout


def test_a_flag_travels_in_one_signal():
    m, flag, result, register = Module(), Signal(), Signal(), Signal(3, name="valid")
    placed = Pipeline(m, STAGES).place_flag("operands", flag, register)
    m.d.comb += result.eq(placed.at("sum"))
    assert wires(m, flag, result) >= {"valid"}
    assert not {name for name in wires(m, flag, result) if name.startswith("valid_")}
    assert placed.at("operands") is flag
