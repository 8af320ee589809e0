"""Golden model of `instantft`: adapters of a network on the chip."""

from __future__ import annotations

from ...axi.bus import BEAT
from ...fixed import Integers
from ...lora.forward_cache import Codec, ForwardCache, WordCodec, record_layout
from ...lora.job import Job
from ...nn.arithmetic.forward import StageIntegers
from ...nn.array.images import frozen_of, samples_of
from ..adapters.golden_core import GoldenAdapters
from ..core import SettingValues
from ..golden_core import CoreMemory, known
from .instantft import InstantftSpec


class GoldenInstantft(GoldenAdapters[InstantftSpec]):
    """Golden model of the core."""

    frozen: list[StageIntegers] | None

    def load(self, settings: SettingValues, memory: CoreMemory) -> list[StageIntegers]:
        """Load frozen weights and biases."""
        forward = self.spec.forward
        return frozen_of(forward, memory.read(settings["parameters"], forward.frozen_beats * BEAT))

    def job(self, rate: int, cache: ForwardCache | None = None) -> Job:
        spec, adapters = self.spec, known(self.adapters, "adapters")
        return Job(spec.described, known(self.frozen, "parameters"), adapters, rate, cache, spec.noise, loss=spec.loss)

    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample, (*input_shape) in Q8.16."""
        forward = self.spec.forward
        size = forward.sample_beats * BEAT
        image = memory.read(settings["samples"] + index * size, size)
        sample: Integers = self.spec.values_of(samples_of(forward, image))[0]
        return sample

    def new_cache(self, raw: bool, entries: int) -> ForwardCache:
        """Empty cache of the outputs of all stages."""
        network = self.spec.described
        codec: Codec = WordCodec(network) if raw else record_layout(network)
        return ForwardCache(network, codec, entries)


GOLDEN = GoldenInstantft
"""Golden model of the core, as `golden_core` finds it."""
