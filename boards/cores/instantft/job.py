"""Host driver of fine-tuning on `instantft`."""

from __future__ import annotations

from collections.abc import Sequence

from ....golden.cores.adapters.registers import Command
from ....golden.nn.arithmetic.forward import StageIntegers
from ...host.adapters import AdapterHost
from ...host.driver import Finished


class FineTuner(AdapterHost):
    """Fine-tuning jobs on a core: the frozen network, and `AdapterHost`."""

    def load(self, frozen: Sequence[StageIntegers]) -> Finished:
        """Load the frozen network."""
        buffer = self.core.place(self.layout.parameters(frozen))
        return self.core.run(Command.LOAD, parameters=buffer.device_address)


HOST = FineTuner
