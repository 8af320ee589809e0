"""Benches of a package: they pass unchanged, and report words that differ from golden."""

import re
import shutil
from xml.etree import ElementTree

import pytest

from fabtune.boards.example.package import example_of
from fabtune.boards.packaging import selftest_of
from fabtune.golden.registry import CORES
from fabtune.golden.settings import build
from fabtune.sim.simulator import find

from .conftest import SPECS, TASKS, written

PASS = re.compile(r"^PASS: (\d+) stages, (\d+) cycles, latency 20, stalls (\d+) %$", re.MULTILINE)
PAIRS = [("zotrain", "icarus"), ("zotrain", "verilator"), ("instantft", "verilator"), ("instantft", "icarus")]
"""Cores and simulators; the first pair builds fastest and always runs."""


def runs(pairs, more):
    """Test parameters: pairs that always run, and slow ones."""
    return [*pairs, *(pytest.param(*one, marks=pytest.mark.slow) for one in more)]


def needs(simulator):
    """Skip if a simulator is not installed."""
    if not find(simulator):
        pytest.skip(f"{simulator} is not installed")


def check_both_speeds(out, spec):
    """All stages pass at full speed and, taking longer, with stalls."""
    found = [[int(number) for number in line] for line in PASS.findall(out)]
    stages = len(selftest_of(spec).stages) + 2  # signature and soft reset
    assert [(line[0], line[2]) for line in found] == [(stages, 0), (stages, 50)]
    assert found[0][1] < found[1][1]


def check_results(package, simulator, tests):
    """Check that cocotb ran exactly these tests without failure."""
    cases = [*ElementTree.parse(package / "tb" / f"results-{simulator}.xml").iter("testcase")]
    assert {case.get("name") for case in cases} == tests
    bad = [
        case.get("name") for case in cases for kind in ("failure", "error", "skipped") if case.find(kind) is not None
    ]
    assert bad == []


@pytest.mark.parametrize(("name", "simulator"), runs(PAIRS[:1], PAIRS[1:]))
def test_the_tests_in_cocotb_pass(packages, make, name, simulator):
    needs(simulator)
    status, out = make(packages(name), f"SIM={simulator}")
    assert status == 0, out[-3000:]
    check_results(packages(name), simulator, {"full_speed", "stalled"})


@pytest.mark.parametrize(("name", "simulator"), runs(PAIRS[:1], PAIRS[1:]))
def test_the_bench_without_python_passes(packages, make, name, simulator):
    needs(simulator)
    status, out = make(packages(name), "sv", f"SIM={simulator}")
    assert status == 0, out[-3000:]
    check_both_speeds(out, SPECS[name])


@pytest.mark.parametrize(("name", "simulator"), runs(PAIRS[:1], PAIRS[1:]))
def test_the_example_has_golden_s_accuracy(packages, make, name, simulator):
    needs(simulator)
    status, out = make(packages(name), "example", f"SIM={simulator}")
    assert status == 0, out[-3000:]
    example = example_of(SPECS[name], TASKS[name])
    counted = re.findall(r"^infer\S*: (\d+) of 13 samples are right, golden says (\d+)$", out, re.MULTILINE)
    assert counted == [(str(one), str(one)) for one in (example.before, example.after)]
    assert len(PASS.findall(out)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["verilator", "icarus"])
@pytest.mark.parametrize("core", CORES)
def test_the_benches_of_a_preset_pass(make, tmp_path, core, simulator):
    needs(simulator)
    spec = build(CORES[core], [], "tiny")
    package = written(spec, tmp_path)
    status, out = make(package, "sv", f"SIM={simulator}")
    assert status == 0, out[-3000:]
    check_both_speeds(out, spec)
    assert make(package, f"SIM={simulator}")[0] == 0
    check_results(package, simulator, {"full_speed", "stalled"})


@pytest.fixture
def changed(packages, make):
    """Run the Verilog bench with a changed job file; returns exit status and output."""
    simulator = "icarus" if find("icarus") else "verilator"
    folder = packages("zotrain") / "tb"

    def run(file, old, new):
        shutil.rmtree(folder / "changed", ignore_errors=True)
        shutil.copytree(folder / "data", folder / "changed")
        text = (folder / "changed" / file).read_text()
        assert old in text
        (folder / "changed" / file).write_text(text.replace(old, new, 1))
        return make(packages("zotrain"), "sv", f"SIM={simulator}", "ARGS=+data=changed +limit=8000")

    yield run
    shutil.rmtree(folder / "changed", ignore_errors=True)


def test_a_wrong_expected_word_is_named(packages, changed):
    first = (packages("zotrain") / "tb" / "data" / "expected.hex").read_text().splitlines()[1]
    wrong = f"{int(first, 16) ^ 1 << 24:032x}"
    status, out = changed("expected.hex", first, wrong)
    assert status != 0
    place = r"FAIL: stage \d+, save_the_same_deltas: byte 19 of \d+ of the deltas"
    assert re.search(rf"{place} is {first[-8:-6]}, golden says {wrong[-8:-6]}", out), out[-2000:]
    assert "PASS" not in out


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("memory.hex", "\n", f"\n{'7f' * 16}\n", "save_the_same_deltas: byte 0 of"),
        ("program.txt", "ffffffff ", "fffffffe 1 # ", "stage 1, signature: register 00000018 is"),
        ("program.txt", "wait\n", "wait\nwait\nwrite 0000000c 00000001\nwait\n", "no answer in 8000 cycles"),
        ("program.txt", "wait\n", "weight\n", "there is no step weight in changed/program.txt"),
        ("program.txt", "address 0000001c 00000020 0", "address 0000001c 00000020 8", "AXI4, see above"),
    ],
)
def test_a_wrong_job_is_named(changed, file, old, new, message):
    status, out = changed(file, old, new)
    assert status != 0
    assert re.search(rf"FAIL: .*{message}", out), out[-2000:]
    assert "PASS" not in out


def test_a_folder_without_a_job_is_named(packages, make):
    simulator = "icarus" if find("icarus") else "verilator"
    status, out = make(packages("zotrain"), "sv", f"SIM={simulator}", "ARGS=+data=nowhere")
    assert status != 0
    assert "there is no nowhere/program.txt" in out
