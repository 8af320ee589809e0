"""Run a zeroth-order job of a transformer on the compiled core and compare it with the integer job after every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.zostream.job import StreamTrainer
from ....boards.host.driver import Core
from ....golden.cores.zostream.memory_layout import ZostreamLayout, counters_of
from ....golden.cores.zostream.registers import CORE
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.fixed import Integers
from ....golden.stream.forward_cache import CachedModel
from ....golden.stream.machine.images import StreamImages
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.device import SimulatedDevice
from ..zeroth_order_job import CoreJob


@dataclass(frozen=True, eq=False)
class StreamJob(CoreJob[ZostreamSpec, StreamTrainer]):
    """A zeroth-order job of a transformer in integers, as the integer job and the core take it.

    Parameters
    ----------
    images : StreamImages
        Network.
    inputs : array of int
        Samples, see `TransformerModel.forward`.
    steps, settings, position, deltas
        See `CoreJob`.
    """

    images: StreamImages
    inputs: NDArray[np.integer]
    steps: Sequence[StepOrder]
    settings: StepSettings
    position: int = 0
    deltas: Integers | None = None

    def golden(self, spec: ZostreamSpec) -> ZerothOrderJob:
        """Make the integer job, before its first step."""
        model = CachedModel(self.images.model, self.images.cut) if self.images.cached else self.images.model
        return ZerothOrderJob(model, spec.generator, self.settings, self.position, self.deltas)

    def driver(self, spec: ZostreamSpec, device: SimulatedDevice, caches: bool = True) -> StreamTrainer:
        """Make a host driver of a core, see `StreamTrainer`."""
        return StreamTrainer(Core(CORE, device, device, device.interrupt), spec, caches)

    def load_network(self, host: StreamTrainer) -> None:
        """Load the network into a core."""
        host.load(self.images)

    def layout(self, spec: ZostreamSpec) -> ZostreamLayout:
        """Regions of the job's device memory."""
        return spec.layout(self.images.program)

    @staticmethod
    def counts(golden: ZerothOrderJob, steps: int) -> dict[str, int]:
        """Counters of a training command, as the integer job has them behind its last step."""
        return {"steps_done": steps, **counters_of(golden)}
