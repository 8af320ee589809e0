"""Register model compared with hand-computed accesses."""

from fabtune.golden.axi.axi_registers import OKAY, SLVERR, Model
from fabtune.golden.cores.instantft.registers import REGISTERS


def test_by_hand():
    model = Model(REGISTERS, 0x1234)
    rate, status = REGISTERS["rate"].offset, REGISTERS["status"].offset
    assert model.write(rate, 0x11223344, 0b1111) == OKAY
    assert model.write(rate, 0xAABBCCDD, 0b0110) == OKAY
    assert model.read(rate) == (OKAY, 0x11BBCC44)
    assert model.write(status, 1, 0b1111) == SLVERR
    assert model.read(REGISTERS["signature"].offset) == (OKAY, 0x1234)
    assert model.read(0xF8) == (SLVERR, 0)
    assert model.write(REGISTERS["command"].offset, 0xFFFFFF03, 0b0001) == OKAY
    assert (model.wires["command"], model.strobes["command_strobe"]) == (3, 1)
    assert model.read(REGISTERS["command"].offset) == (OKAY, 0)
    # a write without strobes is answered, but is not a command
    assert model.write(REGISTERS["command"].offset, 3, 0b0000) == OKAY
    assert model.strobes["command_strobe"] == 1


def test_the_interrupt_waits_to_be_cleared():
    model, pending = Model(REGISTERS, 0), REGISTERS["interrupt"].offset
    model.pulse("finished")
    assert (model.read(pending), model.line("interrupt")) == ((OKAY, 1), 0)
    model.write(REGISTERS["interrupt_enable"].offset, 1, 0b1111)
    assert model.line("interrupt") == 1
    model.write(pending, 1, 0b1110)
    assert model.line("interrupt") == 1
    model.write(pending, 1, 0b0001)
    assert model.line("interrupt") == 0


def test_bits_that_are_set_stay_until_all_is_cleared():
    model, reset = Model(REGISTERS, 0), REGISTERS["soft_reset"].offset
    model.write(reset, 0xFFFFFFFF, 0b1110)
    assert model.read(reset) == (OKAY, 0)
    model.write(reset, 0xFFFFFFFF, 0b0001)
    model.write(reset, 0, 0b1111)
    assert (model.read(reset), model.wires["soft_reset"]) == ((OKAY, 1), 1)
    model.write(REGISTERS["rate"].offset, 9, 0b1111)
    model.write(REGISTERS["command"].offset, 2, 0b1111)
    model.pulse("finished")
    model.pulse("clear")
    assert [model.read(REGISTERS[name].offset)[1] for name in ("soft_reset", "rate", "interrupt")] == [0, 0, 0]
    assert (model.wires["command"], model.strobes["command_strobe"]) == (0, 1)


def test_locked_registers_ignore_writes():
    model = Model(REGISTERS, 0)
    rate, command, enable = (REGISTERS[name].offset for name in ("rate", "command", "interrupt_enable"))
    model.wires["locked"] = 1
    assert [model.write(offset, 1, 0b1111) for offset in (rate, command, enable)] == [OKAY] * 3
    assert (model.wires["rate"], model.wires["interrupt_enable"], model.strobes["command_strobe"]) == (0, 1, 0)
    model.wires["locked"] = 0
    model.write(rate, 7, 0b1111)
    assert model.read(rate) == (OKAY, 7)
