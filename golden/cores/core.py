"""Contract between a core and fabtune's drivers, packages, stress tests and commands.

`Spec.part` finds a core's parts in the core's folders of the other packages. The first argument of a function is the
spec. The classes and protocols of names in capitals are in `sim.trials.contract`, `sim.compiled.activity`,
`sim.compiled.tuner` and `boards.sweep.core_sweep`::

    package  module            name               contents                                    without the part
    hw       CORE              class, CamelCase   RTL                                         no Verilog
    sim      tb_CORE           scenario           phases of the bench                         no verification
    boards   job               HOST               host driver of a core that trains           no jobs on a board
    boards   selftest          selftest           small job with expected results             no package
    boards   example           example            job of a task, with a program               package without example
    boards   sentence_example  sentence_example   job of a language model on sentences        no language models
    boards   sweep             SWEEP              CoreSweep: designs, training and cost       no sweep
    sim      trials            TRIALS             Trials: short jobs, schedules, limits       faults meet only the bench
    sim      tune              TUNER              Tuner: tuning jobs on the compiled core     no tuning in RTL
    sim      tune              TRANSFORMER_TUNER  TransformerTuner: the same on transformers  no transformers
    sim      tune              FEDERATION         Federation: simulated clients               no federation
    sim      measured_jobs     ACTIVITY           job for toggle counts                       no activity
    sim      measured_jobs     ROOFLINE           CoreRoofline: jobs for work counts          no roofline
    sim      measured_jobs     step_cycles        cycles of a transformer's step              no measurement

Formal rules are in ``formal_CORE.py``; the register map is `REGISTERS` of ``registers.py``.
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
from ..errors import check_range
from ..fixed import Integers
from .shell import RESET_LATENCY, CoreRegisters, signature_of

if TYPE_CHECKING:
    from ..models.network import Network
    from ..nn.array.mapping import Mapping as NetworkMapping
    from ..stream.forward import IntegerTransformer
    from ..stream.machine.core_size import CoreSize


OUTSTANDING = 32
"""Most outstanding bursts that Vivado's interconnect buffers."""


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
"""Values of all settings of a core, by name."""


class Check(NamedTuple):
    """A reason to refuse a command; golden evaluates it with integers, the shell with signals.

    Parameters
    ----------
    wrong : bool or Value
        Whether the command is refused: comparisons, ``&`` and ``|`` only, which integers and signals both have.
    error : IntEnum
        Code in `status`.
    value : int or Value
        Offending value of up to 64 bits, in `error_address`.
    """

    wrong: Any
    error: IntEnum
    value: Any


def core_buses(ports: int = 1) -> dict[str, str]:
    """Buses of a core's RTL by port: registers, and read and write halves of the AXI4 ports."""
    halves = {f"{half}{port}": f"m_axi_gmem{port}" for port in range(ports) for half in ("reader", "writer")}
    return {"control": "s_axi_control", **halves}


