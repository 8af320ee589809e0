"""Programs on bitstreams that do not answer, have other settings or a stopped clock: none waits forever."""

import re
import shutil
import subprocess
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from fabtune.boards.host.driver import Core, HungError
from fabtune.boards.packaging import selftest_of
from fabtune.golden.cores.shell import SHELL
from fabtune.golden.errors import UserError
from fabtune.sim.compiled.device import SimulatedDevice

from ...small_cores import instantft, with_slow
from .programs import BLOCKS, COMPILER, CORES, SANITIZED, compiled, needs_compiler, overlay_core, play, program

STATUS = {register.name: register.offset for register in SHELL}
STOPPED = "standing still: the core's clock has stopped, or it is in reset"


class Still:
    """Registers of a core with a stopped clock: they keep written values and never change otherwise."""

    def __init__(self, spec, signature=None, **words):
        self.spec = spec
        self.words = {register.offset: 0 for register in spec.registers.map}
        self.words[STATUS["signature"]] = spec.signature if signature is None else signature
        self.words |= {spec.registers.map[name].offset: value for name, value in words.items()}
        self.memory = SimulatedDevice(program(spec.name))
        self.commands = self.looks = 0

    @property
    def simulated(self):
        """Cycles of a clock that advances one second per reading."""
        self.looks += 1
        return 187_500_000 * self.looks

    def allocate(self, size):
        return self.memory.allocate(size)

    def write(self, offset, value):
        self.commands += offset == STATUS["command"]
        if offset not in (STATUS["command"], STATUS["interrupt"], STATUS["soft_reset"]):
            self.words[offset] = value

    def read(self, offset):
        return self.words[offset]

    def interrupt(self):
        """Return early."""


class AllOnes(Still):
    """Nothing answers at the address."""

    def read(self, offset):
        return 0xFFFF_FFFF


class Counting(Still):
    """A core that never finishes."""

    def read(self, offset):
        self.words[self.spec.registers.map["cycles_low"].offset] += 200_000_000
        return self.words[offset]


OTHER = instantft(lanes=32)
ANSWERS = {
    "all ones": (AllOnes, {}, "signature 0xffffffff instead of {0}: nothing decodes this address: no bitstream"),
    "all zeros": (Still, {"signature": 0}, "signature 0x00000000 instead of {0}: the core's clock is off, or it is"),
    "other settings": (
        Still,
        {"signature": OTHER.signature},
        f"signature {OTHER.signature:#010x} instead of {{0}}: the bitstream is of other settings: load the one",
    ),
}


@pytest.fixture(name="programs", scope="module")
def _programs(tmp_path_factory):
    """Function that compiles a core's self-test with `pipe.c`, cached."""
    return cache(lambda name: compiled(name, tmp_path_factory.mktemp("program")))


def pynq_on(device, name, folder, monkeypatch):
    """A package's PYNQ driver on a device, for the duration of its constructor."""
    module, _ = overlay_core(name, folder, monkeypatch)
    monkeypatch.setattr(module.DefaultIP, "read", lambda _, offset: device.read(offset))
    monkeypatch.setattr(module.DefaultIP, "write", lambda _, offset, value: device.write(offset, value))
    seconds = count()
    monkeypatch.setattr(module.FabtuneCore, "now", staticmethod(lambda: next(seconds) * 10**9))
    return module


@needs_compiler
@pytest.mark.parametrize("name", with_slow(BLOCKS))
@pytest.mark.parametrize("answer", ANSWERS)
def test_every_driver_refuses_and_names_both_signatures(name, answer, programs, tmp_path, monkeypatch):
    kind, changes, words = ANSWERS[answer]
    spec = CORES[name]
    words = words.format(f"{spec.signature:#010x}")
    device = kind(spec, **changes)
    ended = play(programs(name), device, name, mode="polling", polls=1000)
    assert (ended.stage, ended.status) == (0, 3)
    assert ended.said[1:] == ["registers: begin", ended.said[2], "self-test: wrong, exit status 3"]
    assert ended.said[2].startswith(f"registers: wrong, {words}")

    with pytest.raises(UserError, match=re.escape(words)):
        Core(spec.registers, device, device, signature=spec.signature)
    said = []
    with pytest.raises(UserError, match=re.escape(f"self-test, registers: {words}")):
        selftest_of(spec).run(Core(spec.registers, device, device), say=said.append)
    assert said[1:] == ended.said[1:3]

    module = pynq_on(device, name, tmp_path, monkeypatch)
    with pytest.raises(module.FabtuneError, match=re.escape(words)):
        module.FabtuneCore("hwh")
    assert not device.commands


