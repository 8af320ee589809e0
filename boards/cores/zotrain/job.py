"""Host driver of zeroth-order training on `zotrain`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....golden.axi.regions import Region
from ....golden.cores.zeroth_order.registers import Command
from ....golden.cores.zotrain.memory_layout import ZotrainLayout
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.errors import UserError
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.zo.mapping import PerturbationMapping
from ....golden.zo.step_settings import StepSettings
from ...host.driver import Core, Finished
from ...host.zeroth_order import ZerothOrderHost


class ZerothOrderTrainer(ZerothOrderHost):
    """Zeroth-order training on a core; samples are bytes or Q8.16, as generated."""

    spec: ZotrainSpec

    def __init__(self, core: Core, spec: ZotrainSpec) -> None:
        super().__init__(core, spec)
        self._deltas = core.place(self.layout.deltas())

    @property
    def layout(self) -> ZotrainLayout:
        return self.spec.layout

    @property
    def words(self) -> PerturbationMapping:
        return self.spec.mapping

    @property
    def labels(self) -> int:
        return self.spec.labels

    def load(self, frozen: Sequence[StageIntegers]) -> Finished:
        """Load the pre-trained network; all deltas become 0."""
        buffer = self.core.place(self.layout.parameters(frozen))
        return self.core.run(Command.LOAD, parameters=buffer.device_address)

    def check_settings(self, settings: StepSettings, batch: int) -> None:
        """Refuse a loss that the core does not have, and batches of more samples than it can store at the cut."""
        if settings.loss != self.spec.loss:
            raise UserError(f"loss = {settings.loss}: the core was generated with loss = {self.spec.loss}")
        self.spec.check_split(settings.split, batch)

    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        return self.spec.step_registers(settings)

    def samples(self, inputs: NDArray[np.integer]) -> tuple[Region]:
        """Region of samples, (n, *input_shape)."""
        shape = self.spec.mapping.forward.input_shape
        if inputs.shape[1:] != shape:
            raise UserError(f"samples of {inputs.shape[1:]} for {self.spec.network}, which takes {shape}")
        return (self.layout.samples(inputs),)


HOST = ZerothOrderTrainer
