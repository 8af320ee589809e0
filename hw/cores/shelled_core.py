"""The edges of a core: a trainer inside the shell, its AXI4 ports, and the monitor of what it updates."""

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
    """Updates of a core's parameters as they are written, for a simulation or a logic analyser.

    Parameters
    ----------
    beats : int
        Beats that may change in a cycle.
    bits : int
        Bits of a beat's number.
    operations : bool
        The core runs programs, and shows which of their operations is at work.
    parts : int
        Parts of which the core shows whether they are at work.

    Members
    -------
    valid : Out(beats)
        Which beats of the parameters' image change in this cycle: `beat`, and those that follow it.
    beat : Out(bits)
        The first one's number.
    data : Out(128 * beats)
        Their new contents.
    done : Out(1)
        The update of a batch or step is complete; one cycle.
    operation : Out(16), with `operations`
        Number of the operation at work, counted from 1; 0: none.
    busy : Out(parts), with `parts`
        Which parts are at work in this cycle: `CoreSpec.turns`, then `CoreSpec.beside`.
    """

    def __init__(self, beats: int, bits: int = 16, operations: bool = False, parts: int = 0) -> None:
        shown = {"operation": Out(16)} if operations else {}
        shown |= {"busy": Out(parts)} if parts else {}
        super().__init__(
            {"valid": Out(beats), "beat": Out(bits), "data": Out(8 * BEAT * beats), "done": Out(1), **shown}
        )


class ShelledCore(wiring.Component):
    """Runs a command at a time: refuses it at once where its settings are wrong, and otherwise runs it to its end.

    After a fault, the traffic on the bus is drained, then the trainer is reset: all but the registers and the contents
    of memories. A soft reset does so at any time, and resets the registers, too.

    All resets go through a tree of registers: `RESET_LATENCY` cycles after `reset` every register is reset, and so long
    after its end the core runs. Until then the host's bus is not ready, and an access that is offered waits. `reset` is
    high for `RESET_LATENCY` + 1 cycles at least, or what is on offer on the AXI4 ports would be taken back behind it.

    Parameters
    ----------
    spec : CoreSpec
    monitored : Monitor or int
        The monitor, or its beats; 0 for a core without one.

    Attributes
    ----------
    reset : In(1)
        Synchronous reset. The domain ``sync`` needs none.
    control : In, `Lite`
        The host's AXI4-Lite bus.
    interrupt : Out(1)
        Level: a command has ended.
    readerN, writerN : Out, `Read` and `Write`
        AXI4 ports to the memory outside.
    monitor_valid, monitor_beat, monitor_data, monitor_done, ... : Out, where the spec has a monitor
        See `Monitor`.
    """

    def __init__(self, spec: CoreSpec, monitored: Monitor | int = 0) -> None:
        self._core = spec
        self._buses = buses(spec.memory_ports, spec.address)
        shown = Monitor(monitored) if isinstance(monitored, int) else monitored
        self._monitor = dict(shown.members.items()) if spec.monitor else {}
        monitor = {f"monitor_{name}": member for name, member in self._monitor.items()}
        super().__init__({"reset": In(1), "control": In(Lite()), "interrupt": Out(1), **self._buses, **monitor})

    @abstractmethod
    def trainer(self) -> Any:
        """Build the component inside: `control`, an In `Control`, the AXI4 ports and, where there is one, `monitor`."""

    def products(self, m: Module, settings: wiring.PureInterface) -> dict[str, Value]:
        """Values of `CoreSpec.products`, each of which goes into a register."""
        return self._core.products(settings)

    def _checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command, in the order in which the shell checks them."""
        values = {name: getattr(settings, name) for name in self._core.registers.setting_names}
        return list(self._core.checks(command, SimpleNamespace(**values, **self._products)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self._core
        shell = Shell(spec.registers, spec.signature, self._checks, spec.address, spec.image_beats)
        # registers: settings do not change while they are checked
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
        """Connect the host's bus, on which nothing moves in a reset."""
        for name in ("aw", "w", "ar", "b", "r"):
            channel, inner = getattr(self.control, name), getattr(shell.bus, name)
            source, sink = (inner, channel) if name in ("b", "r") else (channel, inner)
            m.d.comb += [
                sink.payload.eq(source.payload),
                sink.valid.eq(source.valid & ~held),
                source.ready.eq(sink.ready & ~held),
            ]
