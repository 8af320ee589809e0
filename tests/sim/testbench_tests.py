"""Tests in cocotb of host and memory around a core, run by `test_testbench.py`."""

import cocotb
import numpy as np
from small_cores import ONE_STAGE, zotrain

from fabtune.boards.host.driver import CoreError
from fabtune.boards.packaging import selftest_of
from fabtune.golden.errors import UserError
from fabtune.sim.testbench import BASE, host_for, memory_for

SPEC = zotrain(**ONE_STAGE, cut_rows=0)
LOAD = SPEC.registers.commands["LOAD"]


def refused(function, *arguments):
    """Message of the error that a function raises."""
    try:
        function(*arguments)
    except UserError as error:
        return str(error)
    return "no error"


@cocotb.test()
async def buffers_are_in_the_memory(dut):
    """Flush and invalidate copy; buffers do not overlap, and the second lies above 32 bits."""
    memory = memory_for(dut)
    first, second = memory.allocate(2 * 4096), memory.allocate(5)
    assert (first.device_address, second.device_address) == (BASE, 1 << 32)
    assert not first.array.any()
    first.array[:] = np.arange(2 * 4096) % 251
    assert memory.read(first.device_address, 3) == bytes(3)
    first.flush()
    assert memory.read(first.device_address + 250, 3) == bytes([250, 0, 1])
    memory.write(second.device_address, b"hello")
    second.invalidate()
    assert second.array.tobytes() == b"hello"


@cocotb.test()
async def registers_are_read_and_written(dut):
    """The driver reads the signature, and refuses another signature."""
    host = host_for(dut, SPEC)
    await host.reset()
    assert await host.run(lambda core: core.signature) == SPEC.signature
    assert "the bitstream is of other settings" in await host.run(lambda core: refused(core.check_signature, 1))
    assert "no memory to allocate from" in await host.run(lambda core: refused(core.allocate, 16))


@cocotb.test()
async def a_register_that_is_none_is_an_error(dut):
    """An access that the core's register bus refuses is an error of the host."""
    host = host_for(dut, SPEC)
    await host.reset()
    offsets = {register.offset for register in SPEC.registers.map}
    nowhere = next(offset for offset in range(0, 256, 4) if offset not in offsets)
    signature = SPEC.registers.map["signature"].offset
    message = f"register {nowhere:#04x} answers with response 2"
    assert await host.run(lambda core: refused(host.read, nowhere)) == message
    assert await host.run(lambda core: refused(host.write, nowhere, 1)) == message
    assert "answers with response 2" in await host.run(lambda core: refused(host.write, signature, 1))


@cocotb.test()
async def a_command_without_an_end_is_an_error(dut):
    """The host waits for the interrupt up to the limit."""
    memory = memory_for(dut)
    host = host_for(dut, SPEC, memory, limit=50)
    await host.reset()

    def load(core):
        return refused(lambda: core.run(LOAD, parameters=memory.allocate(1 << 16).device_address))

    assert await host.run(load) == "no interrupt in 50 cycles"


@cocotb.test()
async def a_reset_at_any_time(dut):
    """After a reset in the middle of a command the next job is right."""
    memory = memory_for(dut, stall=0.2, seed=3)
    host = host_for(dut, SPEC, memory, stall=0.2, seed=4)
    await host.reset()

    def begin(core):
        core.write("parameters", memory.allocate(1 << 16).device_address & 0xFFFFFFFF)
        core.write("command", LOAD)
        return core.busy

    assert await host.run(begin)
    await host.reset(3)
    await host.run(selftest_of(SPEC).run)


@cocotb.test()
async def memory_errors_reach_the_driver(dut):
    """An address range with error responses ends the command with the right error."""
    memory = memory_for(dut)
    host = host_for(dut, SPEC, memory)
    await host.reset()
    buffer = memory.allocate(1 << 16)
    memory.responses.append((buffer.device_address + 64, buffer.device_address + 80, 3))

    def load(core):
        try:
            core.run(LOAD, parameters=buffer.device_address)
        except CoreError as error:
            return error.name
        return "no error"

    assert await host.run(load) == "read_decerr"
