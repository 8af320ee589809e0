"""Self-tests of both cores on the compiled core, through the host driver and the C driver."""

import re
import shutil
import subprocess
import types
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.host.clock import ClockWatch
from fabtune.boards.host.driver import Finished
from fabtune.boards.packaging import selftest_of
from fabtune.boards.selftest.job import SelfTest
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError

from ...small_cores import ONE_STAGE, with_slow, zotrain
from .programs import (
    BLOCKS,
    CALM,
    COMPILER,
    CORES,
    WARNINGS,
    compiled,
    nanoseconds,
    needs_compiler,
    overlay_core,
    play,
    simulated,
    written,
)

OTHER_CLOCK = "11"
"""Error code `FABTUNE_OTHER_CLOCK`."""


@pytest.mark.parametrize("name", CALM)
def test_a_core_passes_again_and_again(name):
    device, core = simulated(name)
    stages = [stage.name for stage in selftest_of(CORES[name]).stages]
    assert selftest_of(CORES[name]).run(core) == stages
    assert selftest_of(CORES[name]).run(core) == stages  # earlier core state is irrelevant
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


@pytest.mark.parametrize("name", with_slow(BLOCKS))
def test_a_self_test_ends_a_command_that_is_running(name):
    (_, core), test = simulated(name), selftest_of(CORES[name])
    test.run(core)  # leaves valid settings for each command
    for command in CORES[name].registers.commands:
        core.write("command", command)
        assert core.busy
        assert len(test.run(core)) == len(test.stages)


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


class Idle:
    """A core whose commands do nothing for a plausible number of cycles; records the commands."""

    def __init__(self):
        self.watch, self.ran = None, []

    def waiting(self, _):
        return ""

    def try_registers(self, _):
        pass

    def allocate(self, size):
        return types.SimpleNamespace(
            array=np.zeros(size, np.uint8), device_address=0, flush=lambda: None, invalidate=lambda: None
        )

    def run(self, command, *, seconds, steps):
        self.ran.append((command, steps))
        if self.watch:
            self.watch.nanoseconds += 10**9
        return Finished(steps, {})


def test_the_clock_is_measured_with_what_the_last_network_runs():
    spec, core = CORES["zotrain"], Idle()
    test, commands = SelfTest(spec), spec.registers.commands
    for name, steps in (("LOAD", 1), ("TRAIN", 90), ("LOAD", 1), ("TRAIN", 50), ("INFER", 20)):
        test.stage(name, commands[name], {"steps": steps})
    test.run(core, 187_500_000)
    assert core.ran[len(test.stages) :] == [(commands["TRAIN"], 50)]


@needs_compiler
@pytest.mark.parametrize("name", CALM)
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
@pytest.mark.parametrize("name", with_slow(BLOCKS))
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
    # memory and waiting differ between the drivers
    where = r"at 0x[0-9a-f]+|\d+ cycles|polled.*|with interrupt.*|[\d.]+ MHz"
    said = [[re.sub(where, "", line) for line in lines] for lines in (from_c, from_python, from_pynq)]
    assert said[0] == said[1] == said[2]
    assert said[0][:3] == [
        f"self-test: {name}, signature {CORES[name].signature:#010x}, ",
        "registers: begin",
        f"registers: right, signature {CORES[name].signature:#010x}",
    ]
    copies = [stage.name for stage in selftest_of(CORES[name]).copy]
    assert copies[-2:] == [
        f"{verb} {'adapters' if name == 'instantft' else 'deltas'}" for verb in ("load", "save the same")
    ]
    behind = 4 + len(copies)
    assert said[0][4:behind] == [f"memory, {copy}: right, " for copy in copies]
    stages = [stage.name for stage in selftest_of(CORES[name]).stages]
    parts = [f"stage {number} of {len(stages)}, {stage}: " for number, stage in enumerate(stages, 1)]
    assert said[0][behind:-2] == [part + end for part in parts for end in ("begins", "right, ")]
    assert said[0][-2] == "clock: right, "
    assert said[0][-1] == f"self-test: all {len(stages)} stages are right"


@needs_compiler
def test_the_driver_in_c_measures_the_clock(tmp_path):
    """From the device's cycle counter and time; 14 % more is Linux's rate for a requested 200 MHz."""
    executable, (device, _) = compiled("zotrain", tmp_path), simulated("zotrain")
    stages = len(selftest_of(CORES["zotrain"]).stages)
    for mhz, result in ((187.5, "0"), (1500 / 7, OTHER_CLOCK), (150, OTHER_CLOCK)):
        ended = play(executable, device, "zotrain", mode="polling", mhz=mhz)
        assert (ended.result, ended.stage, ended.status) == (result, stages, 0 if result == "0" else 8)
        assert ended.hertz == pytest.approx(1e6 * mhz, rel=2e-3)
        measured = f"{ended.hertz / 1e6:.3f} MHz"
        said = f"right, {measured}" if result == "0" else f"wrong, {measured} instead of 187.500 MHz"
        assert ended.said[-2] == f"clock: {said}"
    paused = play(executable, device, "zotrain", paused=20)
    assert paused.hertz == pytest.approx(187.5e6, rel=1e-2)
    # also after a failed stage
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
    # the core's copy differs from the program's data
    ended = play(executable, device, "zotrain", changed="deltas")
    assert (ended.result, ended.stage, ended.error, ended.what, ended.status) == ("9", 0, 0, "deltas", 4)
    assert "memory, save the same deltas: wrong, deltas have CRC-32" in ended.said[-3]
    assert ended.said[-2].startswith("memory: the core does not read or write this buffer")
    # the core refuses an unaligned address: error code and value
    buffer = device.buffers[-1].device_address
    ended = play(executable, device, "zotrain", at=buffer + 8)
    deltas = buffer + 8 + selftest_of(CORES["zotrain"]).memory.addresses["deltas"]
    assert ended[:4] == ("9", 0, errors["BAD_ADDRESS"], deltas)
    assert f"error {errors['BAD_ADDRESS'].value} (bad_address) at {deltas:#x}, " in ended.said[-3]
    # an unreachable buffer: bus error and address of the burst
    nowhere = 0xAB_0000_0000
    ended = play(executable, device, "zotrain", at=nowhere)
    assert ended[:4] == ("9", 0, errors["READ_DECERR"], deltas - buffer - 8 + nowhere)
    assert "(read_decerr) at 0xab" in ended.said[-3]
    # a complete job succeeds afterwards
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
    """With stubs of the documented standalone library; registers read as 0."""
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
@pytest.mark.parametrize("layout", ["2024", "2025"])
def test_the_host_program_for_xrt_compiles(tmp_path, layout):
    """Against declarations from XRT's documentation: `experimental` next to folder `xrt`, later inside it."""
    written(ZotrainSpec(**ONE_STAGE), ["vitis"], tmp_path)
    headers = tmp_path / "include"
    shutil.copytree(Path(__file__).with_name("xrt"), headers / "xrt")
    shutil.copytree(
        Path(__file__).with_name("experimental"), headers / ("xrt" if layout == "2025" else ".") / "experimental"
    )
    includes = [f"-I{tmp_path / 'driver'}", f"-I{headers}"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, *includes, tmp_path / "driver" / "selftest_xrt.cpp"], check=True)
