"""C example of a package, built from its files, on the compiled core."""

import dataclasses
import os
import re
import shutil
import subprocess
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.example.digits import digits_for
from fabtune.boards.example.package import example_files, example_of
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.settings import build
from fabtune.scripts.outputs import OutputFolder
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice

from ...small_cores import instantft, task, with_slow, zostream, zotrain
from .programs import nanoseconds

CORES = {
    "instantft": build(InstantftSpec, ["network=digits", "cache_entries=512", "monitor=true"], "tiny"),
    "zotrain": build(ZotrainSpec, ["monitor=true"], "tiny"),
    "zostream": build(ZostreamSpec, ["monitor=true"], "tiny"),
}
OWN = {"zotrain": zotrain(monitor=True), "instantft": instantft(monitor=True)}
"""Cores with a user's network; the package has the user's weights and samples."""
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")


@cache
def package(spec, *targets, task=None):
    """Files of a package, shared by several tests."""
    return core_package(spec, BOARDS["kv260"], targets, task=task)


def written(name, folder, example=None):
    """Write a package, optionally with a changed example; returns the example's output."""
    example = example or example_of(CORES[name])
    return put(package(CORES[name], "linux", "baremetal") | example_files(example, "linux"), folder, example)


def put(files, folder, example):
    """Write files; returns the example's output."""
    OutputFolder(folder, force=True, default=False).write(files)
    return f"example: {example.line}"


def compiled(name, folder):
    """Compile the Linux program with `pipe_uio.c` in place of `fabtune_uio.c`."""
    names = ("example.c", f"example_{name}.c", "example_linux.c")
    driver = [folder / "driver" / one for one in ("fabtune.c", "fabtune_text.c", "fabtune_options.c")]
    sources = [*driver, *(folder / "example" / one for one in names), HERE / "pipe_uio.c"]
    command = [COMPILER, *FLAGS, "-D_DEFAULT_SOURCE", *SANITIZED, f"-I{folder / 'driver'}", *sources, "-o", "program"]
    subprocess.run(command, check=True, cwd=folder)


def play(name, folder, spec=None, task=None):
    """Run the program against the compiled core; returns status and output lines."""
    spec = spec or CORES[name]
    return run_on(SimulatedDevice(compiled_core(spec)), spec, example_of(spec, task).memory.end, folder)


