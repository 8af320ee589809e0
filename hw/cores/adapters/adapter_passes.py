"""Interface between the trainer of adapters and the passes of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from amaranth.hdl import Module, Value

from ....golden.lora.record_sizes import RecordSizes
from ..shelled_core import Monitor


class AdapterPasses(ABC):
    """Three components for the trainer's module, and their connections.

    A new sample passes the frozen network; its record goes to the cache. A batch is loaded from records, passes the
    adapters forward and, in a training, backward.
    """

    sizes: RecordSizes
    """Sizes of images."""
    engine: Any
    """Passes. Ports of new samples: `sample`, `hold`, `running`, `raw`, `record`, `record_done`; of batches: `labels`,
    `batch`, `show`, `logits`, and `gradient` with early stop; `clipped`. As in `hw.lora.engine.AdapterEngine`."""
    unpacker: Any
    """Load of a batch: `load` and the streams of beats `samples`, `records` and, with `RecordSizes.loads_apart`,
    `scales`. As in `hw.lora.job.batch_unpacker.BatchUnpacker`."""
    transfer: Any
    """Transfer of parameters: `load_frozen`, `load_adapters`, `save_adapters`, `address`, `done`, `read`, `write`.
    As in `hw.lora.job.parameter_transfer.ParameterTransfer`."""

    @abstractmethod
    def __init__(self, spec: Any) -> None:
        """Components of a core."""

    @classmethod
    @abstractmethod
    def monitor_of(cls, spec: Any) -> Monitor:
        """Monitor of a core's adapters."""

    @abstractmethod
    def connect(self, m: Module) -> None:
        """Connect the three components."""

    @abstractmethod
    def show(self, m: Module, monitor: Any) -> None:
        """Drive the monitor with updates of the adapters, except `done` and `busy`."""

    @abstractmethod
    def work(self, m: Module, computing: Value, coming: Value) -> dict[str, Value]:
        """Activity of each part in `CoreSpec.turns` and `CoreSpec.beside`, by name.

        Parameters
        ----------
        m : Module
        computing : Value
            A batch is computed.
        coming : Value
            A new sample arrives.
        """
