"""Core with an engine and the trainer by zeroth order, inside the shell."""

from types import SimpleNamespace
from typing import Any, ClassVar

from amaranth.hdl import Module, Value
from amaranth.lib import wiring

from ....golden.zo.split import MOST_PERTURBATIONS
from ..shelled_core import Monitor, ShelledCore
from .forward_passes import ForwardPasses
from .sequencer import ZerothOrderSequencer


class ZerothOrderCore(ShelledCore):
    """Base class of the cores with a `ZerothOrderSpec`; a core sets its engine, and `sequencer` for another trainer.

    After a fault during a command, the host loads program and deltas again.

    Parameters
    ----------
    spec : ZerothOrderSpec
    monitor : Monitor, optional
        Monitor in place of the engine's.
    """

    passes: ClassVar[type[ForwardPasses]]
    """Forward passes of the engine."""
    sequencer: ClassVar[type[ZerothOrderSequencer]] = ZerothOrderSequencer
    """Commands and steps of the trainer."""

    def __init__(self, spec: Any, monitor: Monitor | None = None) -> None:
        super().__init__(spec, monitor or self.passes.monitor_of(spec))

    def trainer(self) -> wiring.Component:
        return self.passes.assemble(self.sequencer(self.spec, self.passes(self.spec)))

    def products(self, m: Module, settings: wiring.PureInterface) -> dict[str, Value]:
        """Values of `CoreSpec.products`, computed from few bits: perturbations are at most `MOST_PERTURBATIONS`."""
        p1, p2 = self.passes.perturbations(m, settings)
        products = self.spec.products(SimpleNamespace(p1=p1, p2=p2))
        return {name: product[: (MOST_PERTURBATIONS**2).bit_length()] for name, product in products.items()}
