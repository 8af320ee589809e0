"""Self-tests of both cores on the compiled core: through the host driver, and through the driver in C."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import types
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
OTHER_CLOCK = "11"
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
    with pytest.raises(
        UserError,
        match=f"signature {CORES['zotrain'].signature:#010x} instead of {other.signature:#010x}: the bitstream is",
    ):
        selftest_of(other).run(core)


@pytest.mark.parametrize(
    ("name", "region", "stage"),
    [
        ("instantft", "adapters", "self-test, memory, save the same adapters: adapters have CRC-32"),
        ("instantft", "samples", "stage 5 of 11, record one sample: "),
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
    said = []
    with pytest.raises(UserError, match=stage):
        test.run(core, say=said.append)
    copied = stage.startswith("self-test, memory")
    assert said[-1].startswith("memory: the core does not read or write this buffer") == copied
    assert ": wrong, " in said[-2 if copied else -1]


def compiled(name, folder, flags=SANITIZED):
    """The self-test in C, from the files of a package."""
    files = core_package(CORES[name], BOARDS["kv260"], ["vitis", "linux", "baremetal"])
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    names = ("fabtune.c", "fabtune_text.c", "fabtune_uio.c", "fabtune_selftest.c")
    sources = [*(folder / "driver" / one for one in names), folder / "selftest/selftest.c"]
    main = Path(__file__).with_name("pipe.c")
    flags = [*WARNINGS, *flags, "-DFABTUNE_WATCHED_NS=5000u", f"-I{folder / 'driver'}"]
    command = [COMPILER, *flags, *sources, main, "-o", folder / "selftest.program"]
    subprocess.run(command, check=True)
    return folder / "selftest.program"


class Ended(NamedTuple):
    """How the self-test in C ended: its result and report, its exit status, and what it printed."""

    result: str
    stage: int
    error: int
    address: int
    cycles: int
    hertz: int
    what: str
    status: int
    said: list


def play(executable, device, name, mode="interrupt", polls=0, changed=None, at=None, mhz=187.5):
    """Run the program with a device of a clock at its other end; what it printed, and how it ended."""
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
    with pytest.raises(module.CoreError, match=r"clock: 187\.[45]\d* MHz instead of 214.284 MHz"):
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
    with pytest.raises(UserError, match=r"self-test, clock: 214.\d* MHz instead of 187.500 MHz"):
        run(1500 / 7, 187_500_000)


def test_the_driver_for_pynq_says_what_is_wrong(tmp_path, monkeypatch):
    module, core = overlay_core("zotrain", tmp_path, monkeypatch)
    with pytest.raises(
        module.CoreError, match=r"reports an error: status 0x00000306, error 3 \(bad_address\) at 0x8, "
    ):
        core.run("load", parameters=8)
    with pytest.raises(ValueError, match="'rate' is not a setting: parameters, deltas, "):
        core.run("load", rate=8)
    image = bytearray((tmp_path / "selftest.bin").read_bytes())
    image[selftest_of(CORES["zotrain"]).memory.addresses["deltas"]] ^= 1
    (tmp_path / "other.bin").write_bytes(image)
    with pytest.raises(module.CoreError, match="memory, save the same deltas: deltas have CRC-32"):
        core.selftest(tmp_path / "other.bin")
    monkeypatch.setitem(module.CORE, "signature", 1)
    with pytest.raises(module.CoreError, match="instead of 0x00000001: the bitstream is of other settings"):
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
    assert "error 3 (bad_address) at 0x" in capsys.readouterr().out.splitlines()[-1]


@needs_compiler
@pytest.mark.parametrize("name", CORES)
def test_the_driver_in_c_runs_the_whole_job(name, tmp_path):
    executable, (device, _) = compiled(name, tmp_path), simulated(name)
    stages = len(selftest_of(CORES[name]).stages)
    for mode in ("interrupt", "polling", "uio"):
        assert play(executable, device, name, mode)[:4] == ("0", stages, 0, 0)
    device.reset()
    ended = play(executable, device, name)
    assert ended[:4] == ("0", stages, 0, 0)
    assert ended.status == 0


@needs_compiler
@pytest.mark.parametrize("name", BLOCKS)
def test_all_systems_say_the_same_in_the_same_order(name, tmp_path, monkeypatch):
    device, core = simulated(name)
    from_c = play(compiled(name, tmp_path), device, name).said
    from_python = []
    watch = ClockWatch(lambda: nanoseconds(device))
    monkeypatch.setattr("fabtune.boards.selftest.job.WATCHED", 5_000)
    selftest_of(CORES[name]).run(core, 187_500_000, watch, say=from_python.append)
    _, driver = overlay_core(name, tmp_path, monkeypatch)
    from_pynq = []
    driver.selftest(tmp_path / "selftest.bin", say=from_pynq.append)
    # each has a memory of its own, and waits as it can
    where = r"at 0x[0-9a-f]+|\d+ cycles|polled.*|with interrupt.*|[\d.]+ MHz"
    said = [[re.sub(where, "", line) for line in lines] for lines in (from_c, from_python, from_pynq)]
    assert said[0] == said[1] == said[2]
    assert said[0][:3] == [
        f"self-test: {name}, signature {CORES[name].signature:#010x}, ",
        "registers: begin",
        f"registers: right, signature {CORES[name].signature:#010x}",
    ]
    copies = ("adapters", "adapters") if name == "instantft" else ("deltas", "deltas")
    assert said[0][4:6] == [f"memory, load {copies[0]}: right, ", f"memory, save the same {copies[1]}: right, "]
    stages = [stage.name for stage in selftest_of(CORES[name]).stages]
    parts = [f"stage {number} of {len(stages)}, {stage}: " for number, stage in enumerate(stages, 1)]
    assert said[0][6:-2] == [part + end for part in parts for end in ("begins", "right, ")]
    assert said[0][-2] == "clock: right, "
    assert said[0][-1] == f"self-test: all {len(stages)} stages are right"


@needs_compiler
def test_the_driver_in_c_measures_the_clock(tmp_path):
    """That of the device, from what its cycle counter and its time say; 14 % more is what Linux makes of 200 MHz."""
    executable, (device, _) = compiled("zotrain", tmp_path), simulated("zotrain")
    stages = len(selftest_of(CORES["zotrain"]).stages)
    for mhz, result in ((187.5, "0"), (1500 / 7, OTHER_CLOCK), (150, OTHER_CLOCK)):
        ended = play(executable, device, "zotrain", mode="polling", mhz=mhz)
        assert (ended.result, ended.stage, ended.status) == (result, stages, 0 if result == "0" else 8)
        assert ended.hertz == pytest.approx(1e6 * mhz, rel=2e-3)
        measured = f"{ended.hertz / 1e6:.3f} MHz"
        said = f"right, {measured}" if result == "0" else f"wrong, {measured} instead of 187.500 MHz"
        assert ended.said[-2] == f"clock: {said}"
    # also behind a stage that is wrong
    ended = play(executable, device, "zotrain", changed="parameters", mhz=150)
    assert ended.result == "6"
    assert ended.hertz == pytest.approx(150e6, rel=2e-3)


@needs_compiler
def test_the_driver_in_c_says_what_is_wrong(tmp_path):
    executable = compiled("zotrain", tmp_path)
    device, _ = simulated("zotrain")
    errors = CORES["zotrain"].registers.errors
    ended = play(executable, device, "zotrain", changed="parameters")
    assert (ended.result, ended.stage, ended.error, ended.what, ended.status) == ("6", 3, 0, "logits", 1)
    assert re.fullmatch(r"stage 4 of 9, .*: wrong, logits have CRC-32 0x\w+, golden says 0x\w+", ended.said[-3])
    assert ended.said[-2].startswith("clock: right, ")
    assert ended.said[-1] == "self-test: wrong, exit status 1"
    # what the core copies is not what the program has
    ended = play(executable, device, "zotrain", changed="deltas")
    assert (ended.result, ended.stage, ended.error, ended.what, ended.status) == ("9", 0, 0, "deltas", 4)
    assert "memory, save the same deltas: wrong, deltas have CRC-32" in ended.said[-3]
    assert ended.said[-2].startswith("memory: the core does not read or write this buffer")
    # an address between beats is refused by the core: its code and the value
    buffer = device.buffers[-1].device_address
    ended = play(executable, device, "zotrain", at=buffer + 8)
    deltas = buffer + 8 + selftest_of(CORES["zotrain"]).memory.addresses["deltas"]
    assert ended[:4] == ("9", 0, errors["BAD_ADDRESS"], deltas)
    assert f"error {errors['BAD_ADDRESS'].value} (bad_address) at {deltas:#x}, " in ended.said[-3]
    # a buffer that the core does not reach: the bus's error, and the burst's address
    nowhere = 0xAB_0000_0000
    ended = play(executable, device, "zotrain", at=nowhere)
    assert ended[:4] == ("9", 0, errors["READ_DECERR"], deltas - buffer - 8 + nowhere)
    assert "(read_decerr) at 0xab" in ended.said[-3]
    # and then a whole job is right
    assert play(executable, device, "zotrain").status == 0


@needs_compiler
def test_a_command_that_fails_behind_the_memory_has_a_status_of_its_own(tmp_path):
    executable = compiled("zotrain", tmp_path)
    device, _ = simulated("zotrain")
    code = CORES["zotrain"].registers.errors["BAD_ADDRESS"].value

    class Refuses:
        """A device that ends the sixth command with an error."""

        def __init__(self):
            self.commands = 0

        def __getattr__(self, name):
            return getattr(device, name)

        def write(self, offset, value):
            self.commands += offset == 0
            device.write(offset, 99 if offset == 0 and self.commands == 6 else value)

    ended = play(executable, Refuses(), "zotrain")
    code = CORES["zotrain"].registers.errors["BAD_COMMAND"].value
    assert (ended.result, ended.stage, ended.error, ended.address, ended.status) == ("1", 3, code, 99, 5)
    status = 0x6 | code << 8
    words = f"wrong, the core reports an error: status {status:#010x}, error {code} (bad_command) at 0x63, "
    assert words in ended.said[-3]


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
    names = ("fabtune.c", "fabtune_text.c", "fabtune_mmio.c", "fabtune_selftest.c", "selftest_baremetal.c")
    sources = [*(tmp_path / "driver" / name for name in names), library / "standalone.c", "selftest.c"]
    command = [COMPILER, *WARNINGS, f"-I{tmp_path / 'driver'}", f"-I{library}", *sources, "selftest_image.S", "-o", "a"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path / "selftest")
    assert (made.returncode, made.stderr) == (0, "")
    done = subprocess.run([tmp_path / "selftest" / "a"], capture_output=True, text=True, check=False)
    signature = f"{CORES['zotrain'].signature:#010x}"
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == [
        f"self-test: zotrain, signature {signature}, polled, time limit 10 s",
        "registers: begin",
        f"registers: wrong, signature 0x00000000 instead of {signature}: the core's clock is off, or it is in reset",
        "self-test: wrong, exit status 3",
    ]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here")
def test_the_host_program_for_xrt_compiles(tmp_path):
    """Against declarations as XRT's documentation has them."""
    compiled("zotrain", tmp_path)
    includes = [f"-I{tmp_path / 'driver'}", f"-I{Path(__file__).parent}"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, *includes, tmp_path / "driver" / "selftest_xrt.cpp"], check=True)


