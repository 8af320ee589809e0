"""Device memory of `zotrain`: regions of a zeroth-order job, and images of its network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...axi.regions import Region
from ...nn.arithmetic.forward import StageIntegers
from ...nn.array.images import frozen_image, samples_image
from ...rng.generators import Generator
from ...zo.mapping import PerturbationMapping
from ...zo.memory_layout import ZerothOrderLayout


class ZotrainLayout(ZerothOrderLayout):
    """Memory regions of the commands of `zotrain`.

    Parameters
    ----------
    mapping : PerturbationMapping
        Network on the core.
    generator : Generator
        Generator of the core.
    """

    def __init__(self, mapping: PerturbationMapping, generator: Generator) -> None:
        self.forward = mapping.forward
        super().__init__(mapping.delta_rows, generator, mapping.forward.stages[-1].channels)

    def parameters(self, frozen: Sequence[StageIntegers]) -> Region:
        """Frozen weights and biases, Q4.12 in two bytes; see `nn.images.frozen_image`."""
        return Region.containing("parameters", frozen_image(self.forward, frozen))

    def samples(self, inputs: NDArray[np.integer]) -> Region:
        """Samples, (n, *input_shape): bytes or Q8.16 in four bytes, see `ZotrainSpec.byte_inputs`."""
        return Region.containing("samples", samples_image(self.forward, inputs))
