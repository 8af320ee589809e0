"""cocotb bench of two cores in one design: host and memory for each, and simultaneous self-tests."""

import json
import os
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from fabtune.boards.host.driver import Core
from fabtune.boards.packaging import selftest_of
from fabtune.golden.axi.regions import ALIGNMENT
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build


class Registers:
    """Registers of a core for the driver, which runs in a separate thread."""

    def __init__(self, master):
        self._master = master

    @resume
    async def read(self, offset):
        return int.from_bytes((await self._master.read(offset, 4)).data, "little")

    @resume
    async def write(self, offset, value):
        await self._master.write(offset, value.to_bytes(4, "little"))


class Buffer:
    def __init__(self, ram, address, size):
        self._ram, self.device_address, self.array = ram, address, np.zeros(size, np.uint8)

    def flush(self):
        self._ram.write(self.device_address, self.array.tobytes())

    def invalidate(self):
        self.array[:] = np.frombuffer(self._ram.read(self.device_address, self.array.size), np.uint8)


class Memory:
    """Memory of a core."""

    def __init__(self, ram):
        self._ram, self._end = ram, ALIGNMENT

    def allocate(self, size):
        address, self._end = self._end, self._end + -(-size // ALIGNMENT) * ALIGNMENT
        return Buffer(self._ram, address, size)


def waiting_for(interrupt):
    """Function that returns after an interrupt."""

    @resume
    async def wait():
        if not interrupt.value:
            await RisingEdge(interrupt)

    return wait


@cocotb.test()
async def both_cores_pass_their_self_tests(dut):
    plan = json.loads(Path(os.environ["FABTUNE_PLAN"]).read_text())
    cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
    dut.aresetn.value = 0
    cores = []
    for prefix, (block, settings) in plan["cores"].items():
        spec, around = build(BLOCKS[block], settings), (dut.aclk, dut.aresetn)
        host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{prefix}_s_axi_control"), *around, reset_active_level=False)
        ram = AxiRam(AxiBus.from_prefix(dut, f"{prefix}_m_axi_gmem0"), *around, False, size=1 << 22)
        interrupt = waiting_for(getattr(dut, f"{prefix}_interrupt"))
        core = Core(spec.registers, Registers(host), Memory(ram), interrupt, address=spec.address)
        cores.append((prefix, selftest_of(spec), core))
    await ClockCycles(dut.aclk, 8)
    dut.aresetn.value = 1
    runs = [(prefix, cocotb.start_soon(bridge(test.run)(core))) for prefix, test, core in cores]
    passed = {prefix: await run for prefix, run in runs}
    Path(os.environ["FABTUNE_RESULTS"]).write_text(json.dumps(passed))
