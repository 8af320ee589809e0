"""The contract of a core: what drivers, packages, trials and the command line ask of any core, and nothing else.

A core's parts in other packages are found by `Spec.part`, in its room of each. Functions take the spec first; what a
name in capitals has to be, its class or protocol says: `sim.trials.contract`, `sim.compiled.activity`,
`sim.compiled.tuner`, `boards.sweep.core_sweep`::

    house   module     name                  what it gives                                    where there is none
    hw      CORE       the class, CamelCase  RTL                                              the core cannot be emitted
    sim     tb_CORE    scenario              phases of the bench                              it cannot be verified
    boards  job        HOST                  host driver of a core that trains                its jobs run nowhere
    boards  selftest   selftest              a small job with its results                     it cannot be packaged
    boards  example    example               a job of a task, and its program                 a package without one
    boards  sweep      SWEEP                 CoreSweep: designs, training and cost of points  it cannot be swept
    sim     trials     TRIALS                Trials: short jobs, order lists, limits          faults meet only its bench
    sim     tune       TUNER                 Tuner: jobs of methods on the compiled core      no method runs on it
    sim     tune       TRANSFORMER_TUNER     TransformerTuner: the same for transformers      it trains none
    sim     tune       FEDERATION            Federation: simulated clients of a federation    it is no client
    sim     measured_jobs  ACTIVITY          a job whose toggles are counted                  it has no activity
    sim     measured_jobs  ROOFLINE          CoreRoofline: jobs in which the parts' work is counted  it has no roofline
    sim     measured_jobs  step_cycles       cycles of a transformer's step by operation      they are not measured

Rules, ``formal_CORE.py``, are found by the name of the file, and the register map is `REGISTERS` of ``registers.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..axi.axi_read import AxiReadSpec
from ..axi.axi_write import AxiWriteSpec
from ..axi.bus import ADDRESS_BITS, BEAT
from ..axi.register_map import c_header, markdown
from ..axi.systemrdl import systemrdl
from ..block import BusSpec
from ..errors import UserError
from ..fixed import Integers
from .shell import RESET_LATENCY, CoreRegisters, signature_of

if TYPE_CHECKING:
    from ..models.network import Network
    from ..nn.array.mapping import Mapping as NetworkMapping
    from ..stream.forward import IntegerTransformer
    from ..stream.machine.core_size import CoreSize


OUTSTANDING = 32
"""Most bursts in flight for which an interconnect of Vivado is told to keep room."""


class Refusal(NamedTuple):
    """Reason of a refusal.

    Parameters
    ----------
    error : IntEnum
        Code in `status`.
    value : int
        Offending value, in `error_address`.
    """

    error: IntEnum
    value: int


SettingValues = Mapping[str, int]
"""Values of all of a core's settings, by name."""


class Check(NamedTuple):
    """A reason to refuse a command: golden evaluates it with integers, the shell with the signals of its registers.

    Parameters
    ----------
    wrong : bool or Value
        Whether the command is refused. Made of comparisons, ``&`` and ``|``, which integers and signals have.
    error : IntEnum
        Code in `status`.
    value : int or Value
        Offending value, in `error_address`: up to 64 bits.
    """

    wrong: Any
    error: IntEnum
    value: Any


def core_buses(ports: int = 1) -> dict[str, str]:
    """Buses of a core's RTL, by port: the registers, and the halves of so many ports to the memory outside."""
    halves = {f"{half}{port}": f"m_axi_gmem{port}" for port in range(ports) for half in ("reader", "writer")}
    return {"control": "s_axi_control", **halves}


