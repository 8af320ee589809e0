"""Equivalence in one step: what changes an output, a register, a memory or a product is not equivalent."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest

from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw import yosys
from fabtune.hw.verilog import emit
from fabtune.sim.mutation.faults import PORT
from fabtune.sim.mutation.step_equivalence import StepEquivalence

CASES = {
    "an output": 0,
    "the same by another way": 1,
    "a register": 0,
    "the value of a register that is held": 1,
    "where a word is written": 0,
    "a write that never is": 1,
    "a write too many": 0,
    "a factor": 0,
    "a state that is never reached": 0,
    "a payload that is not valid": 2,
    "a payload that is not valid two stages on": 3,
    "a payload": 0,
    "a register that nothing reads": 1,
}
"""Steps within which each mutant is equivalent."""
NUMBER = {name: at for at, name in enumerate(CASES, 1)}
DESIGN = f"""
module stage(clk, mutant, a, b, x, y, o, p, q, held, taken, count, shown, high);
  input clk, a, b;
  input [3:0] mutant;
  input signed [3:0] x, y;
  output o;
  output signed [7:0] p;
  output [3:0] q;
  wire [15:0] is = 16'd1 << mutant;
  reg valid = 0, valids = 0;
  reg [3:0] payload = 0, payloads = 0;
  output [3:0] shown;
  output [1:0] high;
  output reg held = 0, taken = 0;
  output reg [1:0] count = 0;
  reg [3:0] rows [0:7];
  wire other = is[{NUMBER["the same by another way"]}] ? (a | b) & ~(a & b) : a ^ b;
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
    if (a) rows[is[{NUMBER["where a word is written"]}] ? y[2:0] : x[2:0]] <= y;
    else if (is[{NUMBER["a write that never is"]}] && b && !b) rows[0] <= x;
    if (is[{NUMBER["a write too many"]}] && !a && b) rows[0] <= x;
  end
endmodule
"""


def design(text):
    """Make a design with faults of Verilog."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "stage.v").write_text(text)
        yosys.run(["read_verilog stage.v", "hierarchy -top stage", "proc", "opt", "write_rtlil stage.il"], Path(name))
        rtlil = Path(name, "stage.il").read_text()
    return dataclasses.replace(emit(PerturbSpec()), top="stage", verilog=text, rtlil=rtlil)


@pytest.fixture(scope="module")
def stage():
    assert PORT == "mutant"
    return StepEquivalence(design(DESIGN))


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_equivalent_where_no_step_differs(stage, name):
    assert stage.equivalent(NUMBER[name]) == CASES[name]


def test_functions_are_equivalent_where_their_tables_are_equal():
    """Of five inputs, of which one is another's inverse, so that half of a table's places are never seen."""
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
    compared = StepEquivalence(design(text))
    assert [compared.equivalent(number) for number in range(1, 9)] == [1] * 4 + [0] * 4