@pytest.mark.parametrize(("board", "loader"), [("kv260", "xmutil loadapp"), ("zcu102", "fpgautil -b")])
def test_the_steps_for_linux_are_those_of_the_board(board, loader):
    files = core_package(CORES["zotrain"], BOARDS[board], ["linux"])
    steps = files["README.md"].partition("## linux")[2].partition("## Memories")[0]
    assert [one for one in ("xmutil loadapp", "fpgautil -b") if one in steps] == [loader]
    assert not re.search(r"CORE|BOARD|LOAD\b", steps)
    made = {"out/zotrain.bit", "out/zotrain.bit.bin", "linux/zotrain.dtbo", "linux/selftest"}
    named = set(re.findall(r"\b(?:vivado|out|linux|driver|selftest)/[\w.]+", re.sub(r"/(?:sys|lib)/\S*", "", steps)))
    assert named - made <= set(files)
    assert ("linux/shell.json" in files) == (board == "kv260")  # it is for xmutil
    # bootgen writes its output beside the bitstream; with -process_bitstream it ignores -o
    assert files["linux/zotrain.bif"] == "all: { [destination_device = pl] out/zotrain.bit }\n"
    assert "bootgen -image linux/zotrain.bif -arch zynqmp -process_bitstream bin -w " in steps


