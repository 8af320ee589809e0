"""Localization: only the part of a model that a rule needs remains, and none if the rule breaks."""

import pytest

from fabtune.hw import yosys
from fabtune.sim.formal.localization import PART, WHOLE, localize
from fabtune.sim.formal.prover import prove_output

MODEL = """
module model(clk, in, broken);
  input clk, in;
  output broken;
  reg [2:0] count = 0;
  reg [499:0] line = 0;
  always @(posedge clk) begin
    count <= count == 4 ? 0 : count + (in | line[499]);
    line <= {{line[498:0], in ^ line[7]}};
  end
  assign broken = count == {never};
endmodule
"""


def model(folder, never):
    """A model whose output is 1 at a value of a counter to 4."""
    (folder / "model.v").write_text(MODEL.format(never=never))
    yosys.run(
        ["read_verilog model.v", "proc", "opt", "techmap", "opt", "dffunmap", "aigmap", f"write_aiger -zinit {WHOLE}"],
        folder,
    )


@pytest.mark.parametrize("value", [5, 7])
def test_a_rule_is_proved_of_the_few_registers_that_it_needs(tmp_path, value):
    model(tmp_path, value)
    assert localize(tmp_path, 20, 10)
    latches = int((tmp_path / PART).read_bytes().split(maxsplit=4)[3])
    assert latches < 10
    assert prove_output(tmp_path, 0, "rule", 10).status == "proved"


def test_there_is_no_part_where_the_rule_breaks(tmp_path):
    model(tmp_path, 3)
    assert not localize(tmp_path, 20, 10)
