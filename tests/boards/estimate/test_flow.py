"""Differences between fabtune's flow and Yosys's own, each on a design with costs known by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fabtune.boards.estimate.estimate import Estimate, estimate_verilog
from fabtune.boards.estimate.flow import files
from fabtune.golden.errors import UserError
from fabtune.hw import arithmetic_passes, synthesis_passes, yosys

ADD_SUB = """
module top(input s, input signed [15:0] a, b, output signed [15:0] y, output [15:0] z, output [16:0] w, output [7:0] v);
  assign y = s ? a + b : a - b;
  assign z = s ? -a : a;
  assign w = s ? $unsigned(a) - $unsigned(b) : $unsigned(b) + $unsigned(a);
  assign v = s ? a[7:0] - {b[4:0], 3'b0} : a[7:0] + {b[4:0], 3'b0};
endmodule"""


def estimate(folder: Path, source: str, **parameters: str) -> Estimate:
    file = folder / "design.v"
    file.write_text(source)
    return estimate_verilog([file], "top", parameters)


def test_a_sum_or_a_difference_is_one_chain(tmp_path: Path) -> None:
    found = estimate(tmp_path, ADD_SUB)
    assert found.resources["lut"] == 16 + 16 + 17 + 5, (
        "one LUT a bit; nothing is added to the last one's three low bits"
    )


def test_the_chain_computes_what_the_source_says(tmp_path: Path) -> None:
    (tmp_path / "design.v").write_text(ADD_SUB)
    yosys.run(
        [
            "read_verilog design.v",
            "rename top gate",
            "proc",
            "opt_clean",
            arithmetic_passes.ADD_SUB,
            "select -assert-count 4 gate/t:$alu",
            "opt_clean",
            arithmetic_passes.ADD_SUB,  # trims
            "select -assert-count 1 gate/t:$alu r:Y_WIDTH=5 %i",
            "read_verilog design.v",
            "rename top gold",
            "proc",
            "miter -equiv -flatten gold gate miter",
            "hierarchy -top miter",
            "alumacc",
            "sat -verify -prove trigger 0 miter",
        ],
        tmp_path,
    )


def prove_equal(folder: Path, source: str, *commands: str) -> None:
    """Prove by SAT that these commands preserve the function of combinational module ``top``."""
    (folder / "design.v").write_text(source)
    yosys.run(
        [
            "read_verilog -sv design.v",
            "proc",
            "opt_clean",
            *commands,
            "rename top gate",
            "read_verilog -sv design.v",
            "rename top gold",
            "proc",
            "miter -equiv -flatten gold gate miter",
            "hierarchy -top miter",
            "sat -verify -prove trigger 0 miter",
        ],
        folder,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["6 4", "3 6"])
def test_comparators_compute_what_the_source_says(tmp_path: Path, arguments: str) -> None:
    signals = ((1, 1), (3, 3), (4, 7), (7, 4), (8, 8))
    constants = ((4, 5), (6, -3), (6, 33), (8, 77), (8, -100), (8, 130), (3, 6), (3, -2), (10, 0), (10, 511))
    pairs = [(f"[{left - 1}:0]", f"b[{right - 1}:0]") for left, right in signals]
    pairs += [(f"[{width - 1}:0]", str(constant)) for width, constant in constants]
    lines, results = [], 0
    for sign, (of, other), relation in itertools.product(("signed", ""), pairs, ("<", "<=", ">", ">=")):
        cast = f"${sign or 'unsigned'}"
        for left, right in ((f"a{of}", other), (other, f"a{of}")):
            lines.append(f"assign y[{results}] = {cast}({left}) {relation} {cast}({right});")
            results += 1
    ports = f"input [9:0] a, b, output [{results - 1}:0] y"
    none_left = [f"select -assert-none t:${kind}" for kind in ("lt", "le", "gt", "ge")]
    source = "\n".join([f"module top({ports});", *lines, "endmodule"])
    prove_equal(
        tmp_path, source, f"{arithmetic_passes.COMPARATORS} {arguments}", *none_left, "techmap -map +/techmap.v"
    )


OPERANDS = """
module top(input [8:0] a, input signed [4:0] b, c, output [8:0] u, v, output [9:0] w, output x);
  assign u = a + b;
  assign v = a - c;
  assign w = b - c;
  assign x = a[8:3] < b;
endmodule"""


@pytest.mark.parametrize("source", [ADD_SUB, OPERANDS], ids=["chosen", "known"])
def test_carry_chains_compute_what_the_source_says(tmp_path: Path, source: str) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    prove_equal(
        tmp_path,
        source,
        *[arithmetic_passes.ADD_SUB, "alumacc", "opt_clean", "select -assert-min 4 t:$alu"],
        arithmetic_passes.PLAIN_OPERANDS,
        *["techmap -map carry_chains.v", "select -assert-none t:$alu", "select -assert-min 8 t:CARRY4"],
        *["read_verilog +/xilinx/cells_sim.v", "hierarchy -top top", "flatten", "techmap"],
    )


@pytest.mark.parametrize("wide", ["product", "delayed"])
def test_a_wide_register_does_not_hide_what_reads_a_product(tmp_path: Path, wide: str) -> None:
    source = f"""
