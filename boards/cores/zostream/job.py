"""Train transformers on `zostream` from the host: images of a network, samples, commands, records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....golden.axi.regions import Region
from ....golden.cores.zostream.memory_layout import ZostreamLayout
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.transformer_model import TransformerModel
from ....golden.zo.step_settings import StepSettings
from ...host.driver import Core, CoreError, Finished
from ...host.zeroth_order import ZerothOrderHost


class StreamTrainer(ZerothOrderHost):
    """Zeroth-order training of transformers on a core; samples are those of `TransformerModel.forward`.

    Parameters
    ----------
    core : Core
        Driver of a core on a board, or of a simulated one.
    spec : ZostreamSpec
        Parameters that the core was generated with.

    Attributes
    ----------
    images : StreamImages
        Network that is loaded.

    Raises
    ------
    UserError
        If the core was generated with another spec, or no network is loaded where one is needed.
    """

    spec: ZostreamSpec

    def __init__(self, core: Core, spec: ZostreamSpec) -> None:
        super().__init__(core, spec)
        self._images: StreamImages | None = None

    @property
    def images(self) -> StreamImages:
        """Network that is loaded."""
        if self._images is None:
            raise UserError("no network is loaded: load its images first")
        return self._images

    @property
    def layout(self) -> ZostreamLayout:
        """Regions of device memory."""
        return self.spec.layout(self.images.program)

    @property
    def words(self) -> TransformerModel:
        """Words of a perturbation."""
        return self.images.model

    @property
    def labels(self) -> int:
        """Labels that a sample can have."""
        return self.words.labels("cross_entropy")

    def load(self, images: StreamImages) -> Finished:
        """Load a network in place of the one before; all deltas become 0.

        Raises
        ------
        UserError
            If it is none for this core.
        """
        self.spec.check(images)
        program, weights = (self.core.place(region) for region in self.spec.layout(images.program).network(images))
        beats = images.program.image_beats
        addresses = {"program": program.device_address, "weights": weights.device_address}
        self._images = None
        finished = self._command("LOAD", program_beats=beats, **addresses)
        self._images = images
        return finished

    def _command(self, name: str, **settings: int) -> Finished:
        """Run a command; behind an error the core has no program any more, so that it is to be loaded again."""
        try:
            return super()._command(name, **settings)
        except CoreError:
            self._images = None
            raise

    def check_settings(self, settings: StepSettings, batch: int) -> None:
        """Refuse settings that the core cannot run, see `ZostreamSpec.check_steps`."""
        self.spec.check_steps(settings)

    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        """Settings of steps as the registers of a training command."""
        return self.spec.step_registers(settings, self.images)

    def samples(self, inputs: NDArray[np.integer]) -> tuple[Region, Region]:
        """Regions of samples and their index."""
        rows, lengths = self.words.rows_of(inputs.astype(np.int64))
        most = self.images.program.capacity // 2
        for number, length in enumerate(lengths):
            if not 1 <= length <= most:
                raise UserError(
                    f"sample {number} has {length} tokens: the core has room for 1 to {most} of this network"
                )
        return self.layout.samples(np.split(rows, np.cumsum(lengths)[:-1]))
