"""Core in a shell: a trainer with AXI4 ports and a monitor of its updates."""

from abc import abstractmethod
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ...golden.cores.core import Check, CoreSpec
from ..axi.bus import Lite
from ..primitives.reset_tree import ResetTree
from .memory_system import buses
from .shell import Shell


class Monitor(wiring.Signature):
    """Writes to a core's parameters, for a simulation or a logic analyser.

    Parameters
    ----------
    beats : int
        Most beats that change in a cycle.
    bits : int
        Bits of a beat number.
    operations : bool
        Adds `operation`, for a core that runs programs.
    parts : int
        Bits of `busy`; 0: none.

    Members
    -------
    valid : Out(beats)
        Mask of the beats of the parameter image that change in this cycle, counted from `beat`.
    beat : Out(bits)
        Number of the first beat.
    data : Out(128 * beats)
        New contents.
    done : Out(1)
        The update of a batch or step is complete; one cycle.
    operation : Out(16), with `operations`
        Number of the active operation, counted from 1; 0: none.
    busy : Out(parts), with `parts`
        Activity of each part in this cycle: `CoreSpec.turns`, then `CoreSpec.beside`.
    """

    def __init__(self, beats: int, bits: int = 16, operations: bool = False, parts: int = 0) -> None:
        shown = {"operation": Out(16)} if operations else {}
        shown |= {"busy": Out(parts)} if parts else {}
        super().__init__(
            {"valid": Out(beats), "beat": Out(bits), "data": Out(8 * BEAT * beats), "done": Out(1), **shown}
        )


class ShelledCore(wiring.Component):
    """Base class of cores: runs one command at a time, or refuses a command with wrong settings at once.

    After a fault, the bus traffic is drained, then the trainer is reset, except the registers and the contents of
    memories. A soft reset does so at any time, and also resets the registers.

    All resets pass a tree of registers: every register is reset `RESET_LATENCY` cycles after `reset` rises, and the
    core runs `RESET_LATENCY` cycles after `reset` falls. Until then the host's bus is not ready and an offered access
    waits. `reset` must be high for at least `RESET_LATENCY` + 1 cycles; a shorter reset could withdraw offers on the
    AXI4 ports.

    Parameters
    ----------
    spec : CoreSpec
    monitored : Monitor or int
        Monitor, or its number of beats; 0 for a core without a monitor.

    Attributes
    ----------
    reset : In(1)
        Synchronous reset. The domain ``sync`` needs none.
    control : In, `Lite`
        AXI4-Lite bus of the host.
    interrupt : Out(1)
        Level: a command has ended.
    readerN, writerN : Out, `Read` and `Write`
        AXI4 ports to the external memory.
    monitor_valid, monitor_beat, monitor_data, monitor_done, ... : Out, with `CoreSpec.monitor`
        See `Monitor`.
    """

    def __init__(self, spec: CoreSpec, monitored: Monitor | int = 0) -> None:
        self.spec: Any = spec
        self._buses = buses(spec.memory_ports, spec.address)
        shown = Monitor(monitored) if isinstance(monitored, int) else monitored
        self._monitor = dict(shown.members.items()) if spec.monitor else {}
        monitor = {f"monitor_{name}": member for name, member in self._monitor.items()}
        super().__init__({"reset": In(1), "control": In(Lite()), "interrupt": Out(1), **self._buses, **monitor})

    @abstractmethod
    def trainer(self) -> Any:
        """Component inside the shell: `control`, an In `Control`, the AXI4 ports and, with a monitor, `monitor`."""

    def products(self, m: Module, settings: wiring.PureInterface) -> dict[str, Value]:
        """Values of `CoreSpec.products`; each gets a register."""
        products: dict[str, Value] = self.spec.products(settings)
        return products

    def _checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """Reasons to refuse a command, in the shell's order."""
        values = {name: getattr(settings, name) for name in self.spec.registers.setting_names}
        return list(self.spec.checks(command, SimpleNamespace(**values, **self._products)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        shell = Shell(spec.registers, spec.signature, self._checks, spec.address, spec.image_beats)
        # settings do not change during checks, so slow products may have registers
        products = self.products(m, shell.control.settings)
        self._products = {name: Signal.like(product, name=name) for name, product in products.items()}
        m.d.sync += [register.eq(products[name]) for name, register in self._products.items()]
        trainer = self.trainer()
        shell_root, trainer_root = (Signal(init=1, name=f"{name}_reset_root") for name in ("shell", "trainer"))
        m.d.sync += [shell_root.eq(self.reset), trainer_root.eq(self.reset | shell.clear)]
        m.submodules.shell = shell_tree = ResetTree(shell, shell_root)
        m.submodules.trainer = ResetTree(trainer, trainer_root)
        held = Signal()
        m.d.comb += held.eq(shell_root | shell_tree.active)
        self._connect_host(m, shell, held)
        wiring.connect(m, shell.control, trainer.control)
        for bus in self._buses:
            wiring.connect(m, getattr(trainer, bus), wiring.flipped(getattr(self, bus)))
        m.d.comb += self.interrupt.eq(shell.interrupt)
        for name in self._monitor:
            m.d.comb += getattr(self, f"monitor_{name}").eq(getattr(trainer.monitor, name))
        return m

    def _connect_host(self, m: Module, shell: Shell, held: Value) -> None:
        """Connect the host's bus; a reset blocks it."""
        for name in ("aw", "w", "ar", "b", "r"):
            channel, inner = getattr(self.control, name), getattr(shell.bus, name)
            source, sink = (inner, channel) if name in ("b", "r") else (channel, inner)
            m.d.comb += [
                sink.payload.eq(source.payload),
                sink.valid.eq(source.valid & ~held),
                source.ready.eq(sink.ready & ~held),
            ]
