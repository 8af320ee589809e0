"""Registers by SystemRDL: generated accesses on the emitted cores, and comparison with the C header.

systemrdl-compiler reads the text, cocotbext-axi drives the core. Of fabtune only the emitted text takes part.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from register_model import APERTURE, RegisterModel, Sequence, elaborated, place
from systemrdl.messages import RDLCompileError

from fabtune.golden.axi.register_map import Register, RegisterField, RegisterMap
from fabtune.golden.axi.systemrdl import systemrdl
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.hw.verilog import emit
from fabtune.sim.simulator import simulate

from ..small_cores import ADAPTERS, instantft, zostream, zotrain

CORES = {
    "instantft": instantft(),
    "zotrain": zotrain(),
    "zostream": zostream(),
}
"""Cores of tests/sim/cores, with shared builds."""


PARAMETERS = "; } value[31:0];\n    } parameters @"
SAMPLES = "hw = r; reset = 32'h0; } value[31:0];\n    } samples @"


def described(name, folder, change=lambda text: text):
    """The core's elaborated description, as written by `fabtune emit`."""
    documents = CORES[name].documents()
    (file,) = (one for one in documents if one.endswith(".rdl"))
    path = Path(folder, file)
    path.write_text(change(documents[file]))
    return elaborated(path)


def play(spec, steps, seed=1, pauses=0.3, simulator="verilator"):
    plan = {"seed": seed, "pauses": pauses, "script": steps, "kept": {}}
    return simulate(emit(spec), plan, simulator, bench="bench_axi").failures


@pytest.mark.usefixtures("importable_bench")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_generated_accesses_find_what_the_description_says(name, tmp_path):
    sequence = Sequence(RegisterModel(described(name, tmp_path)), seed=name)
    sequence.idle(walking=2)
    sequence.refused()
    sequence.soft_reset()
    sequence.refused()
    assert play(CORES[name], sequence.steps) == ()
    assert len(sequence.steps) > 500


@pytest.mark.slow
@pytest.mark.usefixtures("importable_bench")
@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("pauses", [0.0, 0.7])
def test_longer_sequences(name, pauses, tmp_path):
    sequence = Sequence(RegisterModel(described(name, tmp_path)), seed=f"{name} longer")
    sequence.idle(walking=99)
    sequence.idle(walking=99)  # from other values than those after reset
    sequence.refused()
    assert play(CORES[name], sequence.steps, 2, pauses) == ()


@pytest.mark.usefixtures("importable_bench")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("} signature @ 0x18", "} signature @ 0x1000"),
        (f"32'h0{PARAMETERS}", f"32'h10{PARAMETERS}"),
        (f"sw = rw; {SAMPLES}", f"sw = r; {SAMPLES}"),
    ],
    ids=["address", "reset value", "access"],
)
def test_another_description_is_seen(old, new, tmp_path, fast_simulator):
    def change(text):
        assert old in text
        return re.sub(r".*samples\.value->swwel.*\n", "", text.replace(old, new))

    sequence = Sequence(RegisterModel(described("instantft", tmp_path, change)), seed=3)
    sequence.idle(walking=0)
    # cores with equal registers
    (failure,) = play(InstantftSpec(**ADAPTERS), sequence.steps, pauses=0, simulator=fast_simulator)
    assert "script: " in failure


@pytest.mark.parametrize("name", CORES)
def test_the_header_says_the_same(name, tmp_path):
    """A C program prints every macro and code of the header; the description has exactly these."""
    top = described(name, tmp_path)
    prefix = top.inst_name.upper()
    documents = CORES[name].documents()
    header = documents[f"{top.inst_name}.h"]
    expected = {}
    for register in top.registers():
        macro = f"{prefix}_{register.inst_name.upper()}"
        expected[macro] = register.absolute_address
        for field in register.fields():
            if field.inst_name != "value" and not field.inst_name.startswith("unused"):
                expected[f"{macro}_{field.inst_name.upper()}_MASK"] = place(field)
                expected[f"{macro}_{field.inst_name.upper()}_SHIFT"] = field.low
    model = RegisterModel(top)
    for kind, path in (("COMMAND", "command.value"), ("ERROR", "status.error_code")):
        expected |= {f"{prefix}_{kind}_{code.upper()}": value for code, value in model.codes(path).items()}
    expected[f"{prefix}_MEMORY_BITS"] = CORES[name].address
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    names = [*re.findall(r"#define (\w+) \S", header), *re.findall(r"^  (\w+) =", header, re.MULTILINE)]
    prints = "\n".join(f'printf("{one} %u\\n", (unsigned) {one});' for one in names)
    source = tmp_path / "print.c"
    source.write_text(f'#include <stdio.h>\n#include "{top.inst_name}.h"\nint main(void) {{\n{prints}\nreturn 0; }}\n')
    (tmp_path / f"{top.inst_name}.h").write_text(header)
    subprocess.run([compiler, "-Wall", "-Werror", source, "-o", tmp_path / "print"], check=True)
    said = subprocess.run([tmp_path / "print"], capture_output=True, text=True, check=True).stdout
    assert {line.split()[0]: int(line.split()[1]) for line in said.splitlines()} == expected


def test_settings_are_locked_while_a_command_runs(tmp_path):
    for name in CORES:
        model = RegisterModel(described(name, tmp_path))
        always = {"interrupt_enable", "interrupt", "soft_reset"}
        found = {one.inst_name for one in model.registers.values() if model.writable(one) and not model.locked(one)}
        assert found == always
        locks = [one.get_property("swwel") for one in model.registers[model.address["command"]].fields()]
        assert [lock.get_path() for lock in locks] == [model.field("status.busy").get_path()]
        assert max(model.registers) < APERTURE


def test_any_map_is_compiled(tmp_path):
    """Names that are keywords, gaps between fields, reset values, a lock without a busy bit."""
    registers = RegisterMap(
        "signal",
        (
            Register("level", 0, "RW", 'say "when" \\', (RegisterField("reg", 4, 3, ""),), reset=0x50, locked=True),
            Register("alias", 8, "W1C", "", (RegisterField("done", 1, 1, ""),)),
            Register("alias_enable", 12, "RW", "", (RegisterField("mem", 1, 1, ""), RegisterField("x", 31, 1, ""))),
            Register("signature", 16, "R", ""),
            Register("request", 20, "W1S", "", (RegisterField("w", 3, 1, ""),)),
        ),
    )
    path = tmp_path / "map.rdl"
    path.write_text(systemrdl(registers))
    model = RegisterModel(elaborated(path))
    assert model.values[0] == 0x50
    assert model.field("signature.value").get_property("reset") is None
    assert sum(place(field) for field in model.registers[0].fields()) == 0xFFFFFFFF
    assert model.field("level.reg").get_property("desc") == ""
    assert model.registers[0].get_property("desc") == 'say "when" \\'
    assert model.field("alias.done").get_property("enable").get_path() == "signal.alias_enable.mem"
    assert model.locked(model.registers[0])
    assert [place(field) for field in model.requests(20)] == [8]
    assert not model.requests(8)
    path.write_text(systemrdl(registers).replace("@ 0x08", "@ 0x00"))
    with pytest.raises(RDLCompileError):
        elaborated(path)
