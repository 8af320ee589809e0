"""A core as a folder for a board's tools: the IP, scripts, drivers, and a README with the steps."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..golden.axi.register_map import RegisterMap, c_header
from ..golden.cores.core import CoreSpec
from ..golden.cores.network_core import NetworkCoreSpec
from ..golden.cores.shell import SHELL
from ..golden.errors import UserError
from ..golden.spec_file import signature_text
from ..hw.verilog import Emitted, emit
from .board import DEFAULT_MHZ, Board
from .example.job import Example
from .example.package import Task, example_files, example_of, example_page
from .example.sentence_task import SentenceTask
from .fit import refuse_lack
from .host import clock
from .linux.overlay import bif, overlay, shell_json
from .manifest import MANIFEST, SETTINGS, manifest
from .memories import Memory, memories_of
from .pynq.description import description
from .pynq.notebook import notebook
from .selftest.c_source import assembler_source, c_source
from .selftest.job import SelfTest
from .testbench.files import testbench_files
from .vivado.debug import Analyser, analyser_of, refuse_analyser
from .vivado.ip import catalogue_files, kernel_script, link_configuration, vivado_files
from .vivado.ipxact import vlnv

Files = dict[str, str | bytes]
"""Contents by file name, folders included."""
DRIVER, PYNQ = (Path(__file__).with_name(name) for name in ("driver", "pynq"))
"""Sources of the drivers in a package."""


def core_package(
    spec: CoreSpec,
    board: Board,
    targets: Sequence[str] = (),
    mhz: float = DEFAULT_MHZ,
    name: str | None = None,
    task: Task | None = None,
) -> Files:
    """Contents by file name of a core's package for a board; without a task the same on every machine.

    ``targets`` are names of `TARGETS`, by default all. ``mhz`` is a rate of the board's processor clock. ``name`` is
    the name of top module, IP, kernel and files, by default the core's (see `identity.design_name`); two cores of the
    same name cannot be in one design. ``task`` gives the network and samples of the self-test and the example.

    Raises
    ------
    UserError
        For an unknown target, a target without support for the core's monitor, a clock that the board does not have, a
        core that does not fit, or a task that the core cannot run.
    """
    if unknown := [name for name in targets if name not in TARGETS]:
        raise UserError(f"there is no {unknown[0]!r} to package for: choose one of {', '.join(TARGETS)}")
    possible = [name for name in TARGETS if not (spec.monitor and name == "vitis")]
    if lost := [name for name in targets if name not in possible]:
        raise UserError(
            f"{lost[0]} takes no core with a monitor: each pin of a kernel is its clock, reset or interrupt, or "
            f"belongs to an AXI port; leave --debug and monitor=true out, or package for {', '.join(possible)}"
        )
    mhz = board.processor_clock.rate(mhz)
    if task:
        example_of(spec, task)  # refuses a task that the core cannot run
    refuse_lack(spec, board)
    emitted = emit(spec, name, board.fabric)
    memories = memories_of(emitted.rtlil)
    package = Package(spec, emitted, board, mhz, task)
    if package.analyser:
        refuse_analyser(package.analyser, memories, board)
    files: Files = {**catalogue_files(spec, emitted)}
    files |= {f"registers/{name}": text for name, text in spec.documents().items()}
    chosen = tuple(name for name in possible if name in targets or not targets)
    files[SETTINGS] = settings_file(spec, board, mhz, chosen, emitted.top, task)
    for name in chosen:
        files |= TARGETS[name].files(package)
    whole = {"README.md": _readme(package, chosen, files, memories), **files}
    return {**whole, MANIFEST: manifest(whole)}


def settings_file(
    spec: CoreSpec, board: Board, mhz: float, targets: Sequence[str], name: str, task: Task | None = None
) -> str:
    """JSON of all settings of a package: packages of equal settings have equal files."""
    settings: dict[str, Any] = {
        "block": spec.name,
        "signature": signature_text(spec),
        "parameters": dataclasses.asdict(spec),
    }
    settings |= {"name": name, "board": board.name, "mhz": mhz}
    if task:
        settings |= {"data": {"name": task.name, "sha256": task.digest}}
    return json.dumps(settings | {"targets": targets}, indent=2) + "\n"


@cache
def selftest_of(spec: CoreSpec, task: Task | None = None) -> SelfTest:
    """Self-test of a core, with random data or with a task's network and samples; with sentences it stays random.

    A `UserError` for a core without self-test, or with a task for a core that cannot read the samples.
    """
    if (make := spec.part("boards", "selftest", "selftest")) is None:
        raise UserError(f"{spec.name} has no self-test")
    if task is None or isinstance(task, SentenceTask):
        return make(spec)  # type: ignore[no-any-return]
    if not isinstance(spec, NetworkCoreSpec):
        raise UserError(f"{spec.name} has no network: leave --data out")
    task.check(spec)
    return make(spec, task=task)  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class Package:
    """Sources of a target's files: a core with the emitted top module on a board, and the user's task."""

    spec: CoreSpec
    emitted: Emitted
    board: Board
    mhz: float
    task: Task | None

    @property
    def test(self) -> SelfTest:
        return selftest_of(self.spec, self.task)

    @property
    def example(self) -> Example | None:
        return example_of(self.spec, self.task)

    @property
    def analyser(self) -> Analyser | None:
        return analyser_of(self.spec, self.emitted.pins, self.test) if self.spec.monitor else None

    @property
    def clock_hz(self) -> int:
        return round(self.mhz * 1e6)

    @property
    def shared_memory(self) -> int:
        """Bytes of the largest job of the package's programs."""
        return max(self.test.size, self.example.memory.end if self.example else 0)


