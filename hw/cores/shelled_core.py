"""The edges of a core: a trainer inside the shell, its AXI4 ports, and the monitor of what it updates."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, ResetInserter, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ...golden.cores.core import CoreSpec
from ..axi.bus import Lite
from .memory_system import buses
from .shell import Check, Shell


class Monitor(wiring.Signature):
    """Updates of a core's parameters as they are written, for a simulation or a logic analyser.

    Parameters
    ----------
    beats : int
        Beats that may change in a cycle.

    Members
    -------
    valid : Out(beats)
        Which beats of the parameters' image change in this cycle: `beat`, and those that follow it.
    beat : Out(16)
        The first one's number.
    data : Out(128 * beats)
        Their new contents.
    done : Out(1)
        The update of a batch or step is complete; one cycle.
    """

    def __init__(self, beats: int) -> None:
        super().__init__({"valid": Out(beats), "beat": Out(16), "data": Out(8 * BEAT * beats), "done": Out(1)})


class ShelledCore(wiring.Component):
    """Runs a command at a time: refuses it at once where its settings are wrong, and otherwise runs it to its end.

    After a fault, the traffic on the bus is drained, then the trainer is reset: all but the registers and the contents
    of memories.

    Parameters
    ----------
    spec : CoreSpec
    monitored : int
        Beats of the monitor; 0 for a core without one.

    Attributes
    ----------
    control : In, `Lite`
        The host's AXI4-Lite bus.
    interrupt : Out(1)
        Level: a command has ended.
    readerN, writerN : Out, `Read` and `Write`
        AXI4 ports to the memory outside.
    monitor_valid, monitor_beat, monitor_data, monitor_done : Out, where the spec has a monitor
        See `Monitor`.
    """

    def __init__(self, spec: CoreSpec, monitored: int = 0) -> None:
        self._core = spec
        self._buses = buses(spec.memory_ports, spec.address)
        self._monitor = dict(Monitor(monitored).members.items()) if spec.monitor else {}
        monitor = {f"monitor_{name}": member for name, member in self._monitor.items()}
        super().__init__({"control": In(Lite()), "interrupt": Out(1), **self._buses, **monitor})

    @abstractmethod
    def trainer(self) -> Any:
        """Build the component inside: `control`, an In `Control`, the AXI4 ports and, where there is one, `monitor`."""

    @abstractmethod
    def checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command, in the order in which the shell checks them."""

    def prepare(self, m: Module, settings: wiring.PureInterface) -> None:
        """Add registers that the checks read; none by default."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self._core
        m.submodules.shell = shell = Shell(spec.registers, spec.signature, self.checks, spec.address)
        trainer = self.trainer()
        m.submodules.trainer = ResetInserter(shell.clear)(trainer)
        wiring.connect(m, wiring.flipped(self.control), shell.bus)
        wiring.connect(m, shell.control, trainer.control)
        for bus in self._buses:
            wiring.connect(m, getattr(trainer, bus), wiring.flipped(getattr(self, bus)))
        m.d.comb += self.interrupt.eq(shell.interrupt)
        self.prepare(m, shell.control.settings)
        for name in self._monitor:
            m.d.comb += getattr(self, f"monitor_{name}").eq(getattr(trainer.monitor, name))
        return m