@pytest.mark.skipif(shutil.which("dtc") is None, reason="dtc is not installed: apt install device-tree-compiler")
@pytest.mark.parametrize("name", BLOCKS)
def test_the_overlay_compiles(name, tmp_path):
    files = core_package(CORES[name], BOARDS["kv260"], ["linux"], mhz=187.5)
    text = files[f"linux/{name}.dts"]
    source, blob, back = tmp_path / "a.dts", tmp_path / "a.dtbo", tmp_path / "back.dts"
    source.write_text(text)
    done = subprocess.run(["dtc", "-@", "-O", "dtb", "-o", blob, source], capture_output=True, text=True, check=True)
    assert "rror" not in done.stderr
    subprocess.run(["dtc", "-q", "-O", "dts", "-o", back, blob], check=True)
    found = back.read_text()
    assert 'compatible = "generic-uio"' in found
    assert "interrupts = <0x00 0x59 0x04>" in found
    assert "reg = <0x00 0xa0000000 0x00 0x1000>" in found
    assert f"assigned-clock-rates = <0x{187_500_000:x}>" in found
    size = int(found.partition("ikwzm,u-dma-buf")[2].partition("size = <")[2].partition(">")[0], 16)
    assert selftest_of(CORES[name]).size <= size < selftest_of(CORES[name]).size + 4096
    assert "sync-mode = <0x02>" in found.partition("ikwzm,u-dma-buf")[2]
