"""RTL of `instantft`: the shell, and the adapter trainer inside."""

from collections.abc import Sequence

from amaranth.hdl import Const, Value
from amaranth.lib import wiring

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.cores.instantft.registers import REGISTERS, Command, Error
from ....golden.lora.adapters import MAXIMUM_RATE
from ...lora.job_interfaces import JobOptions
from ..shell import Check
from ..shelled_core import Monitor, ShelledCore
from .adapter_trainer import AdapterTrainer


class Instantft(ShelledCore):
    """The core, see `ShelledCore`; its reset after a fault forgets the cache."""

    def __init__(self, spec: InstantftSpec) -> None:
        self.spec = spec
        super().__init__(spec, Monitor(spec.mapping.words_per_cycle, parts=len(spec.turns + spec.beside)))

    def trainer(self) -> AdapterTrainer:
        """Build the trainer inside."""
        spec = self.spec
        return AdapterTrainer(
            spec.registers,
            spec.mapping,
            spec.batch,
            spec.cached_samples,
            spec.ports,
            spec.cache_ram_beats,
            spec.address,
            JobOptions(spec.rates, spec.early_stop, spec.validation),
            spec.noise.urng if spec.noise else None,
            spec.turns + spec.beside if spec.monitor else (),
        )

    def checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command."""
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
