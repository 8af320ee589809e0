"""Run a zeroth-order job on the compiled core and compare it with the integer job after every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....boards.host.driver import Core
from ....golden.cores.zotrain.memory_layout import ZotrainLayout
from ....golden.cores.zotrain.registers import CORE
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import Integers
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...compiled.device import SimulatedDevice
from ..zeroth_order_job import CoreJob


@dataclass(frozen=True, eq=False)
class TrainingJob(CoreJob[ZotrainSpec, ZerothOrderTrainer]):
    """A zeroth-order job in integers, as the integer job and the core take it.

    Parameters
    ----------
    frozen : sequence of StageIntegers
        Pre-trained weights and biases, Q4.12.
    inputs : array of int, (n, *input_shape)
        Bytes or Q8.16, as the core was generated.
    steps, settings, position, deltas
        See `CoreJob`.
    """

    frozen: Sequence[StageIntegers]
    inputs: NDArray[np.integer]
    steps: Sequence[StepOrder]
    settings: StepSettings
    position: int = 0
    deltas: Integers | None = None

    def golden(self, spec: ZotrainSpec) -> ZerothOrderJob:
        """Make the integer job, before its first step."""
        model = NetworkModel(spec.mapping, self.frozen)
        return ZerothOrderJob(model, spec.source, self.settings, self.position, self.deltas)

    def driver(self, spec: ZotrainSpec, device: SimulatedDevice) -> ZerothOrderTrainer:
        """Make a host driver of a core."""
        return ZerothOrderTrainer(Core(CORE, device, device, device.interrupt), spec)

    def load_network(self, host: ZerothOrderTrainer) -> None:
        """Load the network into a core."""
        host.load(self.frozen)

    def layout(self, spec: ZotrainSpec) -> ZotrainLayout:
        """Regions of the job's device memory."""
        return spec.layout

    @staticmethod
    def counts(golden: ZerothOrderJob, steps: int) -> dict[str, int]:
        """Counters of a training command, as the integer job has them behind its last step."""
        return {
            "steps_done": steps,
            "saturations": golden.saturations,
            "coefficients_clipped": golden.coefficients_clipped,
        }