@dataclass(frozen=True, kw_only=True)
class CoreSpec(BusSpec):
    """Contract of a core, and the parameters of every core.

    Parameters
    ----------
    address : int
        Bits of a byte address on the memory ports, 33 to 62. The pins have 64 bits; unused bits are 0.
    monitor : bool
        The core has pins that show each update of its parameters, for a simulation or a logic analyser.
    """

    registers: ClassVar[CoreRegisters]
    """Registers, commands and errors."""
    reset_cycles: ClassVar[int] = RESET_LATENCY + 1
    monitored: ClassVar[tuple[str, ...]] = ("valid", "beat", "data", "done")
    """Pins of the monitor."""
    turns: ClassVar[tuple[str, ...]] = ()
    """Kinds of work that exclude each other, such as uses of an array: first bits of the monitor's pin ``busy``."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Parts that work in parallel: the following bits of ``busy``. A simulation counts the cycles of each bit."""

    address: int = ADDRESS_BITS
    monitor: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("address", self.address, 33, 62)

    @property
    def wires(self) -> tuple[str, ...]:  # type: ignore[override]
        """Other pins: the interrupt and the monitor."""
        return ("interrupt", *(f"monitor_{name}" for name in self.monitored if self.monitor))

    @property
    def memory_ports(self) -> int:
        """AXI4 ports to the external memory."""
        return len({prefix for prefix in self.buses.values() if prefix.startswith("m_axi")})

    @property
    def address_buses(self) -> dict[str, str]:
        """Prefix of the pins for each image in memory, by the name of its `Address`."""
        return {item.name: "m_axi_gmem0" for item in self.registers.addresses}

    @property
    def reader(self) -> AxiReadSpec:
        return AxiReadSpec(address=self.address)

    @property
    def writer(self) -> AxiWriteSpec:
        return AxiWriteSpec(address=self.address)

    @property
    def bus_parameters(self) -> Mapping[str, Mapping[str, int]]:
        """Bus parameters of Vivado for each memory port, by the prefix of its pins.

        ``HAS_BURST`` is 0: all bursts are INCR. No burst is narrow and all have one ID. Vivado's interconnect buffers
        at most `OUTSTANDING` bursts.
        """
        parameters = {
            "SUPPORTS_NARROW_BURST": 0,
            "HAS_BURST": 0,
            "MAX_BURST_LENGTH": max(self.reader.burst, self.writer.burst),
            "NUM_READ_OUTSTANDING": min(self.reader.most_outstanding, OUTSTANDING),
            "NUM_WRITE_OUTSTANDING": min(self.writer.most_outstanding, OUTSTANDING),
            "NUM_READ_THREADS": 1,
            "NUM_WRITE_THREADS": 1,
        }
        return {prefix: parameters for prefix in self.buses.values() if prefix.startswith("m_axi")}

    @property
    def image_beats(self) -> Mapping[str, int | str]:
        """Number of beats of each image that a command reads or writes whole, by the name of its `Address`.

        A value is a number or the name of a setting. A command is refused if its image ends beyond the address bits.
        Other regions have no fixed size: an access beyond the address bits ends the command with ``READ_DECERR`` or
        ``WRITE_DECERR``.
        """
        return {}

    @property
    @abstractmethod
    def signature(self) -> int:
        """Value of the register ``signature``: a digest of all that host and core must agree on."""

    @property
    @abstractmethod
    def dsps(self) -> int:
        """Number of the core's DSP slices."""

    def values_of(self, inputs: NDArray[np.integer]) -> Integers:
        """Samples in the golden model's format, from samples in the core's format."""
        return inputs.astype(np.int64)

    def smaller(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Changes of settings that save memory or DSPs, by setting, the mildest first.

        A change may be refused; `remedies` of ``fit.py`` tries them.
        """
        return {}

    def signed(self, *without: str, **replaced: Any) -> int:
        """Signature of the parameters, except the monitor and the parameters named in `without`.

        `replaced` has the canonical values of parameters that can be written in several ways.
        """
        parameters = asdict(self) | replaced
        for name in ("monitor", *without):
            del parameters[name]
        return signature_of(parameters, self.registers.map)

    def documents(self) -> dict[str, str]:
        """C header, SystemRDL and page of the registers: text by file name."""
        registers = self.registers.map
        return {
            f"{registers.name}.h": c_header(registers, self.address),
            f"{registers.name}.rdl": systemrdl(registers, self.signature),
            "registers.md": markdown(registers),
        }

    def refusal(self, command: int, settings: SettingValues) -> Refusal | None:
        """Reason why the core refuses a command with these settings, or None.

        The first reason is returned. Order: the command, the addresses in register order, then `checks`.
        """
        names = SimpleNamespace(**settings, **self.products(SimpleNamespace(**settings)))
        checks = (*self._common_checks(command, settings), *self.checks(command, names))
        return next((Refusal(check.error, check.value) for check in checks if check.wrong), None)

    def checks(self, command: Any, settings: Any) -> Iterator[Check]:
        """Reasons of this core to refuse a command: lengths first, then the other settings.

        Parameters
        ----------
        command : int or Value
            Any number.
        settings : object
            Integers or signals, by name: the settings, and the `products`.
        """
        yield from ()

    def products(self, settings: Any) -> dict[str, Any]:
        """Values for `checks` with long logic paths, by name; the RTL registers them."""
        return {}

    def _common_checks(self, command: int, settings: SettingValues) -> Iterator[Check]:
        """Reasons of every core: an unknown command, and wrong addresses of a command."""
        commands, errors = self.registers.commands, self.registers.errors
        yield Check(command not in set(commands), errors["BAD_COMMAND"], command)
        for address in self.registers.addresses:
            value, size = settings[address.name], self.image_beats.get(address.name, 1)
            beats = max(settings[size] if isinstance(size, str) else size, 1)
            wrong = value % BEAT != 0 or value + beats * BEAT > 1 << self.address
            yield Check(command in address.commands and wrong, errors["BAD_ADDRESS"], value)

    def tuned(self, parameters: int) -> str:
        """Text for a network of this many parameters: what a training changes, and the kind of method.

        Empty for a core that trains nothing.
        """
        return ""

    @classmethod
    def fits(cls, network: Network, byte_inputs: bool) -> list[CoreFit]:
        """Figures of a network on each preset of the core, or the reason why it does not fit.

        Parameters
        ----------
        network : Network
        byte_inputs : bool
            Samples are bytes for 0 to 1.
        """
        return []

    @classmethod
    def runs(cls, transformer: IntegerTransformer) -> list[TransformerFit]:
        """Fit of a transformer on each preset of the core; empty for a core without programs.

        Parameters
        ----------
        transformer : IntegerTransformer
            Shapes and formats, for example of `golden.stream.machine.cost_model.on_paper`.
        """
        return []


@dataclass(frozen=True)
class CoreFit:
    """Fit of a network on a preset of a core.

    Parameters
    ----------
    core, preset : str
    refusal : str
        Reason against the fit; empty if the network fits.
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
        """Cycles of the array for the forward pass of a sample, one per word."""
        return self.forward.cycles if self.forward else 0


@dataclass(frozen=True)
class TransformerFit:
    """Fit of a transformer on a preset of a core that runs programs.

    Parameters
    ----------
    core, preset : str
    spec : CoreSpec
        The core, the same for every transformer.
    size : CoreSize
    refusal : str
        Reason against the fit; empty if the transformer fits.
    longest : int
        Maximum number of tokens of a sentence; 0 after a refusal.
    """

    core: str
    preset: str
    spec: CoreSpec
    size: CoreSize
    refusal: str = ""
    longest: int = 0