@dataclasses.dataclass(frozen=True)
class Target:
    """A tool or system with a function that makes the files of a `Package`, and the user's steps, by board where they
    differ.
    """

    files: Callable[[Package], Files]
    steps: str | Mapping[str, str]


def _vivado(package: Package) -> Files:
    return {**vivado_files(package.spec, package.emitted, package.board, package.mhz, package.analyser)}


def _driver(package: Package, *names: str) -> Files:
    files: Files = {f"driver/{name}": (DRIVER / name).read_text(encoding="utf-8") for name in (*_SOURCES, *names)}
    headers = ((RegisterMap("fabtune_shell", SHELL), 0), (package.spec.registers.map, package.spec.address))
    for registers, memory_bits in headers:
        files[f"driver/{registers.name}.h"] = c_header(registers, memory_bits)
    return files | {
        "selftest/selftest.c": c_source(package.test, package.clock_hz),
        "selftest/selftest.bin": package.test.image.tobytes(),
    }


def _example(package: Package, system: str) -> Files:
    return example_files(package.example, system) if package.example else {}


_SOURCES = tuple(f"{name}.{kind}" for name in ("fabtune", "fabtune_text", "fabtune_selftest") for kind in "hc")
_OPTIONS = ("fabtune_options.h", "fabtune_options.c")


def _linux(package: Package) -> Files:
    files = _vivado(package) | _driver(package, *_OPTIONS, "fabtune_uio.h", "fabtune_uio.c", "selftest_linux.c")
    files |= _example(package, "linux")
    name, makefile = package.emitted.top, (DRIVER / "linux.mk").read_text(encoding="utf-8")
    files["linux/Makefile"] = makefile.replace("example_CORE", f"example_{package.spec.name}").replace("CORE", name)
    files[f"linux/{name}.dts"] = overlay(name, package.mhz, package.shared_memory)
    files[f"linux/{name}.bif"] = bif(name)
    if package.board.board_connections:  # a Kria, whose xmutil reads it
        files["linux/shell.json"] = shell_json()
    return files


def _vitis(package: Package) -> Files:
    files = _driver(package, *_OPTIONS, "selftest_xrt.cpp")
    files["vitis/package_xo.tcl"] = kernel_script(package.spec, package.emitted, package.board)
    files["vitis/link.cfg"] = link_configuration(package.spec, package.emitted)
    return files


def _pynq(package: Package) -> Files:
    test, example, top = package.test, package.example, package.emitted.top
    files = _vivado(package) | {
        "pynq/fabtune_core.py": (PYNQ / "driver" / "fabtune_core.py").read_text(encoding="utf-8"),
        "pynq/fabtune_clock.py": Path(clock.__file__).read_text(encoding="utf-8"),
        "pynq/fabtune_core.json": description(test, top, package.clock_hz, example),
        "pynq/selftest.bin": test.image.tobytes(),
        f"pynq/{top}.ipynb": notebook(test, top, example),
    }
    return files | ({"pynq/example.bin": example.memory.image.tobytes()} if example else {})


