"""Host and memory of cocotbext-axi around a core, playing a script of accesses and waits.

Runs in the simulator without any import of fabtune: the plan gives the writes, expected reads and memory contents.
cocotbext-axi's pauses on every channel come from Python's generator.
"""

import itertools
import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

PERIOD_NS = 4
MEMORY = 1 << 40


def pauses(own, share):
    """Random runs of one to nine cycles with or without a pause of a channel."""
    while True:
        yield from itertools.repeat(own.random() < share, own.randint(1, 9))


class Player:
    """Steps of a script, in sequence."""

    def __init__(self, dut, plan):
        self.dut, own, share = dut, random.Random(plan["seed"]), plan["pauses"]
        around = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi_control"), **around)
        self.memory = AxiRam(AxiBus.from_prefix(dut, "m_axi_gmem0"), **around, size=MEMORY)
        for model in (self.host, self.memory):
            model.write_if.log.setLevel("WARNING")
            model.read_if.log.setLevel("WARNING")
            for channel in ("aw_channel", "w_channel", "b_channel"):
                getattr(model.write_if, channel).set_pause_generator(pauses(random.Random(own.random()), share))
            for channel in ("ar_channel", "r_channel"):
                getattr(model.read_if, channel).set_pause_generator(pauses(random.Random(own.random()), share))

    async def write(self, address, data, response):
        """Write bytes within a word; other bytes are not strobed."""
        answer = await self.host.write(address, bytes.fromhex(data))
        assert int(answer.resp) == response, f"write of {address:#x}: response {int(answer.resp)}, not {response}"

    async def read(self, address, response, mask, value):
        """Read a word; bits of the mask are compared."""
        answer = await self.host.read(address, 4)
        found = int.from_bytes(answer.data, "little")
        assert int(answer.resp) == response, f"read of {address:#x}: response {int(answer.resp)}, not {response}"
        assert found & mask == value, f"read of {address:#x}: {found & mask:#x}, not {value:#x}"

    async def interrupt(self, level, cycles):
        """Wait until the interrupt has a level."""
        for _ in range(cycles):
            if int(self.dut.interrupt.value) == level:
                return
            await ClockCycles(self.dut.aclk, 1)
        raise AssertionError(f"interrupt is not {level} after {cycles} cycles")

    async def put(self, address, data):
        """Change the memory."""
        self.memory.write(address, bytes.fromhex(data))


@cocotb.test()
async def script(dut):
    """Reset, then every step; the final contents of the kept regions are the results."""
    plan = json.loads(Path(os.environ["FABTUNE_PLAN"]).read_text())
    dut.aresetn.value = 0
    Clock(dut.aclk, PERIOD_NS, "ns").start()
    player = Player(dut, plan)
    await ClockCycles(dut.aclk, 4)
    dut.aresetn.value = 1
    await ClockCycles(dut.aclk, 2)
    for kind, *arguments in plan["script"]:
        await getattr(player, kind)(*arguments)
    kept = {name: player.memory.read(*region).hex() for name, region in plan["kept"].items()}
    Path(os.environ["FABTUNE_RESULTS"]).write_text(json.dumps(kept))
