"""Passes of an engine with adapters, as their trainer sees them: one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from amaranth.hdl import Module, Value

from ....golden.lora.record_sizes import RecordSizes
from ..shelled_core import Monitor


class AdapterPasses(ABC):
    """Passes of an engine: three components of the trainer's module, and wires between them.

    A new sample passes the frozen network once; its record goes to the cache. A batch is loaded from records and passes
    the adapters forward and, where it is learnt from, backward.
    """

    sizes: RecordSizes
    """Sizes of images."""
    engine: Any
    """Passes: `sample`, `hold`, `running`, `raw`, `record`, `record_done` for new samples; `labels`, `batch`, `show`,
    `logits` for batches; `clipped`, and `gradient` where losses are summed. As of `hw.lora.engine.AdapterEngine`."""
    unpacker: Any
    """Loads a batch into the engine: `load`, streams of beats `samples`, `records`, and `scales` where these have a
    stream of their own. As of `hw.lora.job.batch_unpacker.BatchUnpacker`."""
    transfer: Any
    """Moves images of parameters: `load_frozen`, `load_adapters`, `save_adapters`, `address`, `done`, `read`, `write`.
    As of `hw.lora.job.parameter_transfer.ParameterTransfer`."""

    @abstractmethod
    def __init__(self, spec: Any) -> None:
        """Make the components for a core with this spec."""

    @classmethod
    @abstractmethod
    def monitor_of(cls, spec: Any) -> Monitor:
        """Monitor of the adapters of a core with this spec."""

    @abstractmethod
    def connect(self, m: Module) -> None:
        """Connect the three components with each other."""

    @abstractmethod
    def show(self, m: Module, monitor: Any) -> None:
        """Show updates of the adapters: all of the monitor but `done` and `busy`."""

    @abstractmethod
    def work(self, m: Module, computing: Value, coming: Value) -> dict[str, Value]:
        """Whether each part of the core is at work, by the names in `CoreSpec.turns` and `CoreSpec.beside`.

        Parameters
        ----------
        m : Module
        computing : Value
            A batch is computed.
        coming : Value
            A new sample comes in.
        """
