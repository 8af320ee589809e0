"""RTL of `instantft`: the shell, and the adapter trainer inside."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, ResetInserter, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.cores.instantft.registers import REGISTERS, Command, Error
from ....golden.lora.adapters import MAXIMUM_RATE
from ...axi.bus import Lite
from ...lora.job_interfaces import JobOptions
from ..memory_system import buses
from ..monitor import monitor_ports
from ..shell import Check, Shell
from .adapter_trainer import AdapterTrainer


class Instantft(wiring.Component):
    """Runs a command at a time: refuses it at once where its settings are wrong, and otherwise runs it to its end.

    After a fault, the traffic on the bus is drained, then all but the registers and the parameters in memories is
    reset: the cache is forgotten.

    Parameters
    ----------
    spec : InstantftSpec

    Attributes
    ----------
    control : In, `Lite`
        The host's AXI4-Lite bus.
    interrupt : Out(1)
        Level: a command has ended.
    reader0, writer0, reader1, writer1 : Out, `Read` and `Write`
        AXI4 ports to the memory outside.
    monitor_valid, monitor_beat, monitor_data, monitor_done : Out, where the spec has a monitor
        See `UpdateMonitor`.
    """

    def __init__(self, spec: InstantftSpec) -> None:
        self.spec = spec
        monitor = monitor_ports(spec.mapping.words_per_cycle) if spec.monitor else {}
        super().__init__({"control": In(Lite()), "interrupt": Out(1), **buses(spec.ports, spec.address), **monitor})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.shell = shell = Shell(spec.registers, spec.signature, self._checks, spec.address)
        trainer = AdapterTrainer(
            spec.registers,
            spec.mapping,
            spec.batch,
            spec.cached_samples,
            spec.ports,
            spec.cache_ram_beats,
            spec.address,
            JobOptions(spec.rates, spec.early_stop, spec.validation),
            spec.noise.urng if spec.noise else None,
        )
        m.submodules.trainer = ResetInserter(shell.clear)(trainer)
        wiring.connect(m, wiring.flipped(self.control), shell.bus)
        wiring.connect(m, shell.control, trainer.control)
        for bus in buses(spec.ports, spec.address):
            wiring.connect(m, getattr(trainer, bus), wiring.flipped(getattr(self, bus)))
        m.d.comb += self.interrupt.eq(shell.interrupt)
        for name in trainer.monitor.signature.members if spec.monitor else ():
            m.d.comb += getattr(self, f"monitor_{name}").eq(getattr(trainer.monitor, name))
        return m

    def _checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """Reasons to refuse a command."""
        spec = self.spec
        job = (command == Command.TUNE) | (command == Command.INFER)
        tune = command == Command.TUNE
        empty = (settings.samples_per_epoch == 0) | (settings.epochs == 0)
        entries, batch, rate, mode = settings.cache_entries, settings.batch, settings.rate, settings.mode
        bad_rate = (rate == 0) | (rate > MAXIMUM_RATE)
        # comparisons of a number alone where the bits are the lowest ones
        bad_mode = mode > spec.modes if spec.modes & spec.modes + 1 == 0 else (mode & ~Const(spec.modes, 32)).any()
        if spec.rates:
            bad_rate &= ~mode[REGISTERS["mode"].field("rates").low]
        return [
            Check(job & empty, Error.ZERO_LENGTH, settings.epochs),
            Check(tune & (entries == 0), Error.ZERO_LENGTH, entries),
            Check(tune & (entries > spec.cache_entries), Error.BAD_CACHE_ENTRIES, entries),
            Check(job & ((batch == 0) | (batch > spec.batch)), Error.BAD_BATCH, batch),
            Check(tune & bad_rate, Error.BAD_RATE, rate),
            Check(job & bad_mode, Error.BAD_MODE, mode),
            *(Check(tune & (mode[0] == raw), Error.BAD_MODE, mode) for raw in (0, 1) if raw not in spec.raw_modes),
        ]
