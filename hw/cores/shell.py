"""Shell of a core: registers, commands, checks, errors, abort, interrupt and counters around a trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_registers import AxiRegistersSpec
from ...golden.axi.bus import ADDRESS_BITS
from ...golden.cores.core import Check
from ...golden.cores.shell import RESET, Address, CoreRegisters, Setting
from ..axi.axi_registers import AxiRegisters
from ..axi.bus import Lite
from ..axi.memory_port import OFFSET_BITS, CommandFault, beat_number, byte_address
from ..probe import probe

DRAIN_CYCLES = 16
"""Cycles from `abort` to the first test of `quiet`: by then a burst issued just before is counted."""
RESET_CYCLES = 16
"""Cycles of the trainer's reset, the minimum of AXI's guides for `aresetn`."""
RESET_DELAY = 4
"""Cycles that the shell waits after `RESET_CYCLES`: the reset reaches the trainer through registers."""
CYCLE_BITS = 48
"""Bits of the cycle counter: 17 days at 187.5 MHz."""


class Control(wiring.Signature):
    """Interface between shell and trainer, from the shell's side.

    A command begins with `start`. It ends after `finished`, once no burst is outstanding, or with `fault.failed`. After
    a fault, and for a soft reset at any time, the shell raises `abort`, waits for `quiet`, and resets the trainer.

    Parameters
    ----------
    core : CoreRegisters
    address : int
        Bits of a byte address, 33 to 64.

    Members
    -------
    start : Out(1)
        Begin a command; one cycle, only while `ready`.
    command : Out, as wide as the codes
        Command code. Like `settings`, stable from at least two cycles before `start` to the end of the command.
    ready : In(1)
        A command can begin.
    finished : In(1)
        The command has ended; one cycle, after `start`.
    fault : In, `CommandFault`
        The command cannot go on. The address has a bit more than `address`, set for a burst beyond the bus.
    abort : Out(1)
        Stop all memory traffic; falls while the trainer is in reset.
    hold : Out(1)
        No burst may begin; low from the cycle after `start` to the end of the command.
    quiet : In(1)
        No burst is outstanding.
    settings : Out
        Settings of the core by name: words of 32 bits, or byte addresses of `address` bits.
    counts : In
        Increment of each of the core's counters in this cycle, by name.
    """

    def __init__(self, core: CoreRegisters, address: int = ADDRESS_BITS) -> None:
        settings = wiring.Signature(
            {item.name: Out(address if isinstance(item, Address) else 32) for item in core.settings}
        )
        counts = wiring.Signature({item.name: Out(item.width) for item in core.counters})
        super().__init__(
            {
                "start": Out(1),
                "command": Out(max(core.commands).bit_length()),
                "ready": In(1),
                "finished": In(1),
                "fault": In(CommandFault(core.errors, address + 1)),
                "abort": Out(1),
                "hold": Out(1, init=1),
                "quiet": In(1),
                "settings": Out(settings),
                "counts": In(counts),
            }
        )


Checks = Callable[[Value, wiring.PureInterface], Sequence[Check]]
"""Function from the command (32 bits) and the settings to a core's checks, the most important first."""


