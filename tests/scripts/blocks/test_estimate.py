"""`fabtune estimate`: the project's promised figures, and third-party Verilog."""

import json

import pytest

TARGETS = {
    # limits: LUTs, FFs, BRAM36, logic levels
    "urng --set bits=8": (34, 252, 0, 1),
    "urng --set bits=14": (34, 438, 0, 1),
    "pezo --preset otf8 --set replay=false": (52, 268, 0, 2),
    "pool": (12, 20, 2, 2),
    "perturb": (38, 17, 0, 3),
}


@pytest.mark.parametrize("design", TARGETS)
def test_estimates_are_within_what_was_promised(fabtune, design):
    status, out, _ = fabtune("estimate", *design.split(), "--json")
    found = json.loads(out)
    most_luts, most_ffs, most_bram, most_levels = TARGETS[design]
    assert status == 0
    assert found["resources"]["lut"] <= most_luts
    assert found["resources"]["ff"] <= most_ffs
    assert found["resources"]["bram36"] <= most_bram
    assert found["resources"]["dsp"] == found["resources"]["uram"] == 0
    assert found["logic_levels"] <= most_levels
    assert found["utilisation"]["lut"] == pytest.approx(100 * found["resources"]["lut"] / 274_080)
    assert found["raw"]["lut"] >= found["resources"]["lut"]


def test_the_plan_of_memories_is_below_the_resources(fabtune):
    status, out, _ = fabtune("estimate", "pool")
    assert status == 0
    row = next(line for line in out.splitlines() if "512 x 96" in line)
    assert [one.strip() for one in row.strip("│┃ ").split("│")] == [
        "pool",
        "1",
        "512 x 96",
        "block RAM",
        "1.5 BRAM36 of 512 x 36",
    ]
    assert "plan for the zcu102" in out


def test_estimate_takes_anyones_verilog(fabtune, tmp_path):
    (tmp_path / "mine.v").write_text(
        "module mine(input clk, input a, b, output reg q); always @(posedge clk) q <= a ^ b; endmodule\n"
    )
    status, out, _ = fabtune("estimate", "--verilog", "mine.v", "--top", "mine", "--board", "kv260", "--json")
    assert status == 0
    assert json.loads(out)["resources"] == {"lut": 1, "ff": 1, "bram36": 0, "uram": 0, "dsp": 0}


def test_included_files_are_found(fabtune, refused, tmp_path):
    (tmp_path / "mine.v").write_text(
        '`include "width.vh"\nmodule mine(input [`WIDTH-1:0] a, output [`WIDTH-1:0] q); assign q = ~a; endmodule\n'
    )
    (tmp_path / "my headers").mkdir()
    (tmp_path / "my headers" / "width.vh").write_text("`define WIDTH 4\n")
    command = "estimate --verilog mine.v --top mine"
    status, out, _ = fabtune(*command.split(), "--include", "my headers", "--json")
    assert status == 0
    assert json.loads(out)["resources"]["lut"] == 4
    assert "includes 'width.vh', which is not beside it: give --include FOLDER" in refused(command)
    assert "--include 'nowhere' is no folder" in refused(f"{command} --include nowhere")


def test_vhdl_is_refused(refused, tmp_path):
    (tmp_path / "mine.vhd").write_text("entity mine is end mine;\n")
    assert "mine.vhd is VHDL, which Yosys does not read" in refused("estimate --verilog mine.vhd --top mine")


MISTAKES = {
    "estimate": "either a BLOCK or --verilog",
    "estimate urng --verilog x.v": "either a BLOCK or --verilog",
    "estimate --verilog x.v": "--verilog needs --top NAME",
    "estimate --verilog x.v --top a": "no file 'x.v'",
    "estimate urng --board foo": "foo",
    "estimate urng --top a": "--top, --parameter and --include belong to --verilog",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
