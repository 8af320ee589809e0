"""Equivalence: differences invisible to neighbours are ignored, visible differences are found within some cycles."""

import dataclasses
import tempfile
from pathlib import Path

import pytest

from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw import yosys
from fabtune.hw.top import Port, Wire
from fabtune.hw.verilog import emit
from fabtune.mutation import equivalence as module
from fabtune.mutation.equivalence import equivalence

STAGE = """
module stage(clk, rst, i_valid, i_ready, i_data, o_valid, o_ready, o_data);
  input clk, rst, i_valid, o_ready;
  output i_ready, o_valid;
  input [3:0] i_data;
  output [3:0] o_data;
  reg full = 0, waited = 0;
  reg [3:0] data = 0;
  reg [3:0] last = 0;
  assign i_ready = !full || o_ready;
  assign o_valid = full;
  assign o_data = GIVEN;
  always @(posedge clk) begin
    waited <= i_valid && !i_ready && !rst;
    last <= i_data;
    if (i_ready) begin full <= i_valid; data <= TAKEN; end
    if (rst) full <= 0;
  end
endmodule
"""
PORTS = {
    "i": Port((Wire("i_data", ("data",)),), "i_valid", "i_ready"),
    "o": Port((Wire("o_data", ("data",)),), "o_valid", "o_ready"),
}
STORE = """
module stage(clk, rst, i_valid, i_ready, i_data, o_valid, o_ready, o_data);
  input clk, rst, i_valid, o_ready;
  output i_ready, o_valid;
  input [3:0] i_data;
  output [3:0] o_data;
  reg [3:0] store [0:15];
  integer i;
  initial for (i = 0; i < 16; i = i + 1) store[i] = i;
  reg [3:0] at = 0;
  assign i_ready = 1;
  assign o_valid = 1;
  assign o_data = store[at];
  always @(posedge clk) begin
    at <= at + 1;
    if (i_valid) store[WHERE] <= i_data;
  end
endmodule
"""


def design(text, **parts):
    """Verilog design with parts filled in."""
    for name, part in parts.items():
        text = text.replace(name, part)
    with tempfile.TemporaryDirectory() as name:
        Path(name, "stage.v").write_text(text)
        yosys.run(["read_verilog stage.v", "hierarchy -top stage", "proc", "opt", "write_rtlil stage.il"], Path(name))
        rtlil = Path(name, "stage.il").read_text()
    return dataclasses.replace(emit(PerturbSpec()), top="stage", verilog=text, rtlil=rtlil, ports=PORTS)


@pytest.mark.parametrize(
    ("given", "taken", "status"),
    [
        ("data", "i_data", "equivalent"),
        # a payload that is not offered
        ("full ? data : 4'd5", "i_data", "equivalent"),
        # a waiting word is unchanged
        ("data", "waited ? last : i_data", "equivalent"),
        ("data", "waited ? ~last : i_data", "different"),
        ("data", "i_data == 9 ? 4'd1 : i_data", "different"),
        ("data ^ {3'd0, waited}", "i_data", "different"),
    ],
)
def test_a_difference_is_one_that_a_neighbour_sees(given, taken, status):
    found = equivalence(design(STAGE, GIVEN="data", TAKEN="i_data"), design(STAGE, GIVEN=given, TAKEN=taken), 30)
    assert found.status == status
    assert (found.cycles > 0) == (status == "different")


@pytest.mark.parametrize(
    ("where", "mapped", "cut"),
    [
        ("at + 4'd2", "equivalent", "equivalent"),
        pytest.param("i_valid ? at + 4'd2 : 4'd0", "equivalent", "equivalent", marks=pytest.mark.slow),
        ("at + 4'd3", "different", "open"),
        pytest.param("at ^ 4'd2", "different", "open", marks=pytest.mark.slow),
    ],
)
def test_memories_are_mapped_or_left_open_alike(where, mapped, cut, monkeypatch):
    original, changed = design(STORE, WHERE="at + 4'd2"), design(STORE, WHERE=where)
    assert equivalence(original, changed, 30).status == mapped
    monkeypatch.setattr(module, "MAPPED_BITS", 0)
    assert equivalence(original, changed, 30).status == cut
