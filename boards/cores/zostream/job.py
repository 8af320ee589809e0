"""Host driver of zeroth-order training of transformers on `zostream`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import Region
from ....golden.cores.zostream.memory_layout import ZostreamLayout
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.transformer_model import TransformerModel
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...host.driver import Core, CoreError, Finished
from ...host.zeroth_order import ZerothOrderHost


class StreamTrainer(ZerothOrderHost):
    """Zeroth-order training of transformers on a core; samples as for `TransformerModel.forward`.

    Parameters
    ----------
    core : Core
    spec : ZostreamSpec
    caches : bool
        If the network's program is cut at the first tuned tensor: compute activations before the cut once for each
        sample, instead of in each step.

    Raises
    ------
    UserError
        If the core has another spec, or no network is loaded.
    """

    spec: ZostreamSpec

    def __init__(self, core: Core, spec: ZostreamSpec, caches: bool = True) -> None:
        super().__init__(core, spec)
        self._caches = caches
        self._images: StreamImages | None = None
        self._weights = 0
        self._kept: _Kept | None = None

    @property
    def images(self) -> StreamImages:
        """Loaded network."""
        if self._images is None:
            raise UserError("no network is loaded: load its images first")
        return self._images

    @property
    def layout(self) -> ZostreamLayout:
        return self.spec.layout(self.images.program)

    @property
    def words(self) -> TransformerModel:
        return self.images.model

    @property
    def labels(self) -> int:
        return self.words.label_count("cross_entropy")

    def load(self, images: StreamImages) -> Finished:
        """Load another network; all deltas become 0. An unsuitable network is a `UserError`."""
        self.spec.check(images)
        self.forget()
        program, weights = (self.core.place(region) for region in self.spec.layout(images.program).network(images))
        beats = images.program.image_beats
        addresses = {"program": program.device_address, "weights": weights.device_address}
        self._images, self._weights = None, weights.device_address
        finished = self._command("LOAD", program_beats=beats, **addresses)
        self._images = images
        return finished

    def _command(self, name: str, **settings: int) -> Finished:
        """Run a command. After an error the core has no program, and the network must be loaded again."""
        if name == "INFER":  # its samples are placed without a cache
            settings["cached"] = 0
        try:
            return super()._command(name, **settings)
        except CoreError as error:
            error.args = (f"{error}{self._where(error)}",)
            self._images = None
            raise

    def _where(self, error: CoreError) -> str:
        """Text for messages: operation and tile of unreadable weights."""
        beat, beyond = divmod(error.address - self._weights, BEAT)
        if not self._images or not error.name.startswith("read_") or beyond or beat < 0:
            return ""
        place = self.layout.place_of(beat)
        return "" if place is None else ", in the weights of operation {} from tile {} on".format(*place)

    def check_settings(self, settings: StepSettings, batch: int) -> None:
        """See `ZostreamSpec.check_steps` and `check_cut`."""
        self.spec.check_steps(settings)
        self.spec.check_cut(settings, self.images)

    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        return self.spec.step_registers(settings, self.images) | {"cached": int(self._cached)}

    @property
    def _cached(self) -> bool:
        """Whether steps begin after the cut, with cached activations."""
        return self._caches and self.images.cached

    def forget(self) -> None:
        """Empty the forward cache: activations at the cut are computed again for each used sample."""
        self._kept = None

    def placed(self, inputs: NDArray[np.integer], regions: Sequence[Region]) -> dict[str, int]:
        """Place samples unless the forward cache has them; return their addresses."""
        if self._kept is None or not np.array_equal(self._kept.inputs, inputs):
            addresses = self._place(regions)
            if not self._cached:
                return addresses
            self._kept = _Kept(inputs.copy(), addresses, np.zeros(len(inputs), bool))
        return self._kept.addresses

    def prepare(
        self, samples: Mapping[str, int], inputs: NDArray[np.integer], steps: Sequence[StepOrder]
    ) -> Finished | None:
        """Cache activations at the cut for those samples of the steps that are not cached yet."""
        if self._kept is None:
            return None
        is_cached = self._kept.is_cached
        missing = np.unique(np.concatenate([step.indices for step in steps]))
        if not len(missing := missing[~is_cached[missing]]):
            return None
        parts = np.split(missing, range(LARGEST_BATCH, len(missing), LARGEST_BATCH))
        orders = [StepOrder(part, np.zeros_like(part), rate=0) for part in parts]
        finished = self._run("CACHE", samples, len(inputs), orders, len(parts[0]))
        is_cached[missing] = True
        return finished

    def samples(self, inputs: NDArray[np.integer]) -> Sequence[Region]:
        """Regions of samples and their index, and of a network's activations at the cut."""
        rows, lengths = self.words.rows_of(inputs.astype(np.int64))
        self.spec.check_lengths(self.images, lengths)
        slots, *cache = self.layout.cache(lengths) if self.images.cut else (None,)
        return (*self.layout.samples(np.split(rows, np.cumsum(lengths)[:-1]), slots), *cache)


@dataclass
class _Kept:
    """Samples of a forward cache, region addresses, and a mask of cached samples."""

    inputs: NDArray[np.integer]
    addresses: dict[str, int]
    is_cached: NDArray[np.bool_]


HOST = StreamTrainer
