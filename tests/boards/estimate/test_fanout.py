"""Fan-out of small designs with nets and loads known by hand."""

from __future__ import annotations

from pathlib import Path

from fabtune.boards.estimate import delays
from fabtune.boards.estimate.estimate import Estimate, estimate_verilog
from fabtune.boards.estimate.fanout import SHOWN, most_loads, with_reset
from fabtune.boards.estimate.netlist import Bit, Cell, Netlist


def estimate(folder: Path, source: str) -> Estimate:
    file = folder / "design.v"
    file.write_text(source)
    return estimate_verilog([file], "top")


def flip_flop(name: str, q: int, kind: str = "FDRE", **ports: Bit) -> Cell:
    return Cell(name, kind, {}, {pin: (bit,) for pin, bit in ports.items()}, {"Q": (q,)})


def test_resets_enables_and_data_are_told_apart(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        """
        module top(input clk, rst, en, s, input [31:0] a, output reg [31:0] q, output reg [39:0] p, output [31:0] y);
          always @(posedge clk) begin
            if (rst) q <= 0; else if (en) q <= a;
            p <= {40{s}} & {8'hff, a};
          end
          assign y = {32{s}} & q;
        endmodule""",
    )
    first, second, third, *_ = found.fan_outs
    assert (first.net, first.loads, first.pins) == ("s", 65, {"LUT": 64, "FF data": 1}), "p[39:32] is one flip-flop"
    assert (second.net, second.loads, second.pins) == ("rst", 32, {"FF reset": 32})
    assert (third.net, third.loads, third.pins) == ("en", 32, {"FF enable": 32})
    assert (found.with_reset, found.raw["ff"]) == (32, 65)
    assert len(found.fan_outs) == SHOWN
    assert all(one.net != "clk" for one in found.fan_outs)


def test_bits_of_buses_have_their_index(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        """
        module top(input [9:2] up, input [0:3] down, input [3:0] a, output [3:0] x, output [2:0] y);
          assign x = {4{up[7]}} & a;
          assign y = {3{down[3]}} & ~a[2:0];
        endmodule""",
    )
    assert [(one.net, one.loads) for one in found.fan_outs[:2]] == [("up[7]", 4), ("down[3]", 3)]


def test_an_inverted_reset_counts_on_the_net_itself(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        """
        module top(input clk, rst_n, input [15:0] a, output reg [15:0] q);
          always @(posedge clk) if (!rst_n) q <= 0; else q <= a;
        endmodule""",
    )
    assert (found.fan_outs[0].net, found.fan_outs[0].pins) == ("rst_n", {"FF reset": 16})


def test_memories_dsps_and_ports_are_loads_and_clocks_are_none() -> None:
    cells = (
        Cell("r", "RAMB36E2", {}, {"CLKARDCLK": (9,), "ENARDEN": (1,), "ADDRARDADDR": (1, 2)}, {"DOUTADOUT": (20,)}),
        Cell("d", "DSP48E1", {}, {"CLK": (9,), "CEA1": (1,), "CEA2": (1,), "A": (2, 2)}, {"P": (21,)}),
        Cell("m", "RAM32M", {}, {"WCLK": (9,), "WE": (1,)}, {"DOA": (22,)}),
        Cell("c", "CARRY4", {}, {"CI": (1,)}, {"CO": (23,)}),
        Cell("l", "LUT1", {"INIT": "10"}, {"I0": (2,)}, {"O": (24,)}),
    )
    found = most_loads(Netlist("top", cells, frozenset({1, 2, 9}), frozenset({1}), {1: "en", 2: "a", 9: "clk"}), set())
    assert [(one.net, one.loads, one.pins) for one in found] == [
        ("en", 7, {"RAM": 2, "DSP": 2, "LUT memory": 1, "carry or MUXF": 1, "port": 1}),
        ("a", 4, {"DSP": 2, "RAM": 1, "LUT": 1}),
    ]


def test_a_net_without_a_name_is_called_by_what_it_is_made_of() -> None:
    lut = Cell("$l", "LUT2", {"INIT": "1000"}, {"I0": (1,), "I1": (2,)}, {"O": (3,)})
    cells = [lut, *(flip_flop(f"f{place}", 10 + place, D=5, C=9, R=3) for place in range(4))]
    found = most_loads(Netlist("top", tuple(cells), frozenset({1, 2, 5}), frozenset(), {1: "go", 2: "stop"}), set(), 2)
    assert [(one.net, one.loads) for one in found] == [("LUT2 of go, stop", 4), ("(input)", 4)]


def test_a_constant_reset_pin_is_none() -> None:
    cells = (flip_flop("f", 1, D=2, R="0"), flip_flop("g", 3, D=2, R=4), flip_flop("h", 5, "FDPE", D=2, PRE=4))
    assert with_reset(Netlist("top", cells, frozenset(), frozenset(), {})) == 2


def test_a_net_is_as_long_as_its_readers_need_room() -> None:
    assert delays.net(1) == 150
    assert delays.net(256) == 150 + 8 * 40, "the fit alone"
    # 1024 slices, 32 x 32; the fit covers 8 x 8
    assert delays.net(4096) == 150 + 12 * 40 + 24 * 11
    assert delays.net(32768) > 2 * delays.net(256)


def test_equal_registers_are_merged_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    source = """
        module top(input clk, s, input [31:0] a, output [31:0] y);
          ATTRIBUTE reg low, high;
          always @(posedge clk) begin low <= s; high <= s; end
          assign y = {{16{high}}, {16{low}}} & a;
        endmodule"""
    merged, kept = (estimate(tmp_path, source.replace("ATTRIBUTE", text)) for text in ("", '(* keep = "true" *)'))
    assert (merged.resources["ff"], merged.fan_outs[0].loads) == (1, 32)
    assert (kept.resources["ff"], kept.fan_outs[0].loads) == (2, 16)
