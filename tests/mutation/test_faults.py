"""Faults: the list is deterministic, and each fault changes its bit."""

import dataclasses
import re

import pytest

from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.golden.errors import UserError
from fabtune.golden.nn.celoss import CelossSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw import yosys
from fabtune.mutation.equivalence import equivalence
from fabtune.mutation.faults import PORT, list_faults, mutant, mutants, netlist, prepared

SPEC = PerturbSpec()


@pytest.fixture(scope="module")
def made():
    return netlist(SPEC)


def test_the_list_depends_on_the_seed_alone(made):
    faults = list_faults(made, 30, 7)
    assert faults == list_faults(netlist(SPEC), 30, 7)
    assert len(set(faults)) == 30
    assert set(faults) != set(list_faults(made, 30, 8))


def test_no_fault_is_at_a_clock_and_all_can_be_listed(made):
    faults = list_faults(made, 100_000, 0)
    assert 200 < len(faults) == len(set(faults)) < 100_000
    assert {fault.port for fault in faults} >= {"A", "B", "Y", "D", "Q", "EN"}
    assert "CLK" not in {fault.port for fault in faults}


def test_a_fault_says_where_it_is(made):
    faults = list_faults(made, 100_000, 0)
    found = next(one for one in faults if one.wire == "o_valid[0]" and one.port == "Q" and one.mode == "const0")
    assert str(found).startswith("Q[0] of $sdff")
    assert "(o_valid[0]) stuck at 0 at hw/zo/perturb.py:" in str(found)
    other = next(one for one in faults if one.mode == "cnot1")
    assert f"inverted where bit {other.control} is 1" in str(other)


def test_a_mutant_has_the_ports_of_the_block_and_another_netlist(made):
    fault = list_faults(made, 1, 0)[0]
    original, changed = mutant(made, None), mutant(made, fault)
    assert original.ports == changed.ports == made.emitted.ports
    assert original.verilog != changed.verilog
    assert mutant(made, fault) == changed


@pytest.mark.parametrize("spec", [SPEC, UrngSpec(n=3, bits=4)], ids=["perturb", "urng"])
def test_the_netlist_is_equivalent_to_the_emitted_verilog(spec, tmp_path):
    made = netlist(spec)
    (tmp_path / "emitted.v").write_text(made.emitted.verilog)
    yosys.run(["read_verilog emitted.v", "hierarchy -auto-top", "proc", "opt", "write_rtlil emitted.il"], tmp_path)
    emitted = dataclasses.replace(made.emitted, rtlil=(tmp_path / "emitted.il").read_text())
    assert equivalence(emitted, mutant(made, None), 60).status == "equivalent"


def tied(design, number):
    """Tie the fault selector to a number."""
    declared = re.compile(rf"^  wire (width (\d+) )?input \d+ \\{PORT}$", re.MULTILINE)
    found = declared.search(design.rtlil)
    width = int(found[2] or 1)
    text = declared.sub(rf"  wire width {width} \\{PORT}", design.rtlil)
    head, end, tail = text.rpartition("\nend\n")
    connected = f"{head}\n  connect \\{PORT} {width}'{number:0{width}b}{end}{tail}"
    return dataclasses.replace(design, rtlil=connected)


@pytest.mark.parametrize(
    ("spec", "checked"),
    [
        pytest.param(SPEC, 3, marks=pytest.mark.slow),
        pytest.param(SPEC, 60, marks=pytest.mark.slow),
        *(pytest.param(one, 12, marks=pytest.mark.slow) for one in (AxiReadSpec(), CelossSpec(), UrngSpec())),
    ],
    ids=["perturb", "more of perturb", "axi_read", "celoss", "urng"],
)
def test_one_of_many_faults_is_what_it_is_alone(spec, checked):
    made = netlist(spec)
    faults = list_faults(made, 300, 0)
    together = mutants(made, faults)
    for number in range(0, len(faults) + 1, max(len(faults) // checked, 1)):
        alone = mutant(made, faults[number - 1] if number else None)
        assert equivalence(alone, tied(together, number), 60).status == "equivalent", faults[number - 1]


def test_a_sample_can_be_confined_to_a_component(made):
    found = list_faults(netlist(AxiReadSpec()), 50, 0, "hw/primitives/fifo.py")
    assert len(found) == 50
    assert all("hw/primitives/fifo.py" in fault.files for fault in found)
    with pytest.raises(UserError, match=r"no cell of perturb comes from 'hw/primitives/fifo\.py': choose from hw/"):
        list_faults(made, 10, 0, "hw/primitives/fifo.py")


ALIAS = """module \\top
  wire input 1 \\clk
  wire width 2 input 2 \\i
  wire width 2 output 3 \\o
  attribute \\init 2'00
  wire width 2 \\held
  attribute \\init 2'00
  wire width 2 \\other
  cell $dff $register
    parameter \\WIDTH 2
    parameter \\CLK_POLARITY 1'1
    connect \\CLK \\clk
    connect \\D { 1'0 \\i [0] }
    connect \\Q \\held
  end
  connect \\other \\held
  connect \\o \\other
end
"""


def test_a_register_with_two_names_and_a_constant_bit_has_a_netlist():
    assert "cell $dff" in prepared(ALIAS, "top")
