"""Passes for a text with a hierarchy: used ports, plain names, and no wire that copies its bits."""

import pytest

from fabtune.hw import yosys
from fabtune.hw.hierarchy_passes import PLAIN_NAMES, SPLIT_COPIES, UNUSED_BITS, UNUSED_PORTS
from fabtune.hw.identifiers import RESERVED

TWO_LEVELS = """
module top(input [7:0] a, input [3:0] \\b.c , output [3:0] y);
  wire [3:0] spare;
  inner \\one.two (.a(a), .left(\\b.c ), .y(y), .other(spare));
endmodule
module inner(input [7:0] a, input [3:0] left, output [3:0] y, output [3:0] other);
  wire [3:0] \\begin , \\_hidden , \\part[3:0] ;
  assign \\begin = a[3:0];
  assign \\_hidden = ~\\begin ;
  assign \\part[3:0] = \\_hidden + 4'd1;
  assign y = \\part[3:0] ^ \\_hidden ;
  assign other = left;
endmodule
"""


def after(passes, text, folder):
    """Verilog after passes."""
    (folder / "in.v").write_text(text)
    yosys.run(["read_verilog in.v", "hierarchy -top top", "proc", *passes, "write_verilog -noattr out.v"], folder)
    return (folder / "out.v").read_text()


def test_ports_that_nothing_reads_are_taken_away_with_what_was_there_for_them(tmp_path):
    text = after([UNUSED_PORTS], TWO_LEVELS, tmp_path)
    inner = text[text.index("module inner") :]
    assert "module inner(a, y)" in inner
    assert "left" not in inner
    assert ".other" not in text
    assert "spare" not in text
    # ports of the top module stay
    assert "module top(a, \\b.c , y)" in text


def test_a_reset_that_is_kept_goes_with_the_registers_that_nothing_reads(tmp_path):
    """As for a monitor without pins; a leaf with other registers stays."""
    text = """
module top(input clk, input start, output reg y);
  (* keep = "true" *) reg leaf;
  always @(posedge clk) leaf <= start;
  always @(posedge clk) if (leaf) y <= 1'd0; else y <= ~y;
  shown shown(.clk(clk), .leaf(leaf), .y(y), .beat());
endmodule
module shown(input clk, (* keep = "true" *) input leaf, input y, output reg beat);
  always @(posedge clk) if (leaf) beat <= 1'd0; else beat <= y;
endmodule
"""
    found = after(["opt_clean -purge", UNUSED_PORTS, "hierarchy -top top"], text, tmp_path)
    assert "shown" not in found
    assert "reg leaf;" in found


def test_names_are_plain_and_ports_in_order(tmp_path):
    text = after([PLAIN_NAMES], TWO_LEVELS, tmp_path)
    assert "module inner(a, left, other, y)" in text
    assert "\\" not in text
    assert "inner one_two (" in text
    assert all(f"[3:0] {name};" in text for name in ("begin_", "hidden", "part"))
    assert "b_c" in text


def test_bits_that_nothing_reads_are_connected_to_a_wire_of_that_name_in_every_module(tmp_path):
    text = after([UNUSED_PORTS, UNUSED_BITS], TWO_LEVELS, tmp_path)
    inner, top = text.split("module top")
    assert "assign unused = & { a[7:4], 1'h0 }" in inner
    assert "assign unused = & { \\b.c , 1'h0 }" in top


@pytest.mark.parametrize("split", [True, False])
def test_a_wire_that_copies_its_own_bits_is_split(tmp_path, split):
    rtlil = """
module \\top
  wire width 2 input 1 \\a
  wire width 4 output 2 \\y
  wire width 4 $d
  cell $not $n
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 2
    parameter \\Y_WIDTH 2
    connect \\A \\a
    connect \\Y $d [1:0]
  end
  connect $d [3:2] { $d [1] $d [1] }
  connect \\y { $d [1] $d [1:0] $d [0] }
end
"""
    (tmp_path / "in.il").write_text(rtlil)
    passes = [SPLIT_COPIES] if split else []
    yosys.run(["read_rtlil in.il", *passes, "write_verilog -noattr out.v"], tmp_path)
    copied = "[3:2] =" in (tmp_path / "out.v").read_text()
    assert copied != split


def test_words_of_the_languages_are_reserved():
    assert {"begin", "final", "output", "reg", "logic", "priority", "unique0", "s_eventually"} <= RESERVED
    assert not {"clk", "count", "done", "write"} & RESERVED
