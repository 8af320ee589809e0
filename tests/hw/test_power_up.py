"""Contents at power-up: random by a seed, different for each instance, and none for synthesis."""

import re
import subprocess

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.hw.power_up import DEFAULT_SEED, PLUSARG, power_up_argument, power_up_seed, with_power_up
from fabtune.hw.verilog import emit
from fabtune.sim.simulator import find

WORDS, WIDTH = 5, 37
MODULE = """module held(clk);
  input clk;
  (* ram_style = "ultra" *)
  reg [36:0] ram [4:0];
  reg [36:0] rom [1:0];
  initial begin
    rom[0] = 37'h1;
    rom[1] = 37'h2;
  end
  reg [36:0] without_reset ;
  reg [36:0] with_reset ;
  always @(posedge clk)
    without_reset <= ram[0];
  always @(posedge clk)
    with_reset <= rom[1];
  initial begin
    with_reset = 37'h3;
  end
endmodule
"""
BENCH = """module bench;
  held one(1'b0);
  held two(1'b0);
  integer at;
  initial begin
    #1 for (at = 0; at < 5; at = at + 1) $display("%b", one.ram[at]);
    $display("%b", one.without_reset);
    for (at = 0; at < 5; at = at + 1) $display("%b", two.ram[at]);
    $display("%b", two.without_reset);
    $display("%b %b %b", one.rom[0], one.rom[1], one.with_reset);
  end
endmodule
"""


@pytest.fixture
def contents(tmp_path):
    """Function that simulates two instances: words of the first, of the second, and memories with contents."""
    if not find("icarus"):
        pytest.skip("icarus is not installed")
    (tmp_path / "held.v").write_text(with_power_up(MODULE) + BENCH)

    def simulate(*arguments, define=()):
        build = ["iverilog", "-g2005", "-Wall", *define, "-s", "bench", "-o", "program", "held.v"]
        assert run(build, tmp_path) == []
        words = run(["vvp", "-n", "program", *arguments], tmp_path)
        return words[: WORDS + 1], words[WORDS + 1 : -1], [int(word, 2) for word in words[-1].split()]

    return simulate


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [line for line in (done.stdout + done.stderr).splitlines() if "timescale" not in line]


def test_words_follow_from_the_seed(contents):
    one, two, given = contents()
    assert given == [1, 2, 3]
    assert len({*one, *two}) == 2 * (WORDS + 1)  # each instance has its own
    assert contents(power_up_argument(DEFAULT_SEED)) == (one, two, given)
    assert not {*one, *two} & {*contents(power_up_argument(2))[0]}
    for bits in zip(*one, *two, strict=True):
        assert {*bits} == {"0", "1"}


def test_seed_0_gives_zeros(contents):
    one, two, given = contents(power_up_argument(0))
    assert {*one, *two} == {"0" * WIDTH}
    assert given == [1, 2, 3]


def test_synthesis_sees_no_contents(contents):
    one, two, given = contents(define=["-DSYNTHESIS"])
    assert {*one, *two} == {"x" * WIDTH}
    assert given == [1, 2, 3]


def test_seeds_of_simulations_are_never_that_of_zeros():
    assert all(0 < power_up_seed(seed) < 1 << 32 for seed in (0, (1 << 32) - 2, (1 << 32) - 1, (1 << 64) - 1))
    assert power_up_seed(0) == DEFAULT_SEED


def test_the_head_of_a_file_says_what_a_simulation_begins_with():
    assert f"+{PLUSARG}=N" in emit(BLOCKS["softmax"]()).verilog.partition("\nmodule ")[0]
    assert "power_up" not in emit(BLOCKS["urng"]()).verilog


def test_registers_without_reset_have_no_initial_value():
    text, _, simulated = emit(BLOCKS["softmax"]()).verilog.partition("`ifndef SYNTHESIS")
    initial = {*re.findall(r"^    (\S+) = ", text, re.MULTILINE)}
    drawn = {*re.findall(r"(\S+) = power_up_unused\[", simulated)}
    assert {"dividend", "quotient"} <= {name.removeprefix("block_") for name in drawn}
    assert initial
    assert not initial & drawn
