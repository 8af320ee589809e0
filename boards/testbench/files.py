"""Files of a package's folder `tb/`: benches, Makefile, job as data, workflow of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ...golden.axi.bus import BEAT
from ...golden.cores.core import CoreSpec
from ...hw.axi.bus import TopPin
from ...hw.power_up import PLUSARG
from ...hw.verilog import Emitted
from ..example.job import Example
from ..selftest.job import SelfTest
from ..selftest.saved import saved
from .job_data import JobData, job_data

TEMPLATES = Path(__file__).with_name("templates")
BASE = 0x1_0000_0000
"""Byte address of the job's memory: above 32 bits, and within the address bits of every core."""
_CHANNELS = {
    "aw": {"id": "ID", "addr": "64", "len": "8", "size": "3", "burst": "2", "valid": "1", "ready": "1"},
    "w": {"data": "DATA", "strb": "BYTES", "last": "1", "valid": "1", "ready": "1"},
    "b": {"id": "ID", "resp": "2", "valid": "1", "ready": "1"},
    "ar": {"id": "ID", "addr": "64", "len": "8", "size": "3", "burst": "2", "valid": "1", "ready": "1"},
    "r": {"id": "ID", "data": "DATA", "resp": "2", "last": "1", "valid": "1", "ready": "1"},
}
"""Pins of a port of the memory model, with widths, by channel."""
_PINS = {f"{channel}{name}": width for channel, names in _CHANNELS.items() for name, width in names.items()}


def testbench_files(spec: CoreSpec, emitted: Emitted, test: SelfTest, example: Example | None) -> dict[str, str]:
    """Test bench that runs a core's self-test; text by file name below ``tb``.

    With an example, the bench without Python can on request run the example's longer job too.
    """
    data = job_data(test)
    longer = job_data(example.job, example) if example else None
    names = {"TOP": emitted.top, "POWER_UP": PLUSARG}
    names["EXAMPLE"] = _sizes(example.job, longer) if example and longer else ""
    files = {f"tb/{name}": _filled(name, names) for name in ("Makefile", "cocotb.mk", "fabtune.yml")}
    files["tb/test_selftest.py"] = _filled("test_selftest.in", names)
    files["tb/fabtune_axi_memory.sv"] = _filled("fabtune_axi_memory.sv", {})
    files["tb/tb.sv"] = _filled("tb.sv", names | _bench(spec, emitted, test, data))
    files["tb/ports.vlt"] = emitted.ports_vlt
    files["tb/data/selftest.json"] = saved(test)
    for folder, job in (("data", data), ("example", longer)):
        if job:
            files[f"tb/{folder}/program.txt"] = job.program
            files[f"tb/{folder}/memory.hex"] = job.memory
            files[f"tb/{folder}/expected.hex"] = job.expected
    return files


def _sizes(test: SelfTest, data: JobData) -> str:
    sizes = {"WORDS": -(-test.size // BEAT), "EXPECTED": data.expected_words, "IMAGE": data.memory_words}
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def _filled(name: str, words: Mapping[str, str]) -> str:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def _bench(spec: CoreSpec, emitted: Emitted, test: SelfTest, data: JobData) -> dict[str, str]:
    pins = {pin.name: pin for pin in emitted.pins}
    memories = [*dict.fromkeys(prefix for prefix in spec.buses.values() if prefix.startswith("m_axi"))]
    (host,) = dict.fromkeys(prefix for prefix in spec.buses.values() if prefix.startswith("s_axi"))
    wires = [f"  wire [PORTS*{width}-1:0] m_{name};" for name, width in _PINS.items()]
    wires += [f"  assign {wire} = 0;" for wire in _undriven(memories, pins)]
    return {
        "PORTS": str(len(memories)),
        "ID": str(pins[f"{memories[0]}_arid"].width),
        "DATA": str(8 * BEAT),
        "OFFSETS": str(pins[f"{host}_awaddr"].width),
        "WORDS": str(-(-test.size // BEAT)),
        "EXPECTED": str(data.expected_words),
        "IMAGE": str(data.memory_words),
        "BASE": f"{BASE:_X}",
        "WIRES": "\n".join(wires),
        "CONNECTIONS": ",\n".join(f"      .{pin}({to})" for pin, to in _connections(emitted, host, memories)),
        "MEMORY": "\n".join(f"      .{name}(m_{name})," for name in _PINS),
    }


def _connections(emitted: Emitted, host: str, memories: list[str]) -> Iterator[tuple[str, str]]:
    """Connection of each pin of the core; unused pins are open."""
    pins = (emitted.clock, emitted.reset, "interrupt")
    wires = {emitted.clock: "aclk", emitted.reset: "aresetn", "interrupt": "interrupt"}
    for pin in emitted.pins:
        prefix = next(
            (host_or_memory for host_or_memory in (host, *memories) if pin.name.startswith(f"{host_or_memory}_")), ""
        )
        name = pin.name.removeprefix(f"{prefix}_")
        if prefix == host:
            yield pin.name, name
        elif prefix and name in _PINS:
            yield pin.name, f"m_{name}[{_slice(_PINS[name], memories.index(prefix))}]"
        else:
            yield pin.name, wires[pin.name] if pin.name in pins else ""


def _undriven(memories: list[str], pins: Mapping[str, TopPin]) -> Iterator[str]:
    """Inputs of the memory model that a port leaves undriven, as it lacks the channel."""
    for port, prefix in enumerate(memories):
        for channel, names in _CHANNELS.items():
            answers = channel in ("b", "r")
            for name, width in names.items():
                into_memory = (name == "ready") if answers else (name != "ready")
                if into_memory and f"{prefix}_{channel}{name}" not in pins:
                    yield f"m_{channel}{name}[{_slice(width, port)}]"


def _slice(width: str, port: int) -> str:
    return str(port) if width == "1" else f"{width}*{port}+:{width}"