def _simulation(package: Package) -> Files:
    return {**testbench_files(package.spec, package.emitted, package.test, package.example)}


def _baremetal(package: Package) -> Files:
    files = _vivado(package) | _driver(
        package, "fabtune_mmio.h", "fabtune_mmio.c", "fabtune_standalone.h", "selftest_baremetal.c"
    )
    files["selftest/selftest_image.S"] = assembler_source("selftest", package.test.memory)
    return files | _example(package, "baremetal")


_DEBUG = """\
The monitor's pins show each update of the parameters: `monitor_valid`, `monitor_beat`, `monitor_data`, `monitor_done`.
In the block design a logic analyser is on them. With the board at the JTAG cable and its bitstream loaded:

    vivado -mode batch -source vivado/capture.tcl                    # says that it waits: run the self-test now
    fabtune compare CORE vivado/capture.csv                          # with the options of `fabtune package`

The second line, where fabtune is, says whether the updates are golden's, and otherwise which 128 bits differ first."""

_LINUX_STEPS = """\
On the computer with Vivado, with a C compiler for the board and dtc:

    vivado -mode batch -source vivado/system.tcl -tclargs build      # out/CORE.bit
    bootgen -image linux/CORE.bif -arch zynqmp -process_bitstream bin -w   # out/CORE.bit.bin
    make -C linux CC=aarch64-linux-gnu-gcc                           # linux/selftest, linux/CORE.dtbo

The overlay has the label of the board's interrupt controller. `ls /proc/device-tree/__symbols__` on the board shows
it: where there is no `gic`, make it with `INTERRUPT_PARENT=imux` behind that line.

Copy this folder to the board. There, after each start of Linux:

    grep uio_pdrv_genirq.of_id=generic-uio /proc/cmdline             # shows the line: otherwise no /dev/uioN appears
    sudo modprobe uio_pdrv_genirq
    sudo insmod u-dma-buf.ko                                         # of https://github.com/ikwzm/udmabuf

BOARD

Now there are a UIO device and a buffer:

    grep CORE /sys/class/uio/uio*/name                               # /sys/class/uio/uioN/name:CORE
    cat /sys/class/u-dma-buf/udmabuf0/sync_mode                      # 2
    sudo linux/selftest /dev/uioN udmabuf0 selftest/selftest.bin     # self-test: all N stages are right

Otherwise the self-test says which is the first part that is not right: the registers, the memory, or a stage of its
job. `--poll` works without the interrupt, and `--seconds N` is the time that a command may take, 10 by default. Exit
status: 0 all is right, 1 other bits, 2 arguments, files or devices, 3 no answer or another bitstream, 4 memory, 5 an
error of the core, 6 a command does not end, 7 its interrupt does not come. A program of your own needs
`driver/fabtune.h`."""
_LINUX_BOARDS = {
    "kv260": """\
Ubuntu for the KV260 has that argument; elsewhere add it to LINUX_KERNEL_CMDLINE in `/etc/default/flash-kernel`, run
`sudo flash-kernel` and start the board again. Then load the core:

    sudo mkdir -p /lib/firmware/xilinx/CORE
    sudo cp out/CORE.bit.bin linux/CORE.dtbo linux/shell.json /lib/firmware/xilinx/CORE/
    sudo xmutil unloadapp                                            # what is loaded at the start
    sudo xmutil loadapp CORE                                         # CORE: loaded""",
    "zcu102": """\
In PetaLinux that argument is one of the kernel's boot arguments in `petalinux-config`; the FPGA manager has to be on
there, and the UIO driver with generic interrupts in `petalinux-config -c kernel`. Then load the core:

    sudo fpgautil -b out/CORE.bit.bin -o linux/CORE.dtbo             # BIN FILE loaded ... successfully""",
}
"""Steps for the kernel's argument, the bitstream and the overlay, by board."""