@needs_compiler
@pytest.mark.parametrize("name", with_slow(BLOCKS))
@pytest.mark.parametrize("kind", [Still, Counting])
def test_a_command_that_never_ends_is_given_up_by_every_driver(name, kind, programs, tmp_path, monkeypatch):
    """The clock advances one second per reading."""
    spec = CORES[name]
    device, busy = kind(spec, status=0x0), "status 0x00000000, error 0 (none) at 0x0, "
    how = STOPPED if kind is Still else "counting, clock "
    ended = play(programs(name), device, name, mode="timed")
    first = selftest_of(spec).copy[0].name
    assert (ended.result, ended.status) == ("3", 6)
    assert ended.said[0].endswith(", polled, time limit 10 s")
    assert ended.said[-2].startswith(f"memory, {first}: wrong, no end after 10.0 s: {busy}")
    assert how in ended.said[-2]
    assert ended.said[-1] == "self-test: wrong, exit status 6"
    assert device.commands == 1

    core = Core(spec.registers, device, device, device.interrupt, clock=count().__next__)
    command = selftest_of(spec).copy[0].command
    with pytest.raises(HungError, match=re.escape(f"has not ended after 5.0 s: {busy}")) as caught:
        core.run(command, seconds=5)
    assert how in str(caught.value)
    assert (caught.value.megahertz > 0) == (kind is Counting)
    with pytest.raises(UserError, match=re.escape(f"self-test, memory, {first}: ")):
        selftest_of(spec).run(core)

    module = pynq_on(device, name, tmp_path, monkeypatch)
    said = []
    with pytest.raises(module.FabtuneError, match=re.escape(f"no end after 10.0 s: {busy}")) as caught:
        module.FabtuneCore("hwh").selftest(tmp_path / "selftest.bin", say=said.append)
    assert caught.value.status == 6
    assert how in said[-2]
    assert said[-1] == "self-test: wrong, exit status 6"


@needs_compiler
def test_the_rate_of_a_clock_is_that_of_its_cycles(programs):
    """200 million cycles per read, one second per clock reading."""
    spec = CORES["zotrain"]
    ended = play(programs("zotrain"), Counting(spec), "zotrain", mode="timed")
    cycles, rate = re.search(r"(\d+) cycles counting, clock ([\d.]+) MHz", ended.said[-2]).groups()
    assert float(rate) == pytest.approx(int(cycles) / 10.0 / 1e6, abs=0.1)


@needs_compiler
def test_a_core_without_its_reset_and_one_that_keeps_nothing_start_nothing(programs, tmp_path, monkeypatch):
    spec, executable = CORES["zotrain"], programs("zotrain")

    class Pending(Still):
        """A soft reset that never ends."""

        def read(self, offset):
            return 1 if offset == STATUS["soft_reset"] else super().read(offset)

    pending = Pending(spec)
    ended = play(executable, pending, "zotrain", mode="polling", polls=50)
    assert (ended.result, ended.status) == ("10", 6)
    words = "a soft reset does not end: memory does not answer a burst, or the core's clock has stopped: load the bitst"
    assert ended.said[2].startswith(f"registers: wrong, {words}")
    with pytest.raises(UserError, match=f"self-test, registers: {words}"):
        selftest_of(spec).run(Core(spec.registers, pending, pending))
    module = pynq_on(pending, "zotrain", tmp_path, monkeypatch)
    with pytest.raises(module.FabtuneError, match=words):
        module.FabtuneCore("hwh")

    class Deaf(Still):
        """Registers with correct reads that ignore writes."""

        def write(self, offset, value):
            pass

    deaf = Deaf(spec)
    ended = play(executable, deaf, "zotrain", mode="polling")
    assert (ended.result, ended.status) == ("8", 3)
    assert ended.said[2] == "registers: wrong, a register does not keep what is written: it reads 0x00000000"
    with pytest.raises(UserError, match="a register does not keep what is written: it reads 0x00000000"):
        selftest_of(spec).run(Core(spec.registers, deaf, deaf))
    assert not pending.commands
    assert not deaf.commands


