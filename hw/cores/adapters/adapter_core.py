"""Core with an engine and the trainer of adapters, inside the shell."""

from typing import Any, ClassVar

from ..shelled_core import ShelledCore
from .adapter_passes import AdapterPasses
from .adapter_trainer import AdapterTrainer


class AdapterCore(ShelledCore):
    """Base class of the cores with an `AdapterCoreSpec`; a reset after a fault empties the cache."""

    passes: ClassVar[type[AdapterPasses]]
    """Passes of the engine, set by each core."""

    def __init__(self, spec: Any) -> None:
        super().__init__(spec, self.passes.monitor_of(spec))

    def trainer(self) -> AdapterTrainer:
        return AdapterTrainer(self.spec, self.passes(self.spec))
