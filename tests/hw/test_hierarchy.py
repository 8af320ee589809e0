"""Hierarchy and names of the emitted Verilog equal the source's for all settings."""

import re

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.hierarchy import instances_of, modules_of, registers_of
from fabtune.hw.identifiers import RESERVED
from fabtune.hw.verilog import emit

from ..small_cores import NETWORK, ONE_STAGE, words

SETTINGS = {
    "instantft": [f"network={NETWORK}", "lanes=16", "batch=4", "cache_entries=64", "monitor=true"],
    "zotrain": [f"network={NETWORK}", "lanes=16", "cut_rows=72", "monitor=true"],
}
OTHERS = {
    "instantft": ["network=1x4x4 flatten fc8 relu fc4", "lanes=16", "batch=8", "cache_entries=64"],
    "zotrain": words(ONE_STAGE),
}
SMALL = """
module top(clk, o);
  input clk;
  wire clk;
  output o;
  reg o;
  top_inner inner (
    .clk(clk)
  );
  top_inner_2 second (
    .clk(clk)
  );
endmodule

module top_inner(clk);
  input clk;
  reg [3:0] count ;
  reg [7:0] words [3:0];
  reg [7:0] words_read;
  always @(posedge clk)
    words_read <= words[count];
  top_inner_deep deep (
    .clk(clk)
  );
endmodule

module top_inner_2(clk);
endmodule

module top_inner_deep(clk);
  reg busy;
endmodule
"""


def text(name, settings=SETTINGS):
    return emit(build(BLOCKS[name], settings[name])).verilog


def plain_text(verilog):
    """Verilog without comments, strings, and simulation-only text."""
    verilog = re.sub(r"^`ifndef SYNTHESIS$.*?^`endif$", "", verilog, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r'//.*|"[^"]*"', "", verilog)


def test_modules_instances_and_registers_are_found_by_path():
    assert list(modules_of(SMALL)) == ["top", "top_inner", "top_inner_2", "top_inner_deep"]
    assert instances_of(SMALL) == {
        "": "top", "inner": "top_inner", "second": "top_inner_2", "inner.deep": "top_inner_deep"
    }  # fmt: skip
    assert registers_of(SMALL) == ["o", "inner.count", "inner.deep.busy"]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_hierarchy_is_that_of_the_source(name):
    instances = instances_of(text(name))
    assert list(instances)[:3] == ["", "shell", "trainer"]
    assert {"shell.registers", "trainer.engine", "trainer.memory", "trainer.memory.read0.splitter"} <= set(instances)
    assert {"instantft": "trainer.engine.backward.head.softmax", "zotrain": "trainer.slopes.loss.softmax"}[
        name
    ] in instances
    assert set(instances.values()) == set(modules_of(text(name)))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_module_is_called_by_its_path_behind_the_tops_name(name):
    verilog = emit(build(BLOCKS[name], SETTINGS[name]), "mine").verilog
    for path, kind in instances_of(verilog).items():
        assert kind == "_".join(["mine", *path.split(".")] if path else ["mine"])


@pytest.mark.parametrize("name", SETTINGS)
def test_all_names_are_plain_identifiers(name):
    plain = plain_text(text(name))
    assert "\\" not in plain
    assert set(re.findall(r"\$\w+", plain)) <= {"$signed"}
    declared = re.findall(r"^  (?:input|output|wire|reg) (?:signed )?(?:\[\d+:0\] )?(\S+)", plain, re.MULTILINE)
    assert not {one.rstrip(";") for one in declared} & RESERVED


@pytest.mark.parametrize("name", SETTINGS)
def test_no_register_or_port_has_a_number_for_a_name(name):
    """Numbers depend on settings; Yosys generates them, and Amaranth for signals without a name in the source."""
    plain = plain_text(text(name))
    named = re.findall(r"^  (?:input|output|reg) (?:\[\d+:0\] )?(\w+)", plain, re.MULTILINE)
    assert len(named) > 2000
    assert [one for one in named if one.startswith("_") or re.match("signal|like|signature|port_?[0-9]", one)] == []


@pytest.mark.parametrize("name", [pytest.param("instantft", marks=pytest.mark.slow), "zotrain"])
def test_names_stay_when_settings_change(name):
    """Registers of the shell and of all parts that exist in both settings have equal names."""
    first, second = ({*registers_of(text(name, settings))} for settings in (SETTINGS, OTHERS))
    for part in ("shell", "trainer.memory", "trainer.logits"):
        alike = [{one for one in each if one.startswith(f"{part}.")} for each in (first, second)]
        assert alike[0] == alike[1], part
    assert len(first & second) > 0.7 * len(second)


def test_registers_have_the_names_of_the_source():
    """Also registers that leave a component through a port of another name, or that share a line of assignments."""
    registers = set(registers_of(text("zotrain")))
    read = "trainer.memory.read0"
    assert {f"{read}.{name}" for name in ("stopped", "arrived", "beat", "free")} <= registers
    assert {"shell.busy", "shell.done", "shell.error", "shell.number"} <= registers
    assert {"trainer.scheduler.beat", "trainer.scheduler.steps_left"} <= registers
    # a Verilog keyword gets an underscore
    assert {"trainer.engine.sequencer.first", "trainer.engine.sequencer.final_"} <= registers
    assert {"trainer.updates.fsm_state", "trainer.engine.sequencer.counter5"} <= registers


def test_memories_have_the_names_of_the_source():
    modules = modules_of(text("zotrain"))
    assert re.search(
        r"^  reg \[\d+:0\] bank15 \[\d+:0\];$", modules["zotrain_trainer_engine_activations"], re.MULTILINE
    )
    assert re.search(r"^  reg \[\d+:0\] rows \[\d+:0\];$", modules["zotrain_trainer_engine_cut_memory"], re.MULTILINE)
    assert "bank15_read <= bank15[" in modules["zotrain_trainer_engine_activations"]


def test_ports_of_inner_modules_are_read():
    """Ports without a reader, inside and outside, are removed: tools would warn of each."""
    modules = modules_of(text("zotrain"))
    for name, module in list(modules.items())[1:]:
        for port in re.findall(r"^  input (?:\[\d+:0\] )?(\w+);", module, re.MULTILINE):
            assert len(re.findall(rf"\b{port}\b", module)) > 3, (name, port)