@dataclass(frozen=True, kw_only=True)
class CoreSpec(BusSpec):
    """Parameters that all cores share, and the contract of a core.

    Parameters
    ----------
    address : int
        Bits of a byte address on the memory ports, 33 to 62. The pins have 64; those above are 0.
    monitor : bool
        The core has pins that show each update of its parameters, for a simulation or a logic analyser.
    """

    registers: ClassVar[CoreRegisters]
    """Registers, commands and errors."""
    reset_cycles: ClassVar[int] = RESET_LATENCY + 1
    monitored: ClassVar[tuple[str, ...]] = ("valid", "beat", "data", "done")
    """Pins of the monitor, where there is one."""
    turns: ClassVar[tuple[str, ...]] = ()
    """Kinds of work that exclude each other, such as those of an array: first bits of the monitor's pin ``busy``."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Parts that work beside them: the bits that follow. A simulation counts the cycles of each."""

    address: int = ADDRESS_BITS
    monitor: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 33 <= self.address <= 62:
            raise UserError(f"address = {self.address} is not in 33 to 62")

    @property
    def wires(self) -> tuple[str, ...]:  # type: ignore[override]
        """Other pins: the interrupt and, where it has one, the monitor."""
        return ("interrupt", *(f"monitor_{name}" for name in self.monitored if self.monitor))

    @property
    def memory_ports(self) -> int:
        """AXI4 ports to the memory outside."""
        return len({prefix for prefix in self.buses.values() if prefix.startswith("m_axi")})

    @property
    def address_buses(self) -> dict[str, str]:
        """Prefix of the pins through which the core reaches an image in memory, by the name of its `Address`."""
        return {item.name: "m_axi_gmem0" for item in self.registers.addresses}

    @property
    def reader(self) -> AxiReadSpec:
        """Reads of each port to the memory outside."""
        return AxiReadSpec(address=self.address)

    @property
    def writer(self) -> AxiWriteSpec:
        """Writes of each port to the memory outside."""
        return AxiWriteSpec(address=self.address)

    @property
    def bus_parameters(self) -> Mapping[str, Mapping[str, int]]:
        """Facts of the bursts on each memory port for Vivado, by the prefix of its pins: the names are Vivado's.

        ``HAS_BURST`` is 0 where all bursts are INCR. No burst is narrow and all have one ID. Of the bursts in flight
        Vivado's interconnect takes `OUTSTANDING` at most.
        """
        found = {
            "SUPPORTS_NARROW_BURST": 0,
            "HAS_BURST": 0,
            "MAX_BURST_LENGTH": max(self.reader.burst, self.writer.burst),
            "NUM_READ_OUTSTANDING": min(self.reader.most_outstanding, OUTSTANDING),
            "NUM_WRITE_OUTSTANDING": min(self.writer.most_outstanding, OUTSTANDING),
            "NUM_READ_THREADS": 1,
            "NUM_WRITE_THREADS": 1,
        }
        return {prefix: found for prefix in self.buses.values() if prefix.startswith("m_axi")}

    @property
    def image_beats(self) -> Mapping[str, int | str]:
        """Beats of images that commands read or write as a whole, by the name of their `Address`.

        A number, or the name of the setting that has it. A command whose image would end beyond the address bits is
        refused. The beats of other regions follow from what is read: an access beyond the address bits ends the
        command with ``READ_DECERR`` or ``WRITE_DECERR``.
        """
        return {}

    @property
    @abstractmethod
    def signature(self) -> int:
        """Value of the register of this name: a digest of all that host and core must agree on."""

    @property
    @abstractmethod
    def dsps(self) -> int:
        """DSPs of the core."""

    def values_of(self, inputs: NDArray[np.integer]) -> Integers:
        """Convert samples as the core reads them to those of golden."""
        return inputs.astype(np.int64)

    def smaller(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Changes of settings that take less memory or fewer DSPs: by what they change, the mildest first.

        Some may be refused; `remedies` of ``fit.py`` tries them.
        """
        return {}

    def signed(self, *without: str, **replaced: Any) -> int:
        """Signature of the parameters, some of which may be `replaced` by a form that does not depend on the spelling.

        Pins that change nothing for a host do not count, nor do those parameters that it is to be `without`.
        """
        parameters = asdict(self) | replaced
        for name in ("monitor", *without):
            del parameters[name]
        return signature_of(parameters, self.registers.map)

    def documents(self) -> dict[str, str]:
        """Make the C header, the SystemRDL and the page of the registers: text by file name."""
        found = self.registers.map
        return {
            f"{found.name}.h": c_header(found, self.address),
            f"{found.name}.rdl": systemrdl(found, self.signature),
            "registers.md": markdown(found),
        }

    def refusal(self, command: int, settings: SettingValues) -> Refusal | None:
        """Say why the core refuses a command with these settings; None where the command begins.

        Of several reasons the first counts, in this order: the command, addresses in the order of their registers, then
        those of `checks`.

        Parameters
        ----------
        command : int
        settings : SettingValues
        """
        names = SimpleNamespace(**settings, **self.products(SimpleNamespace(**settings)))
        checks = (*self._common_checks(command, settings), *self.checks(command, names))
        return next((Refusal(check.error, check.value) for check in checks if check.wrong), None)

    def checks(self, command: Any, settings: Any) -> Iterator[Check]:
        """List the core's own reasons to refuse a command: lengths first, then the other settings.

        Parameters
        ----------
        command : int or Value
            Any number.
        settings : object
            Integers or signals, by name: the settings, and the `products`.
        """
        yield from ()

    def products(self, settings: Any) -> dict[str, Any]:
        """Values that `checks` compare and that are late in the RTL, where each has a register; by name."""
        return {}

    def _common_checks(self, command: int, settings: SettingValues) -> Iterator[Check]:
        """List reasons of any core: an unknown command, and the addresses that a command uses."""
        commands, errors = self.registers.commands, self.registers.errors
        yield Check(command not in set(commands), errors["BAD_COMMAND"], command)
        for address in self.registers.addresses:
            value, given = settings[address.name], self.image_beats.get(address.name, 1)
            beats = max(settings[given] if isinstance(given, str) else given, 1)
            wrong = value % BEAT != 0 or value + beats * BEAT > 1 << self.address
            yield Check(command in address.commands and wrong, errors["BAD_ADDRESS"], value)

    @classmethod
    def fits(cls, network: Network, byte_inputs: bool) -> list[CoreFit]:
        """Put a network on each preset of the core: its figures, or why it does not fit.

        Parameters
        ----------
        network : Network
        byte_inputs : bool
            A sample's values are bytes that stand for 0 to 1.
        """
        return []

    @classmethod
    def runs(cls, transformer: IntegerTransformer) -> list[TransformerFit]:
        """Put a transformer on each preset of the core, if it runs programs.

        Parameters
        ----------
        transformer : IntegerTransformer
            Shapes and formats, such as those of `golden.stream.machine.cost_model.on_paper`.
        """
        return []


@dataclass(frozen=True)
class CoreFit:
    """A network on a preset of a core.

    Parameters
    ----------
    core, preset : str
    refusal : str
        Why it cannot be there; empty where it can.
    spec : CoreSpec or None
        The core for the network.
    forward : Mapping or None
        Network on the core's array.
    """

    core: str
    preset: str
    refusal: str
    spec: CoreSpec | None = None
    forward: NetworkMapping | None = None

    @property
    def cycles(self) -> int:
        """Words that the array takes for one sample forward; each is a cycle."""
        return self.forward.cycles if self.forward else 0


@dataclass(frozen=True)
class TransformerFit:
    """A transformer on a preset of a core that runs programs.

    Parameters
    ----------
    core, preset : str
    spec : CoreSpec
        The core, which is the same for every transformer.
    size : CoreSize
        Its size.
    refusal : str
        Why it has no place there; empty where it has.
    longest : int
        Most tokens of a sentence; 0 where it has no place.
    """

    core: str
    preset: str
    spec: CoreSpec
    size: CoreSize
    refusal: str = ""
    longest: int = 0
