"""Host driver with a minimal fake core."""

from enum import IntEnum

import numpy as np
import pytest

from fabtune.boards.host.driver import Allocated, Core, CoreError, Finished
from fabtune.golden.axi.regions import Region
from fabtune.golden.cores.adapters.registers import Command, Error
from fabtune.golden.cores.instantft.registers import CORE, REGISTERS
from fabtune.golden.cores.shell import CoreRegisters, Counter, Setting
from fabtune.golden.errors import UserError


class FakeCore:
    """Registers of a core that finishes a command after some status reads."""

    def __init__(self, looks=3, error=0, registers=REGISTERS, resets=0):
        self.words = {register.offset: 0 for register in registers}
        self.words[REGISTERS["signature"].offset] = 0x1234
        self.looks, self.error, self.left, self.status = looks, error, None, 0
        self.commands, self.cleared = [], 0
        self.resets, self.reset_reads = resets, 0

    def at(self, name):
        return self.words[REGISTERS[name].offset]

    def read(self, offset):
        if offset == REGISTERS["soft_reset"].offset:
            self.reset_reads += 1
            if self.reset_reads > self.resets:
                self.words[offset] = 0
        if offset != REGISTERS["status"].offset:
            return self.words[offset]
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                self.status = 0b110 | self.error << 8 if self.error else 0b010
        return self.status

    def write(self, offset, value):
        assert 0 <= value < 2**32
        if offset == REGISTERS["command"].offset:
            self.commands.append((value, dict(self.words)))
            self.status, self.left = 1, self.looks
        elif offset == REGISTERS["interrupt"].offset:
            self.cleared += 1
        else:
            self.words[offset] = value


class FakeArray(np.ndarray):
    """As ``pynq.allocate`` returns."""

    device_address = 0x1000
    calls = ()

    def flush(self):
        self.calls = (*self.calls, "flush")

    def invalidate(self):
        self.calls = (*self.calls, "invalidate")


def allocate(shape, dtype):
    return np.zeros(shape, dtype).view(FakeArray)


def test_a_command_sets_registers_starts_and_waits():
    fake = FakeCore()
    results = {"cycles_low": 5, "cycles_high": 2, "batches": 7, "misses": 8, "saturations": 9}
    fake.words |= {REGISTERS[name].offset: value for name, value in results.items()}
    core = Core(CORE, fake, Allocated(allocate))
    assert core.run(Command.TUNE, rate=0x1_0000, epochs=10) == Finished(
        2 << 32 | 5, {"batches": 7, "misses": 8, "saturations": 9}
    )
    [(command, words)] = fake.commands
    assert command == 3
    assert (words[0x5C], words[0x54]) == (0x1_0000, 10)
    assert fake.at("interrupt_enable") == 0
    assert not core.busy


def test_an_interrupt_is_waited_for():
    fake, waits = FakeCore(looks=1), []
    core = Core(CORE, fake, Allocated(allocate), interrupt=lambda: waits.append(1))
    core.run(Command.INFER)
    assert fake.at("interrupt_enable") == 1
    assert 0 < len(waits) <= 2
    assert fake.cleared == 2  # one earlier event, and one for this command


@pytest.mark.parametrize("code", Error)
def test_an_error_of_the_core_is_raised(code):
    fake = FakeCore(error=code)
    fake.words |= {REGISTERS["error_address"].offset: 0xABC0, REGISTERS["error_address_high"].offset: 0x12}
    with pytest.raises(CoreError, match=rf"load ended with {code.name.lower()} at 0x120000abc0") as caught:
        Core(CORE, fake, Allocated(allocate)).run(Command.LOAD)
    assert (caught.value.code, caught.value.name, caught.value.address) == (code, code.name.lower(), 0x12_0000_ABC0)
    assert isinstance(caught.value, UserError)


def test_an_unknown_error_is_raised_too():
    with pytest.raises(CoreError, match="unknown error 200"):
        Core(CORE, FakeCore(error=200), Allocated(allocate)).run(Command.LOAD)


def test_a_core_that_does_not_end_is_given_up():
    fake = FakeCore(looks=100)
    core = Core(CORE, fake, Allocated(allocate))
    with pytest.raises(UserError, match="save_adapters has not ended after 20 polls"):
        core.run(Command.SAVE_ADAPTERS, polls=20)
    with pytest.raises(UserError, match="busy"):
        core.run(Command.SAVE_ADAPTERS)
    assert len(fake.commands) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rates": 1}, "'rates' is not a setting: parameters, "),
        ({"samples_high": 1}, "'samples_high' is not a setting"),
        ({"samples": 1 << 64}, r"samples = 18446744073709551616 is not in 0 to 2\*\*64 - 1"),
        ({"status": 1}, "'status' is not a setting"),
        ({"command": 1}, "'command' is not a setting"),
        ({"rate": 1 << 32}, r"rate = 4294967296 is not in 0 to 2\*\*32 - 1"),
        ({"rate": -1}, "rate = -1"),
    ],
)
def test_wrong_settings_start_nothing(values, message):
    fake = FakeCore()
    with pytest.raises(UserError, match=message):
        Core(CORE, fake, Allocated(allocate)).run(Command.TUNE, **values)
    assert not fake.commands


