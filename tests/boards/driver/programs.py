"""Programs and drivers of packages, connected to compiled cores."""

import importlib.util
import shutil
import subprocess
import sys
import types
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.host.driver import Core
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.scripts.outputs import OutputFolder
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice

from ...small_cores import OPTIONS, instantft, with_slow, zostream, zotrain

CORES = {
    "instantft": instantft(monitor=True),
    "instantft, options": instantft(**OPTIONS, monitor=True),
    "zotrain": zotrain(monitor=True),
    "zostream": zostream(monitor=True),
}
"""Cores with the settings of their packages, generated once."""
CALM = with_slow(CORES, ("instantft, options", "zostream"))
"""Cores for long tests; the slow tests use all."""
BLOCKS = ("instantft", "zotrain", "zostream")
"""Cores whose files carry their names."""
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")


@cache
def program(name):
    """The compiled core, shared with other tests."""
    return compiled_core(CORES[name])


def nanoseconds(device, mhz=187.5):
    """Time of a simulated device at a clock rate."""
    return round(1000 * device.simulated / mhz)


def simulated(name, **more):
    """A device and its driver."""
    device = SimulatedDevice(program(name), limit=3_000_000, **more)
    return device, Core(CORES[name].registers, device, device, device.interrupt)


def written(spec, targets, folder):
    OutputFolder(folder, force=True, default=False).write(core_package(spec, BOARDS["kv260"], targets))


def compiled(name, folder, flags=SANITIZED):
    """The C self-test, from a package's files."""
    written(CORES[name], ["linux", "baremetal"], folder)
    names = ("fabtune.c", "fabtune_text.c", "fabtune_uio.c", "fabtune_selftest.c")
    sources = [*(folder / "driver" / one for one in names), folder / "selftest/selftest.c"]
    main = Path(__file__).with_name("pipe.c")
    flags = [*WARNINGS, *flags, "-DFABTUNE_WATCHED_NS=5000u", f"-I{folder / 'driver'}"]
    command = [COMPILER, *flags, *sources, main, "-o", folder / "selftest.program"]
    subprocess.run(command, check=True)
    return folder / "selftest.program"


class Ended(NamedTuple):
    """Outcome of the C self-test: result, report, exit status and output."""

    result: str
    stage: int
    error: int
    address: int
    cycles: int
    hertz: int
    what: str
    status: int
    said: list


def play(executable, device, name, mode="interrupt", polls=0, changed=None, at=None, mhz=187.5, paused=0):
    """Run the program against a device with a clock; returns its outcome.

    At every seventh reading of the time the program pauses for the given number of register reads.
    """
    looks = 0
    test = selftest_of(CORES[name])
    buffer = device.allocate(test.size)
    memory = executable.parent / "memory"
    image = np.zeros(test.size, np.uint8)
    image[: test.image.size] = test.image
    if changed:
        image[test.memory.addresses[changed]] ^= 1
    memory.write_bytes(image.tobytes())
    address = buffer.device_address if at is None else at
    process = subprocess.Popen(
        [executable, memory, str(address), mode, str(polls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    said = []
    with process:
        for line in process.stdout:
            kind, *words = line.split()
            value = 0
            if kind == "result":
                result = words
                continue
            if kind == "say":
                said.append(line.removeprefix("say ").rstrip("\n"))
                continue
            if kind == "write":
                device.write(int(words[0]), int(words[1]))
                continue
            if kind == "read":
                value = device.read(int(words[0]))
            elif kind == "now":
                looks += 1
                for _ in range(paused if looks % 7 == 0 else 0):
                    device.read(0)
                value = nanoseconds(device, mhz)
            elif kind == "interrupt":
                device.interrupt()
            elif words == ["1"]:
                buffer.array[:] = np.frombuffer(memory.read_bytes(), np.uint8)
                buffer.flush()
            else:
                buffer.invalidate()
                memory.write_bytes(buffer.array.tobytes())
            process.stdin.write(f"{value}\n")
            process.stdin.flush()
    return Ended(*result[:1], *map(int, result[1:6]), " ".join(result[6:]), process.returncode, said)


class Array(np.ndarray):
    """As ``pynq.allocate`` returns: a view of a simulated device's buffer."""

    def flush(self):
        self.buffer.array[:] = self
        self.buffer.flush()

    def invalidate(self):
        self.buffer.invalidate()
        self[:] = self.buffer.array


def overlay_core(name, folder, monkeypatch, task=None):
    """A package's PYNQ driver on a simulated device, with a stub of `pynq`."""
    files = core_package(CORES[name], BOARDS["kv260"], ["pynq"], task=task)
    for path, content in files.items():
        if not path.startswith("pynq/"):
            continue
        (folder / Path(path).name).write_bytes(content if isinstance(content, bytes) else content.encode())
    device, _ = simulated(name)

    class DefaultIP:
        def __init__(self, description):
            assert description == "hwh"

        def read(self, offset):
            return device.read(offset)

        def write(self, offset, value):
            device.write(offset, value)

    def allocate(shape, dtype):
        found = np.zeros(shape, dtype).view(Array)
        found.buffer = device.allocate(found.nbytes)
        found.device_address = found.buffer.device_address
        return found

    pynq = types.ModuleType("pynq")
    pynq.DefaultIP, pynq.Overlay, pynq.allocate = DefaultIP, None, allocate
    monkeypatch.setitem(sys.modules, "pynq", pynq)
    found = importlib.util.spec_from_file_location("fabtune_core", folder / "fabtune_core.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "fabtune_clock", raising=False)
    found.loader.exec_module(module)
    module.WATCHED = 5_000
    module.FabtuneCore.now = staticmethod(lambda: nanoseconds(device))
    return module, module.FabtuneCore("hwh")