TARGETS = {
    "vivado": Target(
        _vivado,
        """\
Vivado 2023.2 or later, with the board's files:

    vivado -mode batch -source vivado/system.tcl                     # the project, with the core in a block design
    vivado -mode batch -source vivado/system.tcl -tclargs build      # and out/: bitstream, .hwh, .xsa

For a design of your own add `ip/` to the IP repositories. `vivado/synth_ooc.tcl` synthesises the core by itself;
`vivado/package_ip.tcl` has Vivado make the IP anew.""",
    ),
    "vitis": Target(
        _vitis,
        """\
    vivado -mode batch -source vitis/package_xo.tcl                  # the kernel CORE.xo, driven through its registers
    v++ --link --target hw --platform PLATFORM --config vitis/link.cfg vitis/CORE.xo --output CORE.xclbin

The host program is `driver/selftest_xrt.cpp`; with the C files of `driver/`, `selftest/selftest.c` and XRT's
`xrt_coreutil` it is `selftest [--seconds N] CORE.xclbin CORE selftest/selftest.bin`.""",
    ),
    "pynq": Target(
        _pynq,
        """\
    vivado -mode batch -source vivado/system.tcl -tclargs build pynq # its interrupt is where PYNQ finds it

Put `out/CORE.bit`, `out/CORE.hwh`, `out/CORE.clock` and the files of `pynq/` into a folder of the board. There, with
PYNQ 3 alone, run the notebook `CORE.ipynb`, or:

    import fabtune_core                                              # binds the driver to the core
    from pynq import Overlay
    core = Overlay("CORE.bit").core
    core.selftest("selftest.bin")                                    # the first part that is not golden's, or all

In a terminal the same is `sudo python3 fabtune_core.py [--poll] [--seconds N] CORE.bit selftest.bin`.""",
    ),
    "linux": Target(
        _linux,
        {board: _LINUX_STEPS.replace("BOARD", steps) for board, steps in _LINUX_BOARDS.items()},
    ),
    "baremetal": Target(
        _baremetal,
        """\
Add `fabtune.c`, `fabtune_text.c`, `fabtune_mmio.c`, `fabtune_selftest.c` and `selftest_baremetal.c` of `driver/`, and
both sources of `selftest/`, to a Vitis application of the standalone domain of `out/CORE.xsa`, with these as include
folders: it prints whether the bitstream answers, then the first part of the self-test that is not golden's. Define
`FABTUNE_SECONDS` for another time limit than 10 s, `FABTUNE_REGISTERS` for another address of the core. A program of
your own needs `fabtune.c` and `fabtune_mmio.c`.""",
    ),
    "simulation": Target(
        _simulation,
        """\
The core in a simulation of your own, with `pip install fabtune`, make and g++; Icarus Verilog is a second simulator:

    cd tb
    make                                                             # the tests in cocotb, test_*.py
    make sv                                                          # the bench without Python
    make SIM=icarus                                                  # also: make sv SIM=icarus

Both run the self-test, at full speed and with random stalls, and compare every byte that the core writes with golden's.
The exit status is 0 where all are the same; otherwise the stage is named, by `make sv` also the first wrong byte.

Add your tests to `tb/test_selftest.py`, or to a file `tb/test_*.py` of your own. `tb/tb.sv` needs nothing but a
simulator with SystemVerilog's tasks; it reads the job from `tb/data/`. For GitHub Actions copy `tb/fabtune.yml` to
`.github/workflows/` of your repository, and name this folder in its `PACKAGE`.""",
    ),
}
"""Targets of a package, by name."""


