"""Self-tests of both cores on the compiled core: through the host driver, and through the driver in C."""

import ast
import importlib.util
import shutil
import subprocess
import sys
import types
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.host.clock import ClockWatch
from fabtune.boards.host.driver import Core
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.golden.errors import UserError
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice

from ...small_cores import OPTIONS, instantft, zotrain

CORES = {"instantft": instantft(), "instantft, options": instantft(**OPTIONS), "zotrain": zotrain()}
BLOCKS = ("instantft", "zotrain")
"""Cores whose files have their names."""
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILER = shutil.which("cc") or shutil.which("gcc")
OTHER_CLOCK = "8"
"""Code of `FABTUNE_OTHER_CLOCK`."""
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")


@cache
def program(name):
    """The compiled core, which other tests compile too."""
    return compiled_core(CORES[name])


def nanoseconds(device, mhz=187.5):
    """Time of a simulated device whose clock has a rate."""
    return round(1000 * device.simulated / mhz)


def simulated(name, **more):
    """A device, and its driver."""
    device = SimulatedDevice(program(name), limit=3_000_000, **more)
    return device, Core(CORES[name].registers, device, device, device.interrupt)


@pytest.mark.parametrize("name", CORES)
def test_a_core_passes_again_and_again(name):
    device, core = simulated(name)
    stages = [stage.name for stage in selftest_of(CORES[name]).stages]
    assert selftest_of(CORES[name]).run(core) == stages
    assert selftest_of(CORES[name]).run(core) == stages  # what is in the core from before does not matter
    device.reset()
    assert selftest_of(CORES[name]).run(core) == stages


@pytest.mark.parametrize("name", CORES)
def test_every_stage_that_writes_memory_compares_it(name):
    stages = selftest_of(CORES[name]).stages
    blind = {stage.command.name for stage in stages if not stage.memory}
    assert blind <= {"FORGET", "LOAD", "LOAD_ADAPTERS", "LOAD_DELTAS"}
    assert stages[-1].memory
    assert {stage.command for stage in stages} == set(CORES[name].registers.commands)


def test_another_core_is_refused():
    _, core = simulated("zotrain")
    other = zotrain(cut_rows=0)
    with pytest.raises(UserError, match="the core's signature is"):
        selftest_of(other).run(core)


@pytest.mark.parametrize(
    ("name", "region", "stage"),
    [
        ("instantft", "adapters", "stage 4 of 11, save the same adapters: adapters have CRC-32"),
        ("instantft", "samples", "record one sample: "),
        ("zotrain", "parameters", "infer with one order: logits have CRC-32"),
        ("zotrain", "first_state", "train one step: "),
    ],
)
def test_the_first_wrong_stage_is_named(name, region, stage, monkeypatch):
    test = selftest_of(CORES[name])
    offset = test.memory.addresses[region]
    image = test.image
    image[offset] ^= 64
    monkeypatch.setattr(type(test), "image", property(lambda _: image))
    _, core = simulated(name)
    with pytest.raises(UserError, match=stage):
        test.run(core)


def compiled(name, folder, flags=SANITIZED):
    """The self-test in C, from the files of a package."""
    files = core_package(CORES[name], BOARDS["kv260"], ["vitis", "linux", "baremetal"])
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    names = ("driver/fabtune.c", "driver/fabtune_uio.c", "driver/fabtune_selftest.c", "selftest/selftest.c")
    sources = [folder / one for one in names]
    main = Path(__file__).with_name("pipe.c")
    flags = [*WARNINGS, *flags, "-DFABTUNE_WATCHED_NS=5000u", f"-I{folder / 'driver'}"]
    command = [COMPILER, *flags, *sources, main, "-o", folder / "selftest.program"]
    subprocess.run(command, check=True)
    return folder / "selftest.program"


