"""Core that trains adapters: an engine's passes times the trainer, inside the shell."""

from typing import Any, ClassVar

from ..shelled_core import ShelledCore
from .adapter_passes import AdapterPasses
from .adapter_trainer import AdapterTrainer


class AdapterCore(ShelledCore):
    """Core of an `AdapterCoreSpec`; a subclass names its engine. A reset after a fault empties the cache."""

    passes: ClassVar[type[AdapterPasses]]
    """Passes of the engine."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        super().__init__(spec, self.passes.monitor_of(spec))

    def trainer(self) -> AdapterTrainer:
        """Build the trainer with its engine."""
        return AdapterTrainer(self.spec, self.passes(self.spec))