def test_a_soft_reset_is_waited_for():
    fake = FakeCore(resets=5)
    Core(CORE, fake, None).reset()
    assert (fake.reset_reads, fake.at("soft_reset")) == (6, 0)
    with pytest.raises(
        UserError,
        match="a soft reset does not end: memory does not answer a burst, or the core's clock has stopped: load",
    ):
        Core(CORE, FakeCore(resets=5), None).reset(polls=4)


def test_the_signature_is_checked():
    assert Core(CORE, FakeCore(), Allocated(allocate), signature=0x1234).signature == 0x1234
    with pytest.raises(
        UserError, match="signature 0x00001234 instead of 0x00001235: the bitstream is of other settings"
    ):
        Core(CORE, FakeCore(), Allocated(allocate), signature=0x1235)


def test_read_only_registers_are_not_written():
    with pytest.raises(UserError, match="can only be read"):
        Core(CORE, FakeCore(), Allocated(allocate)).write("misses", 0)


def test_buffers_are_views_with_cache_maintenance():
    arrays = []

    def kept(shape, dtype):
        arrays.append(allocate(shape, dtype))
        return arrays[-1]

    buffer = Core(CORE, FakeCore(), Allocated(kept)).allocate(64)
    buffer.array[3] = 7
    buffer.flush()
    buffer.invalidate()
    assert arrays[0][3] == 7
    assert arrays[0].calls == ("flush", "invalidate")
    assert (buffer.device_address, buffer.array.nbytes) == (0x1000, 64)


def test_a_region_is_placed_with_its_image():
    arrays = []

    def kept(shape, dtype):
        arrays.append(allocate(shape, dtype))
        return arrays[-1]

    core = Core(CORE, FakeCore(), Allocated(kept))
    placed = core.place(Region.containing("samples", np.arange(32, dtype=np.uint8)))
    room = core.place(Region("logits", 48))
    assert placed.array.tolist() == list(range(32))
    assert room.array.nbytes == 48
    assert [array.calls for array in arrays] == [("flush",), ()]


@pytest.mark.parametrize("address", [0x1008, 0xFF_FFFF_FFF0, 0x100_0000_0000])
def test_a_buffer_that_the_core_cannot_address_is_refused(address, monkeypatch):
    monkeypatch.setattr(FakeArray, "device_address", address)
    with pytest.raises(UserError, match=r"multiples of 16 below 2\*\*40"):
        Core(CORE, FakeCore(), Allocated(allocate)).allocate(64)


def test_a_region_that_the_core_cannot_address_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr(FakeArray, "device_address", (1 << 40) - 512)
    core = Core(CORE, FakeCore(), Allocated(allocate))
    assert core.place(Region("adapters", 512)).array.nbytes == 512
    with pytest.raises(
        UserError, match=r"^adapters of 513 bytes at 0xfffffffe00: the core needs multiples of 16 below 2"
    ):
        core.place(Region("adapters", 513))


def test_a_refused_address_is_named_and_one_beyond_the_bits_is_said_to_be():
    fake = FakeCore(error=Error.BAD_ADDRESS)
    fake.words |= {REGISTERS["error_address"].offset: 0xFFFF_FE00, REGISTERS["error_address_high"].offset: 0xFF}
    core = Core(CORE, fake, Allocated(allocate))
    with pytest.raises(CoreError, match=r"^save_adapters ended with bad_address at 0xfffffffe00: adapters$"):
        core.run(Command.SAVE_ADAPTERS, adapters=(1 << 40) - 512, samples=(1 << 40) - 512)
    fake = FakeCore(error=Error.WRITE_DECERR)
    fake.words |= {REGISTERS["error_address_high"].offset: 0x100}
    core = Core(CORE, fake, Allocated(allocate))
    with pytest.raises(CoreError, match=r"at 0x10000000000: a region ends beyond the core's 40 address bits$"):
        core.run(Command.INFER)


def test_another_core_has_its_own_registers_commands_and_errors():
    class Job(IntEnum):
        GROW = 1

    class Fault(IntEnum):
        BAD_COMMAND = 1
        TOO_TALL = 2

    tree = CoreRegisters("tree", Job, Fault, (Setting("height", "in metres"),), (Counter("rings", "grown"),))
    fake = FakeCore(registers=tree.map)
    fake.words[tree.map["rings"].offset] = 3
    core = Core(tree, fake, None)
    assert core.run(Job.GROW, height=4) == Finished(0, {"rings": 3})
    assert fake.words[tree.map["height"].offset] == 4
    with pytest.raises(UserError, match="'rate' is not a setting: height are"):
        core.run(Job.GROW, rate=1)
    with pytest.raises(CoreError, match="grow ended with too_tall"):
        Core(tree, FakeCore(error=2, registers=tree.map), None).run(Job.GROW)
