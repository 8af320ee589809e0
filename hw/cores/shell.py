"""The shell of a core: registers, commands, checks, errors, abort, interrupt and counters around a trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_registers import AxiRegistersSpec
from ...golden.cores.shell import CoreRegisters
from ..axi.axi_registers import AxiRegisters
from ..axi.bus import Lite
from ..axi.memory_port import Fault

DRAIN_CYCLES = 16
"""Cycles from `abort` to the first look at `quiet`: a burst that was issued just before must be counted by then."""
CYCLE_BITS = 48
"""Bits of the cycle counter: 16 days at 200 MHz."""


class Control(wiring.Signature):
    """Interface between the shell and the trainer inside, as the shell sees it.

    A command begins with `start` and ends with `finished`, or with `fault.failed`. After a fault the shell raises
    `abort`, waits for `quiet`, and resets the trainer for one cycle.

    Parameters
    ----------
    core : CoreRegisters
        The core's registers, commands and errors.

    Members
    -------
    start : Out(1)
        Begin a command; one cycle, only while `ready`.
    command : Out, as wide as the codes
        Which one. It and `settings` are stable from at least two cycles before `start` to the end of the command.
    ready : In(1)
        A command can begin.
    finished : In(1)
        The command has ended; one cycle, after `start`.
    fault : In, `Fault`
        The command cannot go on.
    abort : Out(1)
        Stop all traffic to the memory; high until the trainer is reset.
    quiet : In(1)
        No burst is outstanding.
    settings : Out
        A 32-bit word for each setting that the core declares, by its name.
    counts : In
        For each counter that the core declares, by its name, what to add in this cycle.
    """

    def __init__(self, core: CoreRegisters) -> None:
        settings = wiring.Signature({name: Out(32) for name in core.setting_names})
        counts = wiring.Signature({item.name: Out(item.width) for item in core.counters})
        super().__init__(
            {
                "start": Out(1),
                "command": Out(max(core.commands).bit_length()),
                "ready": In(1),
                "finished": In(1),
                "fault": In(Fault(core.errors)),
                "abort": Out(1),
                "quiet": In(1),
                "settings": Out(settings),
                "counts": In(counts),
            }
        )


class Check(NamedTuple):
    """A reason to refuse a command.

    Parameters
    ----------
    wrong : Value
        High if the command is refused, from the command and the settings.
    error : IntEnum
        The code in `status`.
    value : Value
        The offending value, for `error_address`.
    """

    wrong: Value
    error: IntEnum
    value: Value


Checks = Callable[[Value, wiring.PureInterface], Sequence[Check]]
"""Function that gives a core's checks, the most important first, from the command (32 bits) and the settings."""