def play(executable, device, name, mode="interrupt", polls=0, changed=None, at=None, mhz=187.5, paused=0):
    """Run the program with a device of a clock at its other end; the words of its last line.

    At every seventh look at the time the program is paused for so many reads of a register.
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
    with process:
        for line in process.stdout:
            kind, *words = line.split()
            value = 0
            if kind == "result":
                result = words
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
    assert process.returncode == 0
    return result


class Array(np.ndarray):
    """As ``pynq.allocate`` gives: a view of a buffer of the simulated device."""

    def flush(self):
        self.buffer.array[:] = self
        self.buffer.flush()

    def invalidate(self):
        self.buffer.invalidate()
        self[:] = self.buffer.array


def overlay_core(name, folder, monkeypatch):
    """The driver for PYNQ of a package, on a simulated device; PYNQ is a stand-in."""
    files = core_package(CORES[name], BOARDS["kv260"], ["pynq"])
    for path in ("fabtune_core.py", "fabtune_clock.py", "fabtune_core.json", "selftest.bin", f"{name}.ipynb"):
        content = files[f"pynq/{path}"]
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
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
    pynq.DefaultIP, pynq.allocate = DefaultIP, allocate
    monkeypatch.setitem(sys.modules, "pynq", pynq)
    found = importlib.util.spec_from_file_location("fabtune_core", folder / "fabtune_core.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "fabtune_clock", raising=False)
    found.loader.exec_module(module)
    module.WATCHED = 5_000
    module.FabtuneCore.now = staticmethod(lambda: nanoseconds(device))
    return module, module.FabtuneCore("hwh")


@pytest.mark.parametrize("name", BLOCKS)
def test_the_driver_for_pynq_runs_the_whole_job(name, tmp_path, monkeypatch):
    module, core = overlay_core(name, tmp_path, monkeypatch)
    assert module.FabtuneCore.bindto == [f"fabtune:cores:{name}:1.0", f"xilinx.com:module_ref:{name}:1.0"]
    stages = [stage.name for stage in selftest_of(CORES[name]).stages]
    assert core.selftest(tmp_path / "selftest.bin") == stages
    assert core.selftest(tmp_path / "selftest.bin") == stages


def test_the_driver_for_pynq_measures_the_clock(tmp_path, monkeypatch):
    module, core = overlay_core("zotrain", tmp_path, monkeypatch)
    assert core.expected_hz == 187_500_000
    (tmp_path / "zotrain.clock").write_text("214283569\n")  # as Vivado's project leaves it
    with pytest.raises(module.CoreError, match=r"but the clock has 187\.[45]\d* MHz and not 214.284 MHz"):
        core.selftest(tmp_path / "selftest.bin")


def test_the_host_driver_measures_the_clock(monkeypatch):
    device, core = simulated("instantft")
    test = selftest_of(CORES["instantft"])
    monkeypatch.setattr("fabtune.boards.selftest.job.WATCHED", 5_000)

    def run(mhz, expected):
        watch = ClockWatch(lambda: nanoseconds(device, mhz))
        try:
            return test.run(core, expected, watch)
        finally:
            assert watch.nanoseconds > 5_000
            assert watch.hertz == pytest.approx(1e6 * mhz, rel=2e-3)

    assert len(run(187.5, 187_498_123)) == len(test.stages)
    with pytest.raises(UserError, match=r"but the clock has 214.\d* MHz and not 187.500 MHz"):
        run(1500 / 7, 187_500_000)


def test_the_driver_for_pynq_says_what_is_wrong(tmp_path, monkeypatch):
    module, core = overlay_core("zotrain", tmp_path, monkeypatch)
    with pytest.raises(module.CoreError, match="load ended with bad_address at 0x00000008"):
        core.run("load", parameters=8)
    with pytest.raises(ValueError, match="'rate' is not a setting: parameters, deltas, "):
        core.run("load", rate=8)
    image = bytearray((tmp_path / "selftest.bin").read_bytes())
    image[selftest_of(CORES["zotrain"]).memory.addresses["deltas"]] ^= 1
    (tmp_path / "other.bin").write_bytes(image)
    with pytest.raises(module.CoreError, match="stage 3 of 9, save the same deltas: deltas have CRC-32"):
        core.selftest(tmp_path / "other.bin")
    monkeypatch.setitem(module.CORE, "signature", 1)
    with pytest.raises(module.CoreError, match="another configuration"):
        module.FabtuneCore("hwh")


@pytest.mark.parametrize("name", BLOCKS)
def test_the_notebook_for_pynq_runs(name, tmp_path, monkeypatch, capsys):
    module, core = overlay_core(name, tmp_path, monkeypatch)
    found = nbformat.read(tmp_path / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(found)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "fabtune_core", module)

    def load(file):
        assert file == f"{name}.bit"
        return types.SimpleNamespace(core=core)

    sys.modules["pynq"].Overlay = load
    scope, results = {}, []
    for cell in (cell for cell in found.cells if cell.cell_type == "code"):
        *body, last = ast.parse(cell.source).body
        exec(compile(ast.Module(body, []), "cell", "exec"), scope)
        if isinstance(last, ast.Expr):
            results.append(eval(compile(ast.Expression(last.value), "cell", "eval"), scope))
        else:
            exec(compile(ast.Module([last], []), "cell", "exec"), scope)
    registers, stages, counted = results
    assert registers["signature"] == hex(CORES[name].signature)
    assert stages == [stage.name for stage in selftest_of(CORES[name]).stages]
    assert counted["cycles"] > 0
    assert capsys.readouterr().out.startswith("load ended with bad_address at 0x")


@needs_compiler
@pytest.mark.parametrize("name", CORES)
def test_the_driver_in_c_runs_the_whole_job(name, tmp_path):
    executable, (device, _) = compiled(name, tmp_path), simulated(name)
    stages = str(len(selftest_of(CORES[name]).stages))
    assert play(executable, device, name)[:4] == ["0", stages, "0", "0"]
    assert play(executable, device, name, mode="polling")[:4] == ["0", stages, "0", "0"]
    assert play(executable, device, name, mode="uio")[:4] == ["0", stages, "0", "0"]
    device.reset()
    assert play(executable, device, name)[:4] == ["0", stages, "0", "0"]


@needs_compiler
def test_the_driver_in_c_measures_the_clock(tmp_path):
    """That of the device, from what its cycle counter and its time say; 14 % more is what Linux makes of 200 MHz."""
    executable, (device, _) = compiled("zotrain", tmp_path), simulated("zotrain")
    stages = str(len(selftest_of(CORES["zotrain"]).stages))
    for mhz, status in ((187.5, "0"), (1500 / 7, OTHER_CLOCK), (150, OTHER_CLOCK)):
        *found, hertz = play(executable, device, "zotrain", mode="polling", mhz=mhz)
        assert found[:2] == [status, stages]
        assert int(hertz) == pytest.approx(1e6 * mhz, rel=2e-3)
    *_, hertz = play(executable, device, "zotrain", paused=20)
    assert int(hertz) == pytest.approx(187.5e6, rel=1e-2)
    # also behind a stage that is wrong
    *found, hertz = play(executable, device, "zotrain", changed="deltas", mhz=150)
    assert found[0] == "6"
    assert int(hertz) == pytest.approx(150e6, rel=2e-3)


@needs_compiler
def test_the_driver_in_c_says_what_is_wrong(tmp_path):
    executable = compiled("zotrain", tmp_path)
    device, _ = simulated("zotrain")
    different, stage, error, *_, what, _ = play(executable, device, "zotrain", changed="deltas")
    assert (different, stage, error, what) == ("6", "2", "0", "deltas")
    # an address between beats is refused by the core: its code and the value
    buffer = device.buffers[-1].device_address
    failed, stage, error, address, *_ = play(executable, device, "zotrain", at=buffer + 8)
    assert (failed, stage, error, int(address)) == (
        "1",
        "0",
        str(CORES["zotrain"].registers.errors["BAD_ADDRESS"]),
        buffer + 8,
    )
    # a buffer that the core does not reach: the bus's error, and the burst's address
    nowhere = 0xAB_0000_0000
    failed, stage, error, address, *_ = play(executable, device, "zotrain", at=nowhere)
    assert (failed, stage, error) == ("1", "0", str(CORES["zotrain"].registers.errors["READ_DECERR"]))
    assert int(address) == nowhere + selftest_of(CORES["zotrain"]).memory.addresses["parameters"]
    # and then a whole job is right
    assert play(executable, device, "zotrain")[0] == "0"


@needs_compiler
def test_the_driver_in_c_knows_its_core(tmp_path):
    device, _ = simulated("instantft")
    assert play(compiled("zotrain", tmp_path), device, "zotrain")[:2] == ["5", "0"]


@needs_compiler
def test_a_command_that_does_not_end_is_given_up(tmp_path):
    executable = compiled("zotrain", tmp_path)

    class Dead:
        """A core that is busy for ever once a command is written, and a device for its memory."""

        def __init__(self):
            self.device, self.started = SimulatedDevice(program("zotrain")), False

        def allocate(self, size):
            return self.device.allocate(size)

        def write(self, offset, value):
            self.started |= offset == 0

        def read(self, offset):
            signature = CORES["zotrain"].registers.map["signature"].offset
            return CORES["zotrain"].signature if offset == signature else int(self.started)

        @property
        def simulated(self):
            return 0

    assert play(executable, Dead(), "zotrain", mode="polling", polls=50)[:2] == ["3", "0"]
    # its soft reset reads as pending, too
    busy = Dead()
    busy.started = True
    assert play(executable, busy, "zotrain", mode="polling", polls=50)[:2] == ["7", "0"]


@needs_compiler
@pytest.mark.parametrize("language", ["c", "c++"])
def test_all_sources_compile_without_a_warning(language, tmp_path):
    compiled("instantft", tmp_path)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"] if language == "c" else ["-x", "c++", "-Werror"]
    names = [
        "fabtune.h",
        "fabtune_mmio.h",
        "fabtune_uio.h",
        "fabtune_selftest.h",
        "fabtune_instantft.h",
        "fabtune_shell.h",
    ]
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{name}"\n' for name in names) + "int main(void) { return 0; }\n")
    subprocess.run([COMPILER, *flags, "-fsyntax-only", f"-I{tmp_path / 'driver'}", source], check=True)
    if language == "c":
        for name in ("fabtune_mmio.c", "fabtune_uio.c"):
            subprocess.run([COMPILER, *flags, "-c", "-o", "/dev/null", tmp_path / "driver" / name], check=True)
        subprocess.run(
            [COMPILER, "-c", "-o", tmp_path / "image.o", "selftest_image.S"], check=True, cwd=tmp_path / "selftest"
        )
        made = subprocess.run(
            ["make", "-C", tmp_path / "linux", "selftest"], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        registers = tmp_path / "register file"
        registers.write_bytes(bytes(4096))
        for device, buffer, message in (
            ("/dev/null", "udmabuf0", "/dev/null: No such device"),
            (registers, "no_udmabuf", "no_udmabuf: No such file or directory"),
            (registers, "b" * 256, f"{'b' * 256}: File name too long"),
        ):
            command = [tmp_path / "linux" / "selftest", device, buffer, "selftest.bin"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{message}\n")


@needs_compiler
def test_the_bare_metal_program_runs(tmp_path):
    """With the library of the standalone domain as its documentation has it, and registers that read as 0."""
    compiled("zotrain", tmp_path)
    library = Path(__file__).with_name("standalone")
    names = ("fabtune.c", "fabtune_mmio.c", "fabtune_selftest.c", "selftest_baremetal.c")
    sources = [*(tmp_path / "driver" / name for name in names), library / "standalone.c", "selftest.c"]
    command = [COMPILER, *WARNINGS, f"-I{tmp_path / 'driver'}", f"-I{library}", *sources, "selftest_image.S", "-o", "a"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path / "selftest")
    assert (made.returncode, made.stderr) == (0, "")
    done = subprocess.run([tmp_path / "selftest" / "a"], capture_output=True, text=True, check=False)
    line = f"self-test: this is not the bitstream of 0x{CORES['zotrain'].signature:08x}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, line, "")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("layout", ["2024", "2025"])
def test_the_host_program_for_xrt_compiles(tmp_path, layout):
    """Against declarations as XRT's documentation has them: `experimental` beside the folder `xrt`, and later in it."""
    compiled("zotrain", tmp_path)
    headers = tmp_path / "include"
    shutil.copytree(Path(__file__).with_name("xrt"), headers / "xrt")
    shutil.copytree(
        Path(__file__).with_name("experimental"), headers / ("xrt" if layout == "2025" else ".") / "experimental"
    )
    includes = [f"-I{tmp_path / 'driver'}", f"-I{headers}"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, *includes, tmp_path / "driver" / "selftest_xrt.cpp"], check=True)
