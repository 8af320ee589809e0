"""Bench of many mutants in one simulator: each mutant is a forked process, started before the tests.

The module must be listed before the module of the tests. Each process inherits the loaded simulator and Python, and
starts with the design at power-up.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import Timer

PATIENCE, LEAST_SECONDS = 10, 60.0
"""Time limit of a mutant: this multiple of the faultless design's time, but at least this number of seconds."""


@cocotb.test()
async def choose_mutant(dut: Any) -> None:
    """Fork a process for each mutant: in the fork this test passes, and the remaining tests run."""
    plan = json.loads(Path(os.environ["FABTUNE_PLAN"]).read_text())["mutants"]
    folder = Path(os.environ["FABTUNE_RESULTS"])
    endings: dict[int, tuple[str, str]] = {}
    running: dict[int, int] = {}
    results = folder / "0.xml"
    seconds = 0.0

    def wait() -> None:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        late = code == -signal.SIGALRM
        ending = ("time", f"no end after {seconds:.0f} s") if late else ("ending", f"ended with status {code}")
        endings[running.pop(pid)] = ending

    for number in [0, *plan["numbers"]]:
        getattr(dut, plan["port"]).value = number
        await Timer(1, "ns")  # the value settles before the clock starts
        if len(running) == plan["processes"]:
            wait()
        if not (pid := os.fork()):
            _become(number, folder, seconds)
            return
        running[pid] = number
        if number == 0:
            start = time.monotonic()
            wait()
            if not results.exists() or "<failure" in results.read_text():
                break
            seconds = max(LEAST_SECONDS, PATIENCE * (time.monotonic() - start))
    while running:
        wait()
    (folder / "endings.json").write_text(json.dumps(endings))
    os._exit(0)  # the remaining tests belong to the forks


def _become(number: int, folder: Path, seconds: float) -> None:
    """Give this process its own output files and a time limit."""
    log = os.open(folder / f"{number}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ |= {
        "COCOTB_RESULTS_FILE": str(folder / f"{number}.xml"),
        "FABTUNE_RESULTS": str(folder / f"{number}.json"),
    }
    # leave at once: the program would wait for Verilator's threads, which a fork does not have
    atexit.register(os._exit, 0)
    signal.setitimer(signal.ITIMER_REAL, seconds)