@needs_compiler
def test_a_command_without_its_interrupt_is_said_to_be_one(programs, tmp_path, monkeypatch):
    class Done(Still):
        """A core whose commands end at once."""

        def write(self, offset, value):
            super().write(offset, value)
            if offset == STATUS["command"]:
                self.words[STATUS["status"]] = 2

        never = True

    spec = CORES["zotrain"]
    ended = play(programs("zotrain"), Done(spec), "zotrain", mode="silent")
    assert (ended.result, ended.status) == ("4", 7)
    assert "wrong, no interrupt: status 0x00000002, error 0 (none) at 0x0, 0 cycles: --poll works" in ended.said[-2]

    module = pynq_on(Done(spec), "zotrain", tmp_path, monkeypatch)
    core = module.FabtuneCore("hwh")
    core._interrupted = lambda: False
    with pytest.raises(module.FabtuneError, match="no interrupt: status 0x00000002") as caught:
        core.run("load", poll=False)
    assert caught.value.status == 7


def without_reset(folder):
    """Disable the driver's soft reset: registers backed by a file never clear its bit."""
    header = folder / "driver" / "fabtune_shell.h"
    text, count = re.subn(r"(SOFT_RESET_PENDING_MASK) 0x0*1u", r"\1 0x0u", header.read_text())
    assert count == 1
    header.write_text(text)


STAND_IN = """\
/* A buffer that is a file, in place of a u-dma-buf, and a clock that goes on by a second with each look. */
#define _DEFAULT_SOURCE
#include "fabtune_uio.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
int fabtune_buffer_open(struct fabtune_buffer *buffer, const char *name) {
    struct stat file;
    buffer->device = open(name, O_RDWR);
    if (buffer->device < 0 || fstat(buffer->device, &file)) return -1;
    buffer->size = (size_t)file.st_size;
    buffer->bytes = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->device, 0);
    buffer->address = 0x70000000;
    return buffer->bytes == MAP_FAILED ? -1 : 0;
}
void fabtune_buffer_close(struct fabtune_buffer *buffer) { close(buffer->device); }
int clock_gettime(clockid_t which, struct timespec *time) {
    static time_t seconds = 0;
    (void)which;
    time->tv_sec = ++seconds;
    time->tv_nsec = 0;
    return 0;
}
"""