class Shell(wiring.Component):
    """Registers of a core, and the sequence of each command.

    A command is checked, one check a cycle; the first failing check ends it with an error code. Otherwise it starts
    once the trainer is ready and runs to its end or to a fault. After a fault the shell stops all memory traffic, waits
    for outstanding bursts, and resets the trainer with `clear`. Each command ends with the interrupt.

    From the write of a command to the command's end, writes to the command and to settings are ignored, not queued,
    even directly after the command's write. The interrupt's registers stay writable.

    A soft reset, a 1 written to the register `soft_reset`, is accepted in any cycle. The shell stops traffic and waits
    as after a fault, resets the trainer, and then resets every register. Until then the core is busy and `soft_reset`
    reads 1; without an answer on the memory's bus it stays so forever. All other writes are lost, and so are the
    running command, its interrupt, and a second request.

    Parameters
    ----------
    core : CoreRegisters
    signature : int
        Value of the register ``signature``.
    checks : callable
        See `Checks`. The shell itself refuses unknown commands and wrong addresses.
    address : int
        Bits of a byte address.
    image_beats : mapping of str to int or str
        See `CoreSpec.image_beats`.

    Attributes
    ----------
    bus : In, `Lite`
        AXI4-Lite bus of the host.
    interrupt : Out(1)
        Level: a command has ended, and the host has enabled the interrupt and not yet cleared it.
    control : Out, `Control`
        Interface of the trainer.
    clear : Out(1)
        Synchronous reset of all but the shell, for `RESET_CYCLES` cycles. It may arrive up to `RESET_DELAY` cycles
        late.
    """

    def __init__(
        self,
        core: CoreRegisters,
        signature: int,
        checks: Checks | None = None,
        address: int = ADDRESS_BITS,
        image_beats: Mapping[str, int | str] | None = None,
    ) -> None:
        self.core, self._checks, self._address, self._image_beats = core, checks, address, image_beats or {}
        self.registers = AxiRegisters(AxiRegistersSpec(registers=core.map, signature=signature))
        super().__init__(
            {
                "bus": In(Lite(core.map.address_bits)),
                "interrupt": Out(1),
                "control": Out(Control(core, address)),
                "clear": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        registers, control = self.registers, self.control
        m.submodules.registers = registers
        wiring.connect(m, wiring.flipped(self.bus), registers.bus)
        checks = self._all_checks(m)
        most = max(len(checks) + 2, DRAIN_CYCLES + 1, RESET_CYCLES + RESET_DELAY)
        self._busy, self._done = Signal(name="busy"), Signal(name="done")
        self._error, self._error_address = Signal(self.core.error_bits, name="error"), Signal(64, name="error_address")
        self._number = Signal(range(most), name="number")
        self._reset = registers.soft_reset[RESET.field("pending").low]
        m.d.comb += [
            self.interrupt.eq(registers.interrupt_line),
            # busy rises a cycle after command_strobe, before the next write can take effect
            registers.locked.eq(self._busy),
            registers.status.eq(Cat(self._busy, self._done, self._error.any(), Const(0, 5), self._error)),
            control.command.eq(registers.command),
            *(getattr(control.settings, item.name).eq(self._used(item)) for item in self.core.settings),
            Cat(registers.error_address, registers.error_address_high).eq(self._error_address),
        ]
        refusal = self._refusal(m, checks)
        with m.FSM() as fsm:
            self._check_and_run(m, len(checks), refusal)
            self._drain_and_end(m)
        self._count(m, registers.command_strobe & ~self._busy | registers.clear, self._busy)
        probe(self, fsm)
        return m

    def _refusal(self, m: Module, checks: Sequence[Check]) -> tuple[Signal, Signal, Signal]:
        """Evaluate the check of the present number; return refusal, code and value, a cycle late."""
        wrong, code, wrong_checks, offending = Signal(), Signal.like(self._error), Signal(len(checks)), Signal(64)
        m.d.sync += [wrong_checks.eq(Cat(check.wrong for check in checks)), wrong.eq(0), code.eq(0), offending.eq(0)]
        with m.Switch(self._number):
            for index, check in enumerate(checks):
                with m.Case(index):
                    m.d.sync += [
                        wrong.eq(wrong_checks[index] & self._busy),
                        code.eq(check.error),
                        offending.eq(check.value),
                    ]
        return wrong, code, offending

    def _check_and_run(self, m: Module, checks: int, refusal: tuple[Signal, Signal, Signal]) -> None:
        """Add the states from a command's write to its end; a soft reset leaves each of them."""
        registers, control, busy, error, number = self.registers, self.control, self._busy, self._error, self._number
        wrong, code, offending = refusal
        # delayed like a fault: the response to the last burst may be an error
        rested = Signal()
        m.d.sync += rested.eq(control.quiet)
        with m.State("IDLE"):
            with m.If(self._reset):
                m.d.sync += [busy.eq(1), self._done.eq(0)]
                m.next = "STOP"
            with m.Elif(registers.command_strobe):
                m.d.sync += [busy.eq(1), self._done.eq(0), error.eq(0), self._error_address.eq(0), number.eq(0)]
                m.next = "CHECK"
        with m.State("CHECK"):
            m.d.sync += number.eq(number + 1)
            with m.If(self._reset):
                m.next = "STOP"
            with m.Elif(wrong):
                m.d.sync += [error.eq(code), self._error_address.eq(offending)]
                m.next = "END"
            with m.Elif(number == checks + 1):
                m.next = "START"
        with m.State("START"):
            with m.If(self._reset):
                m.next = "STOP"
            with m.Elif(control.ready):
                m.d.comb += control.start.eq(1)
                m.d.sync += control.hold.eq(0)
                m.next = "RUN"
        for state, ends in (("RUN", control.finished), ("REST", Const(1))):
            with m.State(state):
                with m.If(self._reset):
                    m.next = "STOP"
                with m.Elif(control.fault.failed):
                    m.d.sync += [error.eq(control.fault.error), self._error_address.eq(control.fault.address)]
                    m.next = "STOP"
                with m.Elif(ends & rested):
                    m.d.sync += control.hold.eq(1)
                    m.next = "END"
                with m.Elif(ends):
                    m.next = "REST"

    def _drain_and_end(self, m: Module) -> None:
        """Add the states after a fault or for a soft reset, and the end of a command."""
        registers, control, number = self.registers, self.control, self._number
        with m.State("STOP"):
            m.d.sync += [control.abort.eq(1), control.hold.eq(1), number.eq(0)]
            m.next = "DRAIN"
        with m.State("DRAIN"):
            waited = number == DRAIN_CYCLES
            m.d.sync += number.eq(number + ~waited)
            with m.If(waited & control.quiet):
                m.d.sync += number.eq(0)
                m.next = "CLEAR"
        with m.State("CLEAR"):
            m.d.comb += self.clear.eq(number < RESET_CYCLES)
            m.d.sync += number.eq(number + 1)
            with m.If(number == RESET_CYCLES - 1):  # while the trainer is in reset, even with a late reset
                m.d.sync += control.abort.eq(0)
            with m.If(number == RESET_CYCLES + RESET_DELAY - 1):
                m.next = "READY"
        with m.State("READY"):
            with m.If(self._reset):
                m.d.comb += registers.clear.eq(1)
                m.d.sync += [register.eq(0) for register in (self._busy, self._done, self._error, self._error_address)]
                m.next = "IDLE"
            with m.Else():
                m.next = "END"
        with m.State("END"):
            with m.If(self._reset):
                m.next = "STOP"
            with m.Else():
                m.d.comb += registers.finished.eq(1)
                m.d.sync += [self._busy.eq(0), self._done.eq(1)]
                m.next = "IDLE"

    def _count(self, m: Module, begin: Value, busy: Value) -> None:
        """Count cycles and the core's counters, from 0 in each command."""
        registers = self.registers
        cycles = Signal(CYCLE_BITS)
        m.d.comb += [registers.cycles_low.eq(cycles[:32]), registers.cycles_high.eq(cycles[32:])]
        counters = [(getattr(registers, name), getattr(self.control.counts, name)) for name in self.core.counter_names]
        for counter, step in [(cycles, Const(1, 1)), *counters]:
            with m.If(begin):
                m.d.sync += counter.eq(0)
            with m.Elif(busy):
                m.d.sync += counter.eq(counter + step)

    def _all_checks(self, m: Module) -> list[Check]:
        command, codes = self.registers.command, self.core.commands
        unknown = Check((command == 0) | (command > max(codes)), self.core.errors["BAD_COMMAND"], command)
        core_checks = self._checks(command, self.control.settings) if self._checks else ()
        return [unknown, *(self._address_check(m, command, item) for item in self.core.addresses), *core_checks]

    def _setting(self, setting: Setting) -> Value:
        """All bits of a setting, as the host wrote them."""
        return Cat(getattr(self.registers, name) for name in setting.registers)

    def _used(self, setting: Setting) -> Value:
        """Value of a setting for the core; an address is truncated to whole beats, as the shell refuses others."""
        value = self._setting(setting)
        return (
            byte_address(beat_number(value)[: self._address - OFFSET_BITS]) if isinstance(setting, Address) else value
        )

    def _address_check(self, m: Module, command: Value, setting: Address) -> Check:
        """Refusal of commands that use an unaligned address, or whose image would end beyond the address bits."""
        value, beats = self._setting(setting), self._image_beats.get(setting.name, 1)
        used = Cat(command == code for code in setting.commands).any()
        wrong = value[:OFFSET_BITS].any() | value[self._address :].any()
        first, most = value[OFFSET_BITS : self._address], 1 << self._address - OFFSET_BITS
        if isinstance(beats, str):
            # settings do not change during checks, so the slow sum may have a register
            end = Signal(range(2 * most), name=f"{setting.name}_end", reset_less=True)
            m.d.sync += end.eq(first + getattr(self.control.settings, beats))
            wrong |= end > most
        elif beats > 1:
            wrong |= first > most - beats
        return Check(used & wrong, self.core.errors["BAD_ADDRESS"], value)