def _readme(package: Package, targets: Sequence[str], files: Files, memories: Sequence[Memory]) -> str:
    spec, core, board, task = package.spec, package.emitted.top, package.board, package.task
    folders = {name.partition("/")[0] for name in files if "/" in name}
    meanings = {
        "ip": f"the IP `{vlnv(core)}`: IP-XACT description, Verilog, its page in Vivado",
        "registers": "the registers as a table, as SystemRDL and as a C header",
        "vivado": "scripts and constraints for Vivado",
        "driver": "driver in C11 for bare metal and Linux",
        "selftest": "a small job with its expected results, as data for the driver",
        "example": "a program that tunes a network on the core, and prints accuracies and golden's",
        "vitis": "script for a kernel of Vitis, configuration for its linker",
        "pynq": "driver for PYNQ, which needs nothing of fabtune on the board",
        "tb": "benches for Verilator and Icarus: cocotb, plain SystemVerilog, the self-test as data",
        "linux": "device-tree overlay, input of bootgen, Makefile of the programs",
    }
    lines = [f"# {core} for the {board.name}", "", f"{spec.summary[0].upper()}{spec.summary[1:]}.", ""]
    lines += [f"Signature 0x{spec.signature:08X}; its parameters are in `spec.json`.", ""]
    random = _RANDOM if isinstance(spec, NetworkCoreSpec) else _DRAWN
    given = _SENTENCES if isinstance(task, SentenceTask) else _GIVEN
    lines += [given.replace("DATA", task.name) if task else random, ""]
    lines += [f"`sha256sum --check {MANIFEST}` tells which files are no longer as fabtune wrote them.", ""]
    lines += ["| folder | |", "|---|---|"]
    lines += [f"| `{name}/` | {meaning} |" for name, meaning in meanings.items() if name in folders]
    for name in targets:
        steps = TARGETS[name].steps
        text = steps if isinstance(steps, str) else steps[board.name]
        lines += ["", f"## {name}", "", text.replace("CORE", core)]
    if "vivado/capture.tcl" in files:
        lines += ["", "## A logic analyser on the core", "", _DEBUG.replace("compare CORE", f"compare {spec.name}")]
    if {"example", "pynq", "tb"} & folders and package.example:
        lines += ["", "## The example", "", example_page(package.example, targets)]
    return "\n".join([*lines, "", *_memories(memories, board), "", *_plan(package), ""])


_RANDOM = "The self-test's weights and samples are random; `--weights` and `--data` of `fabtune package` give others."
_DRAWN = "The self-test's networks and samples are random: the core is generated for no network."
_SENTENCES = "The self-test's networks and samples are random; the example has your model, and the sentences of DATA."
_GIVEN = "The self-test has your weights, and the first samples of DATA, at most six."


def _memories(memories: Sequence[Memory], board: Board) -> list[str]:
    """Table of memories: a row for memories whose names differ only in the last number."""
    lines = ["## Memories", ""]
    lines += ["| memory | number | words | bits | ports to read | mode | asked for | open synthesis takes for each |"]
    lines += ["|---|---:|---:|---:|---:|---|---|---|"]
    for alike in _alike(memories):
        names = " to ".join(f"`{end.name.partition('.')[2]}`" for end in dict.fromkeys((alike[0], alike[-1])))
        memory = alike[0]
        shape = f"{names} | {len(alike)} | {memory.depth} | {memory.width} | {memory.reads} | {memory.mode}"
        lines.append(f"| {shape} | {memory.style} | {memory.maps_to} |")
    sums = {kind: sum(memory.blocks[kind] for memory in memories) for kind in ("bram36", "uram")}
    total = ", ".join(f"{count:g} of {board.resources[kind]} {kind.upper()}" for kind, count in sums.items())
    return [
        *lines,
        "",
        f"Together {total}. Open synthesis is that of Yosys, as in `fabtune estimate`; Vivado may place what asks for",
        "nothing elsewhere. A name begins with the instances around the memory. In Vivado a dot is `/`, and `_reg`",
        "follows: `get_cells -hierarchical -filter {NAME =~ */trainer/engine/*/rows_reg*}`.",
        "",
        "Mode is what a read gives at the address that is written in the same cycle: `read first` the word before.",
        "`latch with reset`: the register behind the read, which has a synchronous reset, is the block RAM's latch.",
        "No memory has a reset otherwise; RAMs are zero after configuration.",
    ]


def _plan(package: Package) -> list[str]:
    rows = package.spec.memory_plan(package.board.fabric).table
    return [
        "The plan chooses kinds by the blocks that the device has; the rows of a memory may be several aspects deep:",
        "",
        "| holds | number | rows x bits | kind | blocks, of which aspect |",
        "|---|---:|---:|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _alike(memories: Sequence[Memory]) -> list[list[Memory]]:
    """Group memories that differ only in the last number of the name, counting up by 1."""
    groups: list[list[Memory]] = []
    awaited: dict[Memory, list[Memory]] = {}
    for memory in memories:
        if (group := awaited.pop(memory, None)) is None:
            groups.append(group := [])
        group.append(memory)
        following = re.sub(r"\d+(?=\D*$)", lambda number: str(int(number[0]) + 1), memory.name)
        awaited[dataclasses.replace(memory, name=following)] = group
    return groups
