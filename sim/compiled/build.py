"""Compilation of an emitted core with the C++ harness into a program that simulates jobs."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

from ...golden.cache import cached, digest_of, package_version
from ...golden.errors import UserError
from ..makefile import make_command
from ..simulator import compiler, environment, find, run_step

Waves = Literal["vcd", "saif"]
"""Waveforms, or toggles and durations of all nets."""
HARNESS = tuple(Path(__file__).with_name(name) for name in ("harness.cpp", "harness.h", "dram.h"))

_VERILATOR_FLAGS = (
    "--cc", "--exe", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "-Wno-fatal", "-Wno-style",
    "--prefix", "Vtop",
)  # fmt: skip
# A core's long functions run as fast at -O1 as at -O2 and -O3, whose alias analysis takes minutes: g++ 12 needed 100 s
# for one file of 0.7 MB at -O3, 3 s at -O1. A lower limit of alias queries per access (1000 by default) saves another
# tenth. -march=native gains nothing, and would tie the cache to one kind of machine.
_OPTIMISED = "OPT_FAST=-O1 --param sccvn-max-alias-queries-per-access=20"


def build(verilog: str, top: str, ports: int, waves: Waves | None = None, faults: bool = False) -> Path:
    """Compile a core with the harness; the program is cached by the contents of all inputs.

    Parameters
    ----------
    verilog : str
        Core with the ports `s_axi_control`, `m_axi_gmem0`, `m_axi_gmem1` ..., and optionally the monitor of all
        updates: `monitor_data` has one beat or several, with a bit of `monitor_valid` for each, `monitor_beat` the
        number of the first; `monitor_done` ends a batch or step; `monitor_operation` is the number of the active
        operation; `monitor_busy` has a bit for each active part, at most 32.
    top : str
        Name of the top module.
    ports : int
        Number of `m_axi_gmem` ports, 1 to 3.
    waves : "vcd" or "saif", optional
        Output of `Session.waves`; slower.
    faults : bool
        The core contains faults, selectable by a session: `mutation.faults.mutants`.

    Raises
    ------
    UserError
        If a tool is missing, or the Verilog does not compile.
    """
    if ports not in (1, 2, 3):
        raise UserError(f"ports = {ports}: a core has 1 to 3 memory ports")
    cxx = compiler()
    flags = [*_VERILATOR_FLAGS, *([f"--trace-{waves}"] if waves else [])]
    monitor = "monitor_valid" in verilog
    operations = "monitor_operation" in verilog
    switches = {
        "MONITOR": monitor,
        "OPERATIONS": operations,
        "PARTS": "monitor_busy" in verilog,
        "MUTANTS": faults,
        "VCD": waves == "vcd",
        "SAIF": waves == "saif",
    }
    macros = [f"#define PORTS {ports}", *(f"#define {name}" for name, wanted in switches.items() if wanted)]
    harness = {path.name: path.read_text(encoding="utf-8") for path in HARNESS}
    # in a file: with -D options Verilator's own sources would be compiled anew for each choice
    harness["macros.h"] = "\n".join([*macros, ""])
    tools = [find("verilator"), package_version("verilator"), cxx, platform.machine(), _OPTIMISED]
    key = digest_of(tools, flags, top, harness, verilog)

    def make(entry: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="fabtune-") as scratch:
            folder = Path(scratch, "build")
            folder.mkdir()
            for name, text in (harness | {f"{top}.v": verilog}).items():
                (folder / name).write_text(text, encoding="utf-8")
            env = environment("verilator", Path(scratch))
            program = "verilator"  # the link that `environment` makes, or the user's own
            sources = [f"{top}.v", "harness.cpp"]
            run_step([program, *flags, "--top-module", top, "--Mdir", ".", *sources],
                  folder, env, f"verilator could not read {top}")  # fmt: skip
            make_it = [*make_command(cxx, folder), _OPTIMISED, f"PYTHON3={sys.executable}", "Vtop"]
            run_step(make_it, folder, env, f"{top} could not be compiled")
            shutil.copy2(folder / "Vtop", entry)

    return cached("sim", f"{top}-compiled-{key}", make)
