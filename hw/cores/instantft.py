"""RTL of `instantft`: the core behind its registers."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_registers import AxiRegistersSpec
from ...golden.cores.instantft import InstantftSpec
from ...golden.cores.instantft_registers import REGISTERS, Command, Error
from ...golden.lora.adapters import MAXIMUM_RATE
from ..axi.axi_registers import AxiRegisters
from ..axi.bus import Lite
from .core import CONFIGURATION, Core, monitor
from .memory_system import buses

ADDRESSES = CONFIGURATION[:6]


class Instantft(wiring.Component):
    """A job at a time. A command is refused at once where its registers are wrong, and otherwise runs to its end.

    After an error, whatever is still on its way on the bus is waited for, then all but the registers and the
    parameters is reset; the cache is forgotten.
    """

    def __init__(self, spec: InstantftSpec) -> None:
        self.spec = spec
        super().__init__(
            {
                "control": In(Lite()),
                "interrupt": Out(1),
                **buses(spec.ports),
                **monitor(spec.mapping),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.registers = registers = AxiRegisters(
            AxiRegistersSpec(registers=REGISTERS, signature=spec.signature)
        )
        inner = Core(spec.mapping, spec.batch, spec.cache_entries, spec.ports, spec.store_beats)
        clear = Signal()
        m.submodules.core = ResetInserter(clear)(inner)
        wiring.connect(m, wiring.flipped(self.control), registers.bus)
        for bus in buses(spec.ports):
            wiring.connect(m, getattr(inner, bus), wiring.flipped(getattr(self, bus)))
        m.d.comb += [
            self.interrupt.eq(registers.interrupt_line),
            *(getattr(inner, name).eq(getattr(registers, name)) for name in CONFIGURATION),
            *(getattr(self, name).eq(getattr(inner, name)) for name in monitor(spec.mapping)),
        ]
        command = Signal(Command)
        busy, done, error = Signal(), Signal(), Signal(4)
        checks = self._checks(registers)
        number, wrong, code, offending = Signal(range(len(checks) + 2)), Signal(), Signal(4), Signal(32)
        found = Signal(len(checks))
        m.d.sync += [found.eq(Cat(check for check, _, _ in checks)), wrong.eq(0)]
        with m.Switch(number):
            for at, (_, name, value) in enumerate(checks):
                with m.Case(at):
                    m.d.sync += [wrong.eq(found[at] & busy), code.eq(name), offending.eq(value)]
        abort = Signal()
        m.d.comb += [
            inner.command.eq(command),
            inner.abort.eq(abort),
            registers.locked.eq(busy),
            registers.status.eq(Cat(busy, done, error.any(), Const(0, 5), error)),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(registers.command_strobe):
                m.d.sync += [busy.eq(1), done.eq(0), error.eq(0), registers.error_address.eq(0), number.eq(0)]
                m.next = "CHECK"
            with m.State("CHECK"):
                # one after the other, as nobody is in a hurry
                m.d.sync += [command.eq(registers.command[:3]), number.eq(number + 1)]
                with m.If(wrong):
                    m.d.sync += [error.eq(code), registers.error_address.eq(offending)]
                    m.next = "END"
                with m.Elif(number == len(checks) + 1):
                    m.next = "START"
            with m.State("START"), m.If(inner.ready):
                m.d.comb += inner.start.eq(1)
                m.next = "RUN"
            with m.State("RUN"):
                with m.If(inner.failed):
                    m.d.sync += [error.eq(inner.error), registers.error_address.eq(inner.error_address)]
                    m.next = "STOP"
                with m.Elif(inner.finished):
                    m.next = "END"
            with m.State("STOP"):
                m.d.sync += [abort.eq(1), number.eq(0)]
                m.next = "DRAIN"
            with m.State("DRAIN"):
                # what has been told to stop may still have begun
                m.d.sync += number.eq(Mux(number[-1], number, number + 1))
                with m.If(inner.quiet & number[-1]):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += clear.eq(1)
                m.d.sync += abort.eq(0)
                m.next = "END"
            with m.State("END"):
                m.d.comb += registers.finished.eq(1)
                m.d.sync += [busy.eq(0), done.eq(1)]
                m.next = "IDLE"

        cycles = Signal(48)
        m.d.comb += [registers.cycles_low.eq(cycles[:32]), registers.cycles_high.eq(cycles[32:])]
        begin = registers.command_strobe & ~busy
        counts = (
            (cycles, busy),
            (registers.batches, inner.batch_done),
            (registers.misses, inner.missed),
            (registers.saturations, inner.clipped),
        )
        for count, step in counts:
            with m.If(begin):
                m.d.sync += count.eq(0)
            with m.Elif(busy):
                m.d.sync += count.eq(count + step)
        return m

    def _checks(self, registers: AxiRegisters) -> list[tuple[Value, Error, Value]]:
        """What may be wrong with the registers for this command, its code, and the value that is."""
        spec = self.spec
        command = registers.command
        job = (command == Command.TUNE) | (command == Command.INFER)
        tune = command == Command.TUNE
        adapters = (command == Command.LOAD_ADAPTERS) | (command == Command.SAVE_ADAPTERS)
        reads = dict.fromkeys(ADDRESSES, job) | {"parameters": command == Command.LOAD, "adapters": adapters}
        empty = (registers.samples_per_epoch == 0) | (registers.epochs == 0)
        return [
            ((command == 0) | (command > max(Command)), Error.BAD_COMMAND, command),
            *(
                (reads[name] & getattr(registers, name)[:4].any(), Error.MISALIGNED, getattr(registers, name))
                for name in ADDRESSES
            ),
            (job & empty, Error.ZERO_LENGTH, registers.epochs),
            (tune & (registers.cache_entries == 0), Error.ZERO_LENGTH, registers.cache_entries),
            (tune & (registers.cache_entries > spec.cache_entries), Error.BAD_CACHE_ENTRIES, registers.cache_entries),
            (job & ((registers.batch == 0) | (registers.batch > spec.batch)), Error.BAD_BATCH, registers.batch),
            (tune & ((registers.rate == 0) | (registers.rate > MAXIMUM_RATE)), Error.BAD_RATE, registers.rate),
            (job & (registers.mode > 3), Error.BAD_MODE, registers.mode),
            *([(tune & registers.mode[0], Error.BAD_MODE, registers.mode)] if spec.store_beats else []),
        ]


assert max(Command) < 8