class Shell(wiring.Component):
    """Registers of a core, and the sequence of each of its commands.

    A command is checked, one check a cycle; the first check that fails ends it with its code. Otherwise it is started
    once the trainer is ready and runs to its end or to a fault. After a fault all traffic to the memory is stopped,
    what is outstanding is waited for, and `clear` resets the trainer. Each command ends with the interrupt.

    From the write of a command to the command's end, writes to the command and to settings are ignored and not queued,
    however close behind they are; what was written before the command counts. The interrupt's registers can always be
    written.

    Parameters
    ----------
    core : CoreRegisters
        The core's registers, commands and errors.
    signature : int
        Value of the register of this name.
    checks : callable
        See `Checks`. An unknown command is refused without one.

    Attributes
    ----------
    bus : In, `Lite`
        The host's AXI4-Lite bus.
    interrupt : Out(1)
        Level: a command has ended and the host has enabled the interrupt and not yet cleared it.
    control : Out, `Control`
        The trainer.
    clear : Out(1)
        Synchronous reset of all but the shell, one cycle, for a `ResetInserter`.
    """

    def __init__(self, core: CoreRegisters, signature: int, checks: Checks | None = None) -> None:
        self.core, self._checks = core, checks
        self.registers = AxiRegisters(AxiRegistersSpec(registers=core.map, signature=signature))
        super().__init__(
            {
                "bus": In(Lite(core.map.address_bits)),
                "interrupt": Out(1),
                "control": Out(Control(core)),
                "clear": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        registers, control = self.registers, self.control
        m.submodules.registers = registers
        wiring.connect(m, wiring.flipped(self.bus), registers.bus)
        busy, done, error = Signal(), Signal(), Signal(self.core.error_bits)
        m.d.comb += [
            self.interrupt.eq(registers.interrupt_line),
            # busy rises a cycle after command_strobe: the first in which a write behind the command can take effect
            registers.locked.eq(busy),
            registers.status.eq(Cat(busy, done, error.any(), Const(0, 5), error)),
            control.command.eq(registers.command),
            *(getattr(control.settings, name).eq(getattr(registers, name)) for name in self.core.setting_names),
        ]
        checks = self._all_checks()
        number, wrong, code = Signal(range(max(len(checks) + 2, DRAIN_CYCLES + 1))), Signal(), Signal.like(error)
        found, offending = Signal(len(checks)), Signal(32)
        m.d.sync += [found.eq(Cat(check.wrong for check in checks)), wrong.eq(0)]
        with m.Switch(number):
            for at, check in enumerate(checks):
                with m.Case(at):
                    m.d.sync += [wrong.eq(found[at] & busy), code.eq(check.error), offending.eq(check.value)]
        with m.FSM():
            with m.State("IDLE"), m.If(registers.command_strobe):
                m.d.sync += [busy.eq(1), done.eq(0), error.eq(0), registers.error_address.eq(0), number.eq(0)]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += number.eq(number + 1)
                with m.If(wrong):
                    m.d.sync += [error.eq(code), registers.error_address.eq(offending)]
                    m.next = "END"
                with m.Elif(number == len(checks) + 1):
                    m.next = "START"
            with m.State("START"), m.If(control.ready):
                m.d.comb += control.start.eq(1)
                m.next = "RUN"
            with m.State("RUN"):
                with m.If(control.fault.failed):
                    m.d.sync += [error.eq(control.fault.error), registers.error_address.eq(control.fault.address)]
                    m.next = "STOP"
                with m.Elif(control.finished):
                    m.next = "END"
            with m.State("STOP"):
                m.d.sync += [control.abort.eq(1), number.eq(0)]
                m.next = "DRAIN"
            with m.State("DRAIN"):
                waited = number == DRAIN_CYCLES
                m.d.sync += number.eq(number + ~waited)
                with m.If(waited & control.quiet):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += self.clear.eq(1)
                m.d.sync += control.abort.eq(0)
                m.next = "END"
            with m.State("END"):
                m.d.comb += registers.finished.eq(1)
                m.d.sync += [busy.eq(0), done.eq(1)]
                m.next = "IDLE"
        self._count(m, registers.command_strobe & ~busy, busy)
        return m

    def _count(self, m: Module, begin: Value, busy: Value) -> None:
        """Cycles and the core's counters, from 0 in each command."""
        registers = self.registers
        cycles = Signal(CYCLE_BITS)
        m.d.comb += [registers.cycles_low.eq(cycles[:32]), registers.cycles_high.eq(cycles[32:])]
        counters = [(getattr(registers, name), getattr(self.control.counts, name)) for name in self.core.counter_names]
        for counter, step in [(cycles, Const(1, 1)), *counters]:
            with m.If(begin):
                m.d.sync += counter.eq(0)
            with m.Elif(busy):
                m.d.sync += counter.eq(counter + step)

    def _all_checks(self) -> list[Check]:
        command, codes = self.registers.command, self.core.commands
        unknown = Check((command == 0) | (command > max(codes)), self.core.errors["BAD_COMMAND"], command)
        return [unknown, *(self._checks(command, self.control.settings) if self._checks else ())]
