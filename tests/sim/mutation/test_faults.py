"""Faults: the list is the same every time, and each fault changes what it says."""

import dataclasses

import pytest

from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw import yosys
from fabtune.sim.mutation.equivalence import equivalence
from fabtune.sim.mutation.faults import list_faults, mutant, netlist

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
