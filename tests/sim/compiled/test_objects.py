"""Verilator's runtime is compiled once, and again after any change of the inputs."""

import pytest

from fabtune.sim.compiled.objects import compile_once

COMPILER = """#!/bin/sh
echo "$@" >> log
grep -q wrong "$4" && exit 3
cat "$4" > "$3"
"""


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Compile a source with additional options; whether the compiler ran, and the object's contents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VERILATOR_ROOT", str(tmp_path / "root"))
    (tmp_path / "root" / "include" / "vltstd").mkdir(parents=True)
    for name in ("verilated.cpp", "verilated_vpi.cpp", "verilated.h", "vltstd/svdpi.h"):
        (tmp_path / "root" / "include" / name).write_text(name)
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    log = tmp_path / "log"

    def run(source="root/include/verilated.cpp", option="-c"):
        log.write_text("")
        (tmp_path / "a.o").unlink(missing_ok=True)
        status = compile_once([str(tmp_path / "compiler"), option, "-o", "a.o", str(tmp_path / source)])
        return status, bool(log.read_text()), (tmp_path / "a.o").read_text() if status == 0 else ""

    return run


def test_the_same_is_compiled_once(compiled):
    assert compiled() == (0, True, "verilated.cpp")
    assert compiled() == (0, False, "verilated.cpp")
    assert compiled("root/include/verilated_vpi.cpp") == (0, True, "verilated_vpi.cpp")


@pytest.mark.parametrize("changed", ["root/include/verilated.cpp", "root/include/vltstd/svdpi.h", "compiler"])
def test_what_has_changed_is_compiled_again(compiled, tmp_path, changed):
    compiled()
    with (tmp_path / changed).open("a") as file:
        file.write("# more")
    status, ran, text = compiled()
    assert (status, ran) == (0, True)
    assert text == (tmp_path / "root" / "include" / "verilated.cpp").read_text()


def test_another_option_is_another_object(compiled):
    compiled()
    assert compiled(option="-O2")[1]


def test_a_designs_own_source_is_always_compiled(compiled, tmp_path):
    (tmp_path / "Vtop.cpp").write_text("design")
    for _ in range(2):
        assert compiled("Vtop.cpp") == (0, True, "design")
    assert not (tmp_path / "cache").exists()


def test_a_failure_is_not_kept(compiled, tmp_path):
    (tmp_path / "root" / "include" / "verilated.cpp").write_text("wrong")
    for _ in range(2):
        assert compiled() == (3, True, "")
    assert not list((tmp_path / "cache").rglob("*.o"))
