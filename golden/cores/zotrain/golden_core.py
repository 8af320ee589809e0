"""Golden model of `zotrain`: commands in integers, on a memory."""

from __future__ import annotations

from ...axi.bus import BEAT
from ...fixed import Integers
from ...nn.arithmetic.loss import Loss
from ...nn.array.images import frozen_of, samples_of
from ...zo.network_model import NetworkModel
from ...zo.step_settings import StepSettings
from ..core import SettingValues
from ..golden_core import CoreMemory
from ..zeroth_order.golden_core import GoldenZerothOrder
from .memory_layout import ZotrainLayout
from .zotrain import ZotrainSpec


class GoldenZotrain(GoldenZerothOrder[ZotrainSpec]):
    """Golden model of the core."""

    @property
    def loss(self) -> Loss:
        return self.spec.loss

    @property
    def layout(self) -> ZotrainLayout:
        return self.spec.layout

    @property
    def labels(self) -> int:
        return self.spec.labels

    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        return self.spec.step_registers(settings)

    def load(self, settings: SettingValues, memory: CoreMemory) -> NetworkModel:
        """Load the frozen parameters."""
        forward = self.spec.forward
        image = memory.read(settings["parameters"], forward.frozen_beats * BEAT)
        return NetworkModel(self.spec.mapping, frozen_of(forward, image))

    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample, (*input_shape) in Q8.16."""
        size = self.spec.forward.sample_beats * BEAT
        image = memory.read(settings["samples"] + index * size, size)
        sample: Integers = self.spec.values_of(samples_of(self.spec.forward, image))[0]
        return sample

    def saturations(self, clipped: int, named: int) -> dict[str, int]:
        return {"saturations": clipped}


GOLDEN = GoldenZotrain
"""Golden model of the core, as `golden_core` finds it."""