module top(input clk, input signed [17:0] a, b, output reg [599:0] q, output reg [35:0] r);
  reg signed [35:0] product, delayed;
  always @(posedge clk) begin
    product <= a * b;
    delayed <= product;
    q <= {{q[598:0], q[599]}} ^ {{564'b0, {wide}}};
    r <= delayed;
  end
endmodule"""
    found = estimate(tmp_path, source)
    outside = 36 if wide == "product" else 0
    assert found.resources["ff"] == 600 + 36 + outside, (
        "both registers are inside if only the second one reads the first"
    )


@pytest.mark.parametrize(
    ("product", "dsps", "luts"),
    [
        ("a * b", 3, 0),  # no partial product above bit 32
        ("$signed({{32{a[31]}}, a}) * $signed({{32{b[31]}}, b})", 4, 0),
        ("a * 3", 0, 31),
        ("a * 7", 0, 31),
        ("a[7:0] * b[7:0]", 0, 64),
        ("a[7:0] * b[9:0]", 1, 0),
        ("a[26:0] * b[16:0]", 2, 0),  # 28 bits with a sign
    ],
)
def test_products(tmp_path: Path, product: str, dsps: int, luts: int) -> None:
    width = 64 if "signed" in product or "26" in product else 32
    source = f"module top(input [31:0] a, b, output [{width - 1}:0] y); assign y = {product}; endmodule"
    found = estimate(tmp_path, source)
    assert found.resources["dsp"] == dsps
    assert found.resources["lut"] == pytest.approx(luts, abs=8 if luts else 0)


@pytest.mark.parametrize(("asked", "dsps"), [("yes", 1), ("no", 0)])
def test_where_a_source_asks_for_a_product(tmp_path: Path, asked: str, dsps: int) -> None:
    width = 6 if asked == "yes" else 16
    source = f"""
        module top(input clk, input [{width - 1}:0] a, b, output reg [{2 * width - 1}:0] y);
          (* use_dsp = "{asked}" *) reg [{2 * width - 1}:0] product;
          always @(posedge clk) begin product <= a * b; y <= product; end
        endmodule"""
    assert estimate(tmp_path, source).resources["dsp"] == dsps


def test_a_comparator_takes_half_a_lut_a_bit(tmp_path: Path) -> None:
    source = "module top(input [31:0] a, b, output y); assign y = a < b; endmodule"
    assert estimate(tmp_path, source).resources["lut"] == 16


def test_the_multiplexers_of_a_slice(tmp_path: Path) -> None:
    lines = "".join(f"{way}: y = d[{8 * way} +: 8];" for way in range(16))
    source = f"""
        module top(input [127:0] d, input [3:0] s, output reg [7:0] y);
          always @* case (s) {lines} endcase
        endmodule"""
    found = estimate(tmp_path, source)
    assert (found.raw["lut"], found.resources["lut"], found.logic_levels) == (40, 32, 1)


MEMORY = """
module top #(parameter WORDS = 512) (input clk, we, ce, input [15:0] wa, ra, input [31:0] d, output reg [31:0] q);
  reg [31:0] m [0:WORDS-1];
  reg [31:0] first;
  always @(posedge clk) begin
    if (we) m[wa] <= d;
    first <= m[ra];
    if (ce) q <= first;
  end
endmodule"""


def test_the_register_behind_a_block_ram_is_its_own(tmp_path: Path) -> None:
    found = estimate(tmp_path, MEMORY)
    assert (found.resources["bram36"], found.resources["ff"], found.raw["ff"]) == (0.5, 0, 32)


def test_a_constant_goes_down_a_chain_of_registers(tmp_path: Path) -> None:
    source = """
        module top(input clk, reset, d, output reg [31:0] q, output reg last);
          always @(posedge clk) begin q <= reset ? 0 : {q[30:0], d & ~d}; last <= d; end
        endmodule"""
    assert estimate(tmp_path, source).resources["ff"] == 1


def test_a_parameter_of_the_top_module(tmp_path: Path) -> None:
    assert estimate(tmp_path, MEMORY, WORDS="2048").resources["bram36"] == 2
    with pytest.raises(UserError, match="WORD"):
        estimate(tmp_path, MEMORY, WORD="2048")
    with pytest.raises(UserError, match="no parameter"):
        estimate(tmp_path, MEMORY, WORDS="2; shell ls")


def test_parameters_that_are_a_string_and_a_negative_number(tmp_path: Path) -> None:
    source = """
        module top #(parameter KIND = "xor", parameter signed [31:0] LOW = 5)(input [7:0] a, b, output [7:0] y);
          wire [7:0] both = KIND == "add up" ? a + b : a ^ b;
          assign y = LOW < 0 ? both : 0;
        endmodule"""
    with pytest.raises(UserError, match="nothing is left of 'top' to estimate"):
        estimate(tmp_path, source)
    assert estimate(tmp_path, source, LOW="-1").raw.get("CARRY4", 0) == 0
    assert estimate(tmp_path, source, LOW="-1", KIND='"add up"').raw["CARRY4"] == 2


@pytest.mark.parametrize(("words", "brams"), [(256, 0.5), (16, 0)])
def test_a_rom_with_a_registered_read(tmp_path: Path, words: int, brams: float) -> None:
    source = f"""
        module top(input clk, input [7:0] a, output reg [31:0] q);
          reg [31:0] m [0:{words - 1}];
          integer i;
          initial for (i = 0; i < {words}; i = i + 1) m[i] = i * 32'h9E3779B1;
          always @(posedge clk) q <= m[a];
        endmodule"""
    found = estimate(tmp_path, source).resources
    assert (found["bram36"], found["ff"] == 0) == (brams, brams > 0)


def test_a_register_does_not_move_behind_a_small_rom(tmp_path: Path) -> None:
    source = """
        module top(input clk, output [31:0] q);
          reg [31:0] m [0:15];
          reg [3:0] a;
          integer i;
          initial for (i = 0; i < 16; i = i + 1) m[i] = i * 32'h9E3779B1;
          always @(posedge clk) a <= a + 1;
          assign q = m[a];
        endmodule"""
    assert estimate(tmp_path, source).resources["ff"] == 4


@pytest.mark.parametrize("stages", [3, 4])
def test_a_short_shift_register(tmp_path: Path, stages: int) -> None:
    source = f"""
        module top(input clk, d, output q);
          reg [{stages - 1}:0] r;
          always @(posedge clk) r <= {{r[{stages - 2}:0], d}};
          assign q = r[{stages - 1}];
        endmodule"""
    found = estimate(tmp_path, source).resources
    assert (found["lut"], found["ff"]) == ((0, 3) if stages == 3 else (1, 1))


def test_a_single_port_memory_with_asynchronous_reads(tmp_path: Path) -> None:
    source = """
        module top(input clk, we, input [9:0] a, input [7:0] d, output [7:0] q);
          (* ram_style = "distributed" *) reg [7:0] m [0:1023];
          always @(posedge clk) if (we) m[a] <= d;
          assign q = m[a];
        endmodule"""
    found = estimate(tmp_path, source)
    assert found.raw["RAM512X1S"] == 16
    assert found.resources["lut"] == pytest.approx(16 * 8, abs=10), "64 bits a LUT, and a choice of two"


def test_tristate_ports(tmp_path: Path) -> None:
    source = """
        module top(input clk, oe, d, inout p, output reg q, output [3:0] z);
          assign p = oe ? d : 1'bz;
          assign z = oe ? {4{d}} : 4'bz;
          always @(posedge clk) q <= p;
        endmodule"""
    found = estimate(tmp_path, source)
    assert (found.raw["OBUFT"], found.resources["ff"]) == (5, 1)


def test_one_counter_in_two_initial_loops(tmp_path: Path) -> None:
    source = """
        module top(input clk, input [3:0] a, output reg [7:0] q);
          reg [7:0] m [0:15];
          reg [7:0] c;
          integer i;
          initial begin c = 0; for (i = 0; i < 16; i = i + 1) m[i] = 3 * i; end
          initial for (i = 0; i < 8; i = i + 1) c[i] = 1'b1;
          always @(posedge clk) q <= m[a] + c;
        endmodule"""
    assert estimate(tmp_path, source).resources["ff"] == 8


MEMORIES = """
module top(input clk, we, re, input [1:0] wa, ra, input [3:0] d, output [3:0] x, output reg [3:0] w, y, z);
  reg [3:0] a [0:3];
  reg [3:0] b [0:3];
  reg [3:0] c [0:3];
  reg [3:0] s [0:3];
  initial begin c[0] = 4'd9; c[1] = 4'd5; c[2] = 4'd3; c[3] = 4'd14; end
  always @(posedge clk) begin
    if (we) begin a[wa] <= {d[0], d[3:1]}; b[{wa[0], 1'b1}] <= d; end
    if (re) begin y <= b[ra]; z <= c[ra]; end
    if (we) s[wa] <= d; else if (re) w <= s[wa];
  end
  assign x = a[ra];
endmodule"""


def test_a_memory_in_a_module_of_its_own_is_the_same_memory(tmp_path: Path) -> None:
    (tmp_path / "design.v").write_text(MEMORIES)
    yosys.run(
        [
            "read_verilog design.v",
            *["proc", "opt", "memory -nomap", "opt_clean"],
            "select -assert-count 4 top/t:$mem_v2",
            "rename top gate",
            synthesis_passes.SEPARATE_MEMORIES,
            # its enables show that a single port suffices
            "select -assert-count 1 gate/t:$mem_v2",
            "select -assert-count 4 */t:$mem_v2",
            "flatten",
            "select -assert-count 4 gate/t:$mem_v2",
            "read_verilog design.v",
            "rename top gold",
            "proc",
            "memory_map",
            "miter -equiv -flatten gold gate miter",
            "hierarchy -top miter",
            "sat -verify -seq 4 -set-init-zero -prove trigger 0 miter",
        ],
        tmp_path,
    )
