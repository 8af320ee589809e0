"""Verilator's sources are compiled with one precompiled header, equal for all designs."""

import os
import shlex
import subprocess

import pytest

from fabtune.sim.makefile import make_command
from fabtune.sim.simulator import compiler, environment, find, run_step

pytestmark = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")
COMPILER = """#!/bin/sh
echo "$@" >> commands
while [ $# -gt 0 ]; do
    case "$1" in
    -o) : > "$2"; exit ;;
    *.cpp) : > "$(basename "$1" .cpp).o" ;;
    esac
    shift
done
"""


@pytest.fixture
def compiled(tmp_path):
    """Compiler command lines of a design, by source, with the included files."""
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)

    def run(top, width):
        folder = tmp_path / top
        folder.mkdir()
        (folder / f"{top}.v").write_text(
            f"module {top}(input clk, input [{width}:0] i, output reg [{width}:0] o); always @(posedge clk) o <= ~i;\n"
            "endmodule\n"
        )
        (folder / "main.cpp").write_text("")
        env = environment("verilator", tmp_path) | {"OBJCACHE": ""}
        flags = "--cc", "--exe", "--prefix", "Vtop", "--Mdir", ".", "--output-split", "1"
        run_step(["verilator", *flags, "--top-module", top, f"{top}.v", "main.cpp"], folder, env, "verilator")
        run_step([*make_command(str(tmp_path / "compiler"), folder), "OPT_FAST=-O1"], folder, env, "make")
        found = {}
        for line in (folder / "commands").read_text().splitlines():
            words = shlex.split(line)
            if "-c" in words or "c++-header" in words:
                (source,) = [word for word in words if word.endswith((".cpp", "verilated.h"))]
                key = words[words.index("-o") + 1] if "c++-header" in words else source
                found[key] = words
        return found

    return run


def test_each_source_reads_the_header_of_its_kind(compiled):
    found = compiled("one", 3)
    own = {name: words for name, words in found.items() if name.startswith("Vtop") or name == "main.cpp"}
    assert len(own) >= 3
    for name, words in own.items():
        kind = "slow" if "Slow" in name else "fast"
        assert words[words.index("-include") + 1] == f"runtime.{kind}"
        # a header precompiled with other options is not used
        precompiled = found[f"runtime.{kind}.gch"]
        options = {word for word in words if word.startswith(("-O", "-D", "-std", "-f"))}
        assert options == {word for word in precompiled if word.startswith(("-O", "-D", "-std", "-f"))}
        assert precompiled[-1].endswith("include/verilated.h")
        assert "-include" not in precompiled
    assert {"runtime.slow.gch", "runtime.fast.gch"} <= set(found)


def test_the_header_is_precompiled_by_the_same_command_for_each_design(compiled):
    one, other = compiled("one", 3), compiled("other", 200)
    for name in ("runtime.slow.gch", "runtime.fast.gch"):
        assert one[name] == other[name]


def test_the_compiler_takes_what_was_precompiled(tmp_path):
    (tmp_path / "Vtop.mk").write_text("VK_USER_OBJS = main.o\nmain.o: main.cpp\n\t$(CXX) $(CPPFLAGS) -c -o $@ $<\n")
    (tmp_path / "main.cpp").write_text("int main() { return wanted; }\n")
    (tmp_path / "root" / "include").mkdir(parents=True)
    (tmp_path / "root" / "include" / "verilated.h").write_text("const int wanted = 0;\n")
    command = make_command(compiler(), tmp_path)
    (tmp_path / "runtime.fast").write_text("#error read as text\n")
    env = os.environ | {"VERILATOR_ROOT": str(tmp_path / "root")}
    done = subprocess.run([*command, "main.o"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "runtime.fast.gch").write_text("")
    (tmp_path / "main.o").unlink()
    done = subprocess.run([*command, "main.o"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "read as text" in done.stderr