def run_on(device, spec, size, folder):
    """Run the program against a device with `size` bytes of memory; returns status and output lines."""
    buffer = device.allocate(size)
    (folder / "memory").write_bytes(b"\xa5" * size)  # previous buffer contents are irrelevant
    memory = np.memmap(folder / "memory", np.uint8, "r+")
    printed = ""
    with subprocess.Popen(
        [folder / "program", "uio", "memory", "example/example.bin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"BUFFER_ADDRESS": str(buffer.device_address)},
    ) as process:
        for line in process.stdout:
            kind, *words = line.split()
            if kind == "write":
                if int(words[0]) == spec.registers.map["command"].offset:
                    buffer.array[:] = memory
                    buffer.flush()
                device.write(int(words[0]), int(words[1]))
                continue
            if kind not in ("read", "now", "interrupt"):
                printed += line
                continue
            value = nanoseconds(device) if kind == "now" else 0
            if kind == "read":
                value = device.read(int(words[0]))
            elif kind == "interrupt":
                device.interrupt()
                buffer.invalidate()
                memory[:] = buffer.array
            process.stdin.write(f"{value}\n")
            process.stdin.flush()
    return process.returncode, printed.splitlines()


@pytest.mark.parametrize(
    ("name", "before", "after", "crc32"),
    [
        ("instantft", 35, 167, 3212475480),
        ("zotrain", 35, 123, 3084819131),
        pytest.param("zostream", 57, 77, 394385466, marks=pytest.mark.slow),
    ],
)
def test_the_job_is_the_same_on_every_machine(name, before, after, crc32):
    example = example_of(CORES[name])
    assert (example.before, example.after, zlib.crc32(example.memory.image.tobytes())) == (before, after, crc32)


@needs_compiler
@pytest.mark.parametrize(
    "name", ["instantft", *(pytest.param(one, marks=pytest.mark.slow) for one in ("zotrain", "zostream"))]
)
def test_the_example_prints_what_golden_says(name, tmp_path):
    line = written(name, tmp_path)
    compiled(name, tmp_path)
    status, printed = play(name, tmp_path)
    assert (status, printed[-1]) == (0, line)
    parts = [part for part in ("load", "infer", "tune", "infer again") for _ in range(2)]
    assert [one.partition(":")[0] for one in printed] == ["example", "registers", "registers", *parts, "example"]
    example = example_of(CORES[name])
    # accuracy must rise above chance; a transformer runs few steps
    assert example.after > (1.3 if name == "zostream" else 2) * example.before > example.tested // 5
    assert f"\n    {line}\n" in (tmp_path / "README.md").read_text()


@needs_compiler
def test_a_shorter_example_of_zotrain_prints_what_golden_says(tmp_path):
    task = dataclasses.replace(digits_for("digits"), steps=30, rate=4e-3)
    example = example_of(CORES["zotrain"], task)
    line = written("zotrain", tmp_path, example)
    compiled("zotrain", tmp_path)
    status, printed = play("zotrain", tmp_path)
    assert (status, printed[-1]) == (0, line)
    assert example.after > example.before


@needs_compiler
@pytest.mark.parametrize(("name", "settings"), [("zotrain", {"steps": 5, "batch": 3}), ("instantft", {"epochs": 2})])
def test_the_example_of_a_users_network_prints_what_golden_says(name, settings, tmp_path):
    spec = OWN[name]
    own = task(spec, **settings)
    example = example_of(spec, own)
    line = put(package(spec, "linux", "baremetal", task=own), tmp_path, example)
    compiled(name, tmp_path)
    status, printed = play(name, tmp_path, spec, own)
    assert (status, printed[-1]) == (0, line)
    page = (tmp_path / "README.md").read_text()
    assert f"\n    {line}\n" in page
    assert "your weights, and the first samples of npz:own.npz" in page
    assert f"| together | | {example.memory.end:,} |" in page
    # with a changed weight the program reports an error, whatever the accuracy
    image = tmp_path / "example" / "example.bin"
    content = bytearray(image.read_bytes())
    content[example.memory.addresses["parameters"] + 1] ^= 0x10
    image.write_bytes(content)
    status, printed = play(name, tmp_path, spec, own)
    assert status == 1
    assert any(one.startswith("logits: wrong, CRC-32 0x") for one in printed)


def test_a_job_that_needs_too_much_memory_is_refused(monkeypatch):
    spec = OWN["zotrain"]
    own = task(spec, steps=5)
    needed = example_of(spec, own).memory.end
    monkeypatch.setattr("fabtune.boards.example.package.MOST_MEMORY", needed - 1)
    message = f"npz:own.npz: the job takes {needed:,} bytes of shared memory, more than {needed - 1:,}: fewer samples"
    with pytest.raises(UserError, match=re.escape(message)):
        example_of(spec, dataclasses.replace(own))


def test_a_core_of_any_network_has_its_own_where_there_is_room():
    assert example_of(zostream()) is None
    with pytest.raises(UserError, match="zostream has no example of a network of yours: leave --data out"):
        example_of(zostream(), task(OWN["zotrain"]))


def test_an_autoencoder_is_refused():
    own = task(OWN["zotrain"])
    with pytest.raises(UserError, match="an autoencoder has no accuracy"):
        example_of(ZotrainSpec(network="6 fc2 relu fc6", loss="mse"), own)


@needs_compiler
@pytest.mark.parametrize("what", ["BEFORE", "AFTER"])
def test_another_number_of_correct_images_ends_with_status_1(what, tmp_path):
    line = written("instantft", tmp_path)
    header = tmp_path / "example" / "example_job.h"
    found = {"BEFORE": example_of(CORES["instantft"]).before, "AFTER": example_of(CORES["instantft"]).after}[what]
    old, new = (f"#define EXAMPLE_CORRECT_{what} {number}u" for number in (found, found + 1))
    assert old in header.read_text()
    header.write_text(header.read_text().replace(old, new))
    compiled("instantft", tmp_path)
    status, printed = play("instantft", tmp_path)
    core, golden = printed[-1].split("; ")
    assert status == 1
    assert line.startswith(core)
    assert not line.endswith(golden)


@needs_compiler
def test_a_command_that_the_core_refuses_is_reported(tmp_path):
    written("instantft", tmp_path)
    header = tmp_path / "example" / "example_job.h"
    header.write_text(header.read_text().replace("#define EXAMPLE_TUNE_BATCH 20u", "#define EXAMPLE_TUNE_BATCH 0u"))
    compiled("instantft", tmp_path)
    refused = CORES["instantft"].registers.errors["BAD_BATCH"].value
    status, printed = play("instantft", tmp_path)
    assert (status, printed[-1]) == (5, "example: wrong, exit status 5")
    assert f", error {refused} (bad_batch) at 0x0, " in printed[-2]
    assert printed[-2].startswith("tune: wrong, the core reports an error: status ")


@needs_compiler
@pytest.mark.parametrize("name", with_slow(CORES))
def test_the_example_is_made_for_linux_and_bare_metal(name, tmp_path):
    written(name, tmp_path)
    made = subprocess.run(["make", "-C", tmp_path / "linux", "example"], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    done = subprocess.run([tmp_path / "linux" / "example", "/no", "x", "y"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "/no: No such file or directory\n")

    # with stubs of the documented standalone library; registers read as 0
    library, driver = HERE / "standalone", tmp_path / "driver"
    sources = [*(driver / f"fabtune{one}.c" for one in ("", "_text", "_mmio")), library / "standalone.c"]
    own = ["example.c", f"example_{name}.c", "example_baremetal.c", "example_image.S"]
    command = [COMPILER, *FLAGS, f"-I{driver}", f"-I{library}", *sources, *own, "-o", "a"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path / "example")
    assert (made.returncode, made.stderr) == (0, "")
    done = subprocess.run([tmp_path / "example" / "a"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"example: {name}, signature {CORES[name].signature:#010x}, polled, time limit 60 s"
    assert lines[2].startswith(f"registers: wrong, signature 0x00000000 instead of {CORES[name].signature:#010x}: the ")
    assert lines[3:] == ["example: wrong, exit status 3"]


def test_the_page_is_of_the_systems_that_were_asked_for():
    spec = CORES["zotrain"]
    linux, bare = (package(spec, target) for target in ("linux", "baremetal"))
    assert "sudo linux/example /dev/uioN udmabuf0 example/example.bin" in linux["README.md"]
    assert "example_image.S" not in linux["README.md"]
    assert "example_image.S" in bare["README.md"]
    assert "linux/example" not in bare["README.md"]
    for files in (linux, bare):
        named = {path for path in files if path.startswith("example/")}
        assert {"example/example_job.h", "example/example.bin", "example/example.h", "example/example.c"} < named
        assert "| `example/` |" in files["README.md"]


def test_a_network_that_does_not_take_digits_has_no_example():
    files = package(zotrain(monitor=True), "linux", "baremetal")
    assert not any(path.startswith("example/") for path in files)
    assert "xample/" not in files["README.md"]
    assert example_of(zotrain()) is None


@pytest.mark.parametrize("name", with_slow(CORES))
def test_the_buffer_of_linux_has_room_for_both_jobs(name):
    spec = CORES[name]
    text = package(spec, "linux", "baremetal")[f"linux/{name}.dts"]
    size = int(text.partition("ikwzm,u-dma-buf")[2].partition("size = <")[2].partition(">")[0], 16)
    assert size == max(selftest_of(spec).size, example_of(spec).memory.end)


OTHERS = [
    InstantftSpec(network="digits", lanes=16, batch=4, rank=2, cache_entries=64),
    InstantftSpec(network="digits", tunes="layer", stochastic=True, cache="none", byte_inputs=False, batch=256),
    ZotrainSpec(network="digits", gaussian="tree", byte_inputs=False),
    ZotrainSpec(network="digits", columns=8, deltas="ultra"),
    InstantftSpec(batch=7),
]


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_every_core_for_such_a_network_has_one(number):
    example = example_of(OTHERS[number])
    assert example.after > 2 * example.before > example.tested // 5
    assert example.memory.image.size < 1 << 20
