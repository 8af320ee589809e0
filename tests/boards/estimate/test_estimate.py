"""Estimates of small designs with costs on UltraScale+ known by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from fabtune.boards.estimate import delays, fanout
from fabtune.boards.estimate import estimate as estimate_module
from fabtune.boards.estimate.counting import count_resources, longest_paths, most_loads
from fabtune.boards.estimate.estimate import (
    Estimate,
    estimate_rtlil,
    estimate_spec,
    estimate_verilog,
)
from fabtune.boards.estimate.netlist import Bit, Cell, Netlist
from fabtune.boards.estimate.paths import TimingPath
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.nn.interfaces import CutRows
from fabtune.hw.verilog import emit
from fabtune.hw.zo.deltas.delta_rows import DeltaRows

KEYS = ["lut", "ff", "bram36", "uram", "dsp"]


def estimate(folder: Path, source: str) -> Estimate:
    file = folder / "design.v"
    file.write_text(source)
    return estimate_verilog([file], "top")


def cell(name: str, kind: str, parameters: dict[str, str] | None = None, **ports: Bit | list[Bit]) -> Cell:
    pins = {port: tuple(bits) if isinstance(bits, list) else (bits,) for port, bits in ports.items()}
    outputs = {port: bits for port, bits in pins.items() if port in ("O", "Q", "CO") or port.startswith("DO")}
    return Cell(name, kind, parameters or {}, {p: b for p, b in pins.items() if p not in outputs}, outputs)


def netlist(*cells: Cell, outputs: tuple[int, ...] = ()) -> Netlist:
    return Netlist("top", cells, frozenset(), frozenset(outputs), {7: "visible"})


def estimated(one: Netlist) -> Estimate:
    return Estimate(*count_resources(one), *longest_paths(one), fanout.with_reset(one), most_loads(one))


def test_a_multiply_accumulate_is_one_dsp(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        """
        module top(input clk, rst, input signed [24:0] a, input signed [17:0] b, output reg signed [47:0] p);
          reg signed [24:0] ar; reg signed [17:0] br; reg signed [42:0] m;
          always @(posedge clk) begin
            ar <= a; br <= b; m <= ar * br;
            if (rst) p <= 0; else p <= p + m;
          end
        endmodule""",
    )
    assert list(found.resources) == KEYS
    assert found.resources == {"lut": 0, "ff": 0, "bram36": 0, "uram": 0, "dsp": 1}
    assert (found.logic_levels, found.carry_cells) == (0, 0)


def test_where_a_multiplier_goes(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        """
        module top(input clk, input signed [26:0] a, input signed [17:0] b, output reg signed [44:0] p,
                   input signed [8:0] c, input signed [3:0] d, output reg signed [12:0] q);
          always @(posedge clk) begin p <= a * b; q <= c * d; end
        endmodule""",
    )
    assert found.resources["dsp"] == 1, "27x18 is one DSP48E2, 9x4 stays in the fabric"
    assert found.resources["ff"] == 13
    assert 28 <= found.resources["lut"] <= 40, "four rows of ten bits"


def test_memories(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        """
        module top(input clk, we, input [8:0] wa, ra, input [95:0] d, output reg [95:0] q,
                   input [5:0] e, output [5:0] f, input s, output t);
          reg [95:0] block [0:511];
          reg [5:0] small [0:31];
          reg [9:0] shift;
          always @(posedge clk) begin
            if (we) begin block[wa] <= d; small[wa[4:0]] <= e; end
            q <= block[ra];
            shift <= {shift[8:0], s};
          end
          assign f = small[ra[4:0]];
          assign t = shift[9];
        endmodule""",
    )
    assert found.resources["bram36"] == 1.5, "512 deep is 36 bits wide in an RAMB18: three of them hold 96"
    assert found.raw["lut"] == 9, "Yosys: an RAM32M16 of eight LUTs and a SRL16E"
    assert found.resources["lut"] == 5, "32x6 fits an RAM32M of four LUTs"
    assert (found.raw["ff"], found.resources["ff"]) == (0, 1), "its last stage is a flip-flop"


def test_multiplexers_of_one_select_share_luts(tmp_path: Path) -> None:
    found = estimate(
        tmp_path,
        "module top(input s, input [31:0] a, b, output [31:0] y); assign y = s ? a : b; endmodule",
    )
    assert (found.raw["lut"], found.resources["lut"], found.logic_levels) == (32, 16, 1)


def test_rtlil_of_an_adder() -> None:
    design = Module()
    a, b, total = Signal(32), Signal(32), Signal(32)
    design.d.sync += total.eq(a + b)
    found = estimate_rtlil(rtlil.convert(design, ports=[a, b, total], name="adder"), "adder")
    assert found.resources == {"lut": 32, "ff": 32, "bram36": 0, "uram": 0, "dsp": 0}
    assert (found.logic_levels, found.carry_cells) == (1, 4)


def test_a_chain_of_luts_is_counted_in_levels() -> None:
    wide = [
        cell(f"l{i}", "LUT6", {"INIT": "1" * 64}, I0=10 + i, I1=1, I2=2, I3=3, I4=4, I5=5, O=11 + i) for i in range(4)
    ]
    mux = cell("m", "MUXF7", I0=14, I1=12, S=6, O=15)
    found = estimated(netlist(*wide, mux, cell("f", "FDRE", D=15, C=8, Q=10), outputs=(10,)))
    assert (found.resources["lut"], found.logic_levels) == (4, 4)


@pytest.mark.parametrize(("registers", "levels"), [("0", 2), ("1", 1)])
def test_a_path_through_a_dsp_without_registers(registers: str, levels: int) -> None:
    parameters = {"AREG": "0", "MREG": "0", "PREG": registers}
    dsp = Cell("d", "DSP48E1", parameters, {"A": (2,)}, {"P": (3,)})
    found = estimated(
        netlist(cell("a", "LUT2", I0=1, I1=9, O=2), dsp, cell("b", "LUT2", I0=3, I1=9, O=4), outputs=(4,))
    )
    assert found.logic_levels == levels


@pytest.mark.parametrize(
    ("sink", "luts"),
    [
        (cell("l", "LUT2", I0=2, I1=3, O=4), 1),  # the LUT absorbs it
        (cell("f", "FDRE", R=2, D=3, C=8, Q=4), 0),  # a slice inverts set and reset
        (cell("f", "FDRE", CE=2, D=3, C=8, Q=4), 1),  # a clock enable is not inverted
        (cell("f", "FDRE", D=2, C=8, Q=4), 1),
    ],
)
def test_inverters(sink: Cell, luts: int) -> None:
    found = estimated(netlist(cell("i", "INV", I=1, O=2), sink, outputs=(4,)))
    assert found.resources["lut"] == luts


def test_an_inverter_on_a_port_is_a_lut() -> None:
    assert estimated(netlist(cell("i", "INV", I=1, O=2), outputs=(2,))).resources["lut"] == 1


def test_luts_of_a_carry_chain_are_not_shared() -> None:
    luts = [cell(f"l{i}", "LUT2", I0=1, I1=2, O=10 + i) for i in range(4)]
    chain = cell("c", "CARRY4", CI="0", S=[10, 11, "0", "0"], DI=["0"] * 4, O=[20, 21, 22, 23])
    assert estimated(netlist(*luts, chain, outputs=(12, 13, 20))).resources["lut"] == 3


def test_half_of_a_carry8_costs_as_much_as_all_of_it() -> None:
    links: list[Bit] = ["0", 13, 23]
    chain = [
        cell(f"c{i}", "CARRY4", CI=links[i], S=[1] * 4, DI=["0"] * 4, CO=[*range(10 * i + 10, 10 * i + 14)])
        for i in range(3)
    ]
    assert estimated(netlist(*chain, outputs=(33,))).carry_cells == 2


def test_slowest_path_is_the_sum_of_its_cells_and_nets() -> None:
    found = estimated(
        netlist(
            cell("start", "FDRE", D="0", C=8, Q=7),
            *(cell(f"l{i}", "LUT2", I0=[7, 20, 21][i], I1="1", O=20 + i) for i in range(3)),
            cell("end", "FDRE", D=22, C=8, Q=30),
            cell("other", "FDRE", D=20, C=8, Q=31),
            outputs=(31,),
        )
    ).slowest
    clock_to_output, setup = delays.launch(Cell("f", "FDRE", {}, {}, {})), delays.capture(cell("f", "FDRE", D=1), "D")
    nets = 3 * delays.net(1) + delays.net(2)
    assert found.ns == round((clock_to_output + nets + 3 * delays.LUT + setup) / 1000, 2)
    assert (found.start, found.end) == ("visible", "end")
    assert found.through == {"LUT": 3, "MUXF": 0, "CARRY8": 0, "DSP": 0}


@pytest.mark.parametrize(
    ("change", "slower", "cells"),
    [
        ("q <= a + b", 0, {"LUT": 1, "CARRY8": 4}),
        ("q <= a + b + c", 1, {"CARRY8": 4, "DSP": 0}),
        ("q <= a[17:0] * b[17:0] + c", 1, {"DSP": 1}),
        ("q <= ram[a[9:0]] + b", 1, {"LUT": 1, "CARRY8": 4}),
    ],
)
def test_what_makes_a_path_slower(tmp_path: Path, change: str, slower: int, cells: dict[str, int]) -> None:
    """Variations of a sum of two registers."""

    def slowest(assignment: str) -> TimingPath:
        return estimate(
            tmp_path,
            f"""module top(input clk, input [31:0] x, y, z, output reg [31:0] q);
              reg [31:0] a, b, c, ram [1023:0];
              always @(posedge clk) begin a <= x; b <= y; c <= z; ram[z[9:0]] <= y; {assignment}; end
            endmodule""",
        ).slowest

    base, found = slowest("q <= a + b"), slowest(change)
    assert (found.ns > base.ns) == slower
    assert {kind: found.through[kind] for kind in cells} == cells
    assert found.end.partition("[")[0] == "q"


def test_a_loop_is_named() -> None:
    loop = [cell("a", "LUT2", I0=1, I1=7, O=6), cell("b", "LUT2", I0=1, I1=6, O=7)]
    with pytest.raises(UserError, match="loop through 'visible' of 'top'"):
        estimated(netlist(*loop))


def test_an_unknown_cell_is_not_counted_as_nothing() -> None:
    with pytest.raises(UserError, match="'u' of 'top' is a 'FDCPE'"):
        estimated(netlist(cell("u", "FDCPE", D=1, Q=2)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("module other; endmodule module more; endmodule", r"no module 'top' in design\.v: choose one of more, other$"),
        ("module top(input a);\n assign = a;\nendmodule", r"design\.v:2: syntax error"),
        ("module top(input a); missing u(a); endmodule", r"module 'missing' of 'top' is not in design\.v"),
    ],
)
def test_errors_say_what_to_do(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        estimate(tmp_path, source)
    assert "\n" not in str(caught.value)


DRIVEN = {
    "assigned": "assign y = a ^ b;",
    "registered": "logic [7:0] n; initial n = 0; assign n = a ^ b; always @(posedge clk) y <= n;",
    "in_parts": "logic [15:0] n; initial n = 3; assign n[7:0] = a ^ b, n[15:8] = ~a; assign y = n[7:0] & n[15:8];",
    "in_a_block": "always @* y = a ^ b;",
    "in_a_loop": "integer k; initial for (k = 0; k < 8; k = k + 1) y[k] = k; assign y = a ^ b;",
    "of_an_instance": "part p(clk, a ^ b, y);",
}
"""Modules with an initial value on a driven net."""


@pytest.mark.parametrize("initial", ["", "initial y = 0;", "initial begin y = 1; y = 3; end"])
def test_initial_values_of_driven_nets_change_nothing(tmp_path: Path, initial: str) -> None:
    width = 8 * len(DRIVEN)
    ports = "(input logic clk, input logic [{0}:0] a, b, output logic [{0}:0] y);"
    text = "module part(input clk, input [7:0] d, output reg [7:0] q); always @(posedge clk) q <= d; endmodule\n"
    for name, body in DRIVEN.items():
        text += f"module {name}{ports.format(7)}\n{initial}\n{body}\nendmodule\n"
    text += f"module top{ports.format(width - 1)}\n"
    for first, name in zip(range(0, width, 8), DRIVEN, strict=True):
        text += f"{name} {name}_({', '.join(['clk', *(f'{port}[{first}+:8]' for port in 'aby')])});\n"
    (tmp_path / "design.sv").write_text(f"{text}endmodule\n")
    found = estimate_verilog([tmp_path / "design.sv"], "top").resources
    assert (found["lut"], found["ff"]) == (width, 16)


@pytest.mark.parametrize(
    "source",
    [
        "module top(input a, output q, output r); assign q = a; assign r = 1; endmodule",
        "module top; reg clk = 0; always #5 clk = ~clk; endmodule",
    ],
    ids=["a constant", "no outputs"],
)
def test_a_design_of_nothing_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(UserError, match=r"nothing is left of 'top' to estimate: .*; name another top module"):
        estimate(tmp_path, source)


def test_outputs_that_are_inputs_cost_nothing(tmp_path: Path) -> None:
    found = estimate(tmp_path, "module top(input [7:0] a, output [7:0] q); assign q = a; endmodule")
    assert found.resources == dict.fromkeys(KEYS, 0)


def test_verilog_with_a_byte_order_mark(tmp_path):
    file, text = tmp_path / "a.v", "module top(input a, input b, output q); assign q = a & b; endmodule\n"
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert estimate_verilog([file], "top").resources["lut"] == 1
    file.write_text(text, encoding="utf-16")
    with pytest.raises(UserError, match=r"a\.v is UTF-16 text: save it as UTF-8"):
        estimate_verilog([file], "top")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file '.*nowhere\.v'"):
        estimate_verilog([tmp_path / "nowhere.v"], "top")
    with pytest.raises(UserError, match="name at least one"):
        estimate_verilog([], "top")


def test_a_name_that_is_no_name_reaches_no_tool(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'top; shell' is not a module name"):
        estimate_rtlil("", "top; shell")


def test_a_block_of_our_own() -> None:
    spec = UrngSpec(n=3, bits=8)
    found = estimate_spec(spec).resources
    assert spec.n * spec.bits <= found["ff"] < 2 * spec.n * spec.bits
    assert found["lut"] > 0
    assert (found["bram36"], found["uram"], found["dsp"]) == (0, 0, 0)


QUICK = ("urng", "softmax")
CORES = {
    "instantft": {"network": "digits", "lanes": 16},
    "zotrain": {"network": "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", "lanes": 16},
    "zostream": BLOCKS["zostream"].presets["tiny"],
}
"""Whole cores that take a minute."""


@pytest.mark.parametrize(
    "block", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BLOCKS]
)
def test_a_block_and_its_verilog_have_one_estimate(tmp_path: Path, block: str) -> None:
    spec = BLOCKS[block](**CORES.get(block, {}))
    file = tmp_path / f"{block}.v"
    file.write_text(emit(spec).verilog)
    assert estimate_verilog([file], block) == estimate_spec(spec)


def test_an_estimate_is_made_once_for_the_same_text(monkeypatch, tmp_path):
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path))
    runs = []
    emitted = emit(UrngSpec(n=3, bits=4))
    counts = estimate_module.from_rtlil(emitted.rtlil, "urng")
    monkeypatch.setattr(estimate_module, "from_rtlil", lambda *design: runs.append(design) or counts)
    first = estimate_rtlil(emitted.rtlil, "urng")
    assert (estimate_rtlil(emitted.rtlil, "urng"), len(runs)) == (first, 1)
    estimate_rtlil(f"{emitted.rtlil}\n# changed\n", "urng")
    assert len(runs) == 2
    monkeypatch.setattr(estimate_module, "source_digest", lambda *paths: "other code")
    assert (estimate_rtlil(emitted.rtlil, "urng"), len(runs)) == (first, 3)
    monkeypatch.setattr(estimate_module, "package_version", lambda name: "another")
    assert (estimate_rtlil(emitted.rtlil, "urng"), len(runs)) == (first, 4)


@pytest.mark.slow
def test_a_shared_port_takes_no_further_ultra_ram() -> None:
    """Rows of the cut memory follow the delta rows: one memory with two ports."""
    mapping = ZotrainSpec(**ZotrainSpec.presets["fast"]).mapping
    rows, width = 4 * mapping.all_rows, 8
    ultra_rams = [
        estimate_rtlil(rtlil.convert(DeltaRows(rows, width, shared), name="rows"), "rows").resources["uram"]
        for shared in (None, CutRows(mapping.forward, 2048))
    ]
    assert ultra_rams == [4, 4]