@pytest.fixture(name="linux", scope="module")
def _linux(tmp_path_factory):
    """Run the Linux program on files with these register words and arguments."""
    folder = tmp_path_factory.mktemp("linux")
    compiled("zotrain", folder)
    without_reset(folder)
    (folder / "stand_in.c").write_text(STAND_IN)
    driver, size = folder / "driver", selftest_of(CORES["zotrain"]).size
    command = [COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", *SANITIZED, f"-I{driver}"]
    # the stub replaces the program's buffer functions
    renamed = ["-Dfabtune_buffer_open=open_udmabuf", "-Dfabtune_buffer_close=close_udmabuf"]
    subprocess.run([*command, *renamed, "-c", driver / "fabtune_uio.c", "-o", folder / "uio.o"], check=True)
    names = ("fabtune.c", "fabtune_text.c", "fabtune_options.c", "fabtune_selftest.c", "selftest_linux.c")
    sources = [*(driver / name for name in names), folder / "selftest/selftest.c", folder / "stand_in.c"]
    subprocess.run([*command, *sources, folder / "uio.o", "-o", folder / "program"], check=True)

    def run(*arguments, words=None, there=True):
        page = bytearray(4096)
        for offset, value in (words or {}).items():
            page[offset : offset + 4] = value.to_bytes(4, "little")
        (folder / "uio").write_bytes(page if there else b"")
        (folder / "buffer").write_bytes(bytes(size))
        return subprocess.run([folder / "program", *arguments], cwd=folder, capture_output=True, text=True, check=False)

    return run


DEVICES = ("uio", "buffer", "selftest/selftest.bin")


@needs_compiler
def test_the_program_for_linux_ends_in_time(linux):
    spec = CORES["zotrain"]
    signature = {STATUS["signature"]: spec.signature}
    done = linux("--poll", *DEVICES, words=signature)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (6, "")
    assert lines[0].endswith(", polled, time limit 10 s")
    assert lines[3].startswith("memory: begins, ")
    assert lines[3].endswith(" at 0x70000000")
    assert f"no end after 10.0 s: status 0x00000000, error 0 (none) at 0x0, 0 cycles {STOPPED}" in lines[4]
    done = linux(*DEVICES, "--seconds", "3", "--poll", words=signature)
    assert "no end after 3.0 s" in done.stdout
    # a file cannot deliver interrupts
    done = linux("--seconds", "1000", *DEVICES, words=signature)
    assert done.returncode == 7
    assert "with interrupt, time limit 1000 s" in done.stdout
    assert "wrong, no interrupt: " in done.stdout
    done = linux("--poll", *DEVICES)
    assert (done.returncode, done.stderr) == (3, "")
    assert "signature 0x00000000 instead of " in done.stdout


@needs_compiler
def test_a_bus_error_is_a_line_and_a_status(linux):
    done = linux("--poll", *DEVICES, there=False)
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == "registers: begin"
    assert done.stderr.startswith("bus error: the registers do not answer, as no bitstream is loaded")
    assert done.stderr.count("\n") == 1


@needs_compiler
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "too few arguments: usage: "),
        ((*DEVICES, "more"), "too many arguments: more: "),
        ((*DEVICES, "--pol"), "there is no option --pol: "),
        ((*DEVICES, "--seconds"), "--seconds takes a whole number from 1 to 1000000, not : "),
        ((*DEVICES, "--seconds", "0"), "not 0: "),
        ((*DEVICES, "--seconds", "1.5"), "not 1.5: "),
        ((*DEVICES, "--seconds", "-1"), "not -1: "),
        ((*DEVICES, "--seconds", "1000001"), "not 1000001: "),
        ((*DEVICES, "--seconds", "99999999999999999999"), "not 99999999999999999999: "),
        (("nowhere", *DEVICES[1:]), "nowhere: No such file or directory"),
        (("uio", "nowhere", "x"), "nowhere: No such file or directory"),
        ((*DEVICES[:2], "nowhere"), "nowhere: No such file or directory"),
        ((*DEVICES[:2], "linux/Makefile"), "linux/Makefile is not the file that belongs to this program"),
    ],
)
def test_usage_errors_are_a_line_and_status_2(arguments, message, linux):
    done = linux(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@needs_compiler
def test_bare_metal_takes_its_settings_from_defines(tmp_path):
    """Registers keep written values, including the signature; the clock advances one second per reading."""
    compiled("zotrain", tmp_path)
    without_reset(tmp_path)
    library = tmp_path / "standalone"
    shutil.copytree(Path(__file__).with_name("standalone"), library)
    source = (library / "standalone.c").read_text()
    start = f"((volatile uint32_t *)at)[{STATUS['signature'] // 4}] = 0x{CORES['zotrain'].signature:08X}u;"
    (library / "standalone.c").write_text(source.replace("exit(3);", f"exit(3);\n    {start}"))
    names = ("fabtune.c", "fabtune_text.c", "fabtune_mmio.c", "fabtune_selftest.c", "selftest_baremetal.c")
    sources = [*(tmp_path / "driver" / name for name in names), library / "standalone.c", "selftest.c"]
    for defines, limit in (([], 10), (["-DFABTUNE_SECONDS=4u"], 4)):
        command = [COMPILER, "-std=c11", "-Wall", "-Werror", *defines, f"-I{tmp_path / 'driver'}", f"-I{library}"]
        command += [*sources, "selftest_image.S", "-o", "a"]
        subprocess.run(command, check=True, cwd=tmp_path / "selftest")
        done = subprocess.run([tmp_path / "selftest" / "a"], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        assert (done.returncode, done.stderr) == (6, "")
        assert lines[0].endswith(f", polled, time limit {limit} s")
        assert f"no end after {limit}.0 s: " in lines[-2]
        assert lines[-1] == "self-test: wrong, exit status 6"
