"""Equivalence of a core and mutants: changes of an output, register, memory or product are not equivalent."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest

from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw import yosys
from fabtune.hw.top import Port, Wire
from fabtune.hw.verilog import emit
from fabtune.mutation.faults import PORT
from fabtune.mutation.step_equivalence import StepEquivalence

CASES = {
    "an output": "",
    "the same by another way": "1-step",
    "a register": "",
    "the value of a register that is held": "1-step",
    "where a word is written": "",
    "a write that never is": "1-step",
    "a write too many": "",
    "a factor": "",
    "a state that is never reached": "0 registers",
    "a payload that is not valid": "2-step",
    "a payload that is not valid two stages on": "3-step",
    "a payload": "",
    "a register that nothing reads": "1-step",
    "a state that is reached": "",
    "a column of a memory that is always 0": "1-step",
    "a column of a memory that can be 1": "",
    "the address of a word that is not used": "2-step",
    "the address of a word that is used": "",
    "a counter that goes another way to the same end": "registers",
    "a counter that goes to another end": "",
    "a bit that a delay line takes to where it is not read": "12 registers",
    "a bit that a delay line takes to where it is read": "",
    "a factor that meets 0": "1-step",
    "a payload of AXI that is not valid": "1-step",
    "a payload of AXI that is valid": "",
    "a payload of a stream that is not valid": "1-step",
    "a payload of a stream that is valid": "",
}
"""Expected proof of each mutant, or ""."""
PORTS = {"s": Port((Wire("s_data", ("data",)),), "s_valid", "s_ready")}
NUMBER = {name: at for at, name in enumerate(CASES, 1)}
DESIGN = f"""
module stage(clk, mutant, a, b, x, y, o, p, q, held, taken, count, shown, high, column, used, ended, late, none,
             m_axi_gmem0_arvalid, m_axi_gmem0_arready, m_axi_gmem0_araddr, s_valid, s_ready, s_data);
  input clk, a, b;
  input [4:0] mutant;
  input signed [3:0] x, y;
  output o;
  output signed [7:0] p;
  output [3:0] q;
  wire [31:0] is = 32'd1 << mutant;
  reg valid = 0, valids = 0;
  reg [3:0] payload = 0, payloads = 0;
  output [3:0] shown;
  output [1:0] high;
  output reg held = 0, taken = 0;
  output reg [1:0] count = 0;
  wire other = is[{NUMBER["the same by another way"]}] ? (a | b) & ~(a & b) : a ^ b;
  output reg [2:0] column = 0;
  output reg [3:0] used = 0;
  output ended, m_axi_gmem0_arvalid, m_axi_gmem0_araddr, s_valid, s_data;
  input m_axi_gmem0_arready, s_ready;
  reg [3:0] rows [0:7], even [0:7];
  reg [2:0] where = 0;
  reg wanted = 0;
  wire [3:0] word = even[y[2:0]];
  reg [2:0] left = 0;
  wire skips = is[{NUMBER["a counter that goes to another end"]}] && left == 6;
  wire turns = is[{NUMBER["a counter that goes another way to the same end"]}];
  assign ended = left == 7;
  reg [11:0] line = 0, lines = 0;
  output late;
  assign late = count == 3 ? line[11] : lines[11];
  output signed [7:0] none;
  wire signed [3:0] any = is[{NUMBER["a factor that meets 0"]}] && !a ? -y : y;
  assign none = (a ? x : 4'sd0) * any;
  assign m_axi_gmem0_arvalid = a;
  assign m_axi_gmem0_araddr = b ^ (is[{NUMBER["a payload of AXI that is not valid"]}] && !a)
    ^ (is[{NUMBER["a payload of AXI that is valid"]}] && a);
  assign s_valid = a;
  assign s_data = b ^ (is[{NUMBER["a payload of a stream that is not valid"]}] && !a)
    ^ (is[{NUMBER["a payload of a stream that is valid"]}] && a);
  wire unused = is[{NUMBER["the address of a word that is not used"]}] && !a;
  assign o = is[{NUMBER["an output"]}] ? a | b : other;
  wire signed [3:0] factor = is[{NUMBER["a factor"]}] ? {{x[3:1], 1'b0}} : x;
  assign p = factor * y;
  assign q = rows[x[2:0]];
  assign shown = valids ? payloads : 0;
  wire early = is[{NUMBER["a payload that is not valid two stages on"]}] && !a;
  reg [3:0] steps = 0;
  assign high = steps[3:2];
  always @(posedge clk) begin
    steps[3:2] <= steps[3:2] + 1;
    steps[1:0] <= is[{NUMBER["a register that nothing reads"]}] ? steps[1:0] + 1 : steps[1:0] + a;
    valid <= a;
    payload <= early || is[{NUMBER["a payload"]}] && b ? y : x;
    valids <= valid;
    payloads <= is[{NUMBER["a payload that is not valid"]}] && !valid ? y : payload;
    taken <= is[{NUMBER["a register"]}] ? a : a & taken;
    if (a | b) held <= is[{NUMBER["the value of a register that is held"]}] ? (a ? b : 1'b1) : b;
    count <= count == 2 ? 0 : count + (count == 3 && is[{NUMBER["a state that is never reached"]}] ? 0 : 1);
    if (count == 1 && is[{NUMBER["a state that is reached"]}]) count <= 0;
    if (b) even[x[2:0]] <= {{y[3:1], 1'b0}};
    where <= unused || is[{NUMBER["the address of a word that is used"]}] && a ? y[2:0] : x[2:0];
    wanted <= a;
    if (wanted) used <= rows[where];
    column <= word[3:1] ^ (is[{NUMBER["a column of a memory that is always 0"]}] ? word[0] : 0)
      ^ (is[{NUMBER["a column of a memory that can be 1"]}] ? word[1] : 0);
    left <= turns && left == 1 ? 3 : turns && left == 3 ? 2 : turns && left == 2 ? 4 : left + (skips ? 2 : 1);
    line <= {{line[10:0], is[{NUMBER["a bit that a delay line takes to where it is not read"]}]}};
    lines <= {{lines[10:0], is[{NUMBER["a bit that a delay line takes to where it is read"]}]}};
    if (a) rows[is[{NUMBER["where a word is written"]}] ? y[2:0] : x[2:0]] <= y;
    else if (is[{NUMBER["a write that never is"]}] && b && !b) rows[0] <= x;
    if (is[{NUMBER["a write too many"]}] && !a && b) rows[0] <= x;
  end
endmodule
"""


def design(text, ports):
    """Verilog design with faults."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "stage.v").write_text(text)
        yosys.run(["read_verilog stage.v", "hierarchy -top stage", "proc", "opt", "write_rtlil stage.il"], Path(name))
        rtlil = Path(name, "stage.il").read_text()
    return dataclasses.replace(emit(PerturbSpec()), top="stage", verilog=text, rtlil=rtlil, ports=ports)


@pytest.fixture(scope="module")
def stage():
    assert PORT == "mutant"
    return StepEquivalence(design(DESIGN, PORTS))


@pytest.mark.parametrize("name", CASES)
def test_only_a_mutant_that_no_run_can_show_is_equivalent(stage, name):
    found = stage.equivalent(NUMBER[name])
    assert CASES[name] in found if CASES[name] else not found


def test_functions_are_equivalent_where_their_tables_are_equal():
    """Five inputs, one the inverse of another: half of a table is unreachable."""
    rng = np.random.default_rng(0)
    first = int(rng.integers(1 << 32))
    places = [place for place in range(32) if (place & 1) == (place >> 1 & 1)]
    unseen = sum(1 << place for place in places)
    tables = [first ^ int(rng.integers(1 << 32)) & unseen for _ in range(4)]
    tables += [table ^ 1 << int(rng.choice([one for one in range(32) if one not in places])) for table in tables]
    chosen = " : ".join(f"mutant == {at} ? 32'd{one}" for at, one in enumerate(tables, 1))
    text = f"""
module stage(clk, mutant, in, o);
  input clk;
  input [3:0] mutant, in;
  output o;
  wire [31:0] values = {chosen} : 32'd{first};
  assign o = values[{{in[3:1], in[0], !in[0]}}];
endmodule
"""
    compared = StepEquivalence(design(text, {}))
    assert [compared.equivalent(number) for number in range(1, 9)] == ["1-step induction"] * 4 + [""] * 4
