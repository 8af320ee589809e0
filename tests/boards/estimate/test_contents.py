"""Memory contents in files equal those in the Verilog."""

from pathlib import Path

import pytest

from fabtune.boards.estimate.contents import contents_in_files
from fabtune.hw import yosys

ROM = """module {name}(input clk, input [1:0] a, output reg [11:0] p, output reg [4:0] q);
  reg [11:0] \\first$one [3:0];
  initial begin
    \\first$one [0] = 12'habc;
    \\first$one [1] = 12'h00f;
    \\first$one [2] = 12'h123;
    \\first$one [3] = 12'h800;
  end
  reg [4:0] second [3:0];
  initial begin
    second[3] = 5'h1e;
    second[1] = 5'h07;
    second[0] = 5'h10;
    second[2] = 5'h00;
  end
  always @(posedge clk) begin
    p <= \\first$one [a];
    q <= second[a];
  end
endmodule
"""


def test_contents_from_files_are_the_same(tmp_path: Path) -> None:
    text = contents_in_files(ROM.format(name="gate"), tmp_path, "words")
    assert text.count("$readmemh") == 2
    assert (tmp_path / "words1.hex").read_text() == "@0 abc\n@1 00f\n@2 123\n@3 800\n"
    (tmp_path / "gold.v").write_text(ROM.format(name="gold"))
    (tmp_path / "gate.v").write_text(text)
    yosys.run(
        [
            "read_verilog gold.v gate.v",
            *["proc", "memory"],
            "miter -equiv -flatten gold gate miter",
            "hierarchy -top miter",
            "sat -verify -seq 2 -set-init-zero -prove trigger 0 miter",
        ],
        tmp_path,
    )


@pytest.mark.parametrize(
    "text",
    [
        "  initial begin\n    first[0] = 4'h1;\n    second[0] = 4'h2;\n  end\n",
        "  initial begin\n    first[0] = other;\n  end\n",
        "  initial begin\n    count = 4'h1;\n  end\n",
    ],
    ids=["two memories", "no constant", "no memory"],
)
def test_other_statements_stay(tmp_path: Path, text: str) -> None:
    assert contents_in_files(text, tmp_path, "words") == text
    assert not list(tmp_path.iterdir())
