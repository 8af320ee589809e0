"""Device memory of `zostream`: the images of a network, and the regions of a zeroth-order job with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...axi.bus import BEAT
from ...axi.regions import Bytes, Region
from ...fixed import Integers
from ...rng.pezo import PezoSpec
from ...stream.machine.images import StreamImages
from ...stream.machine.layout import HEADER_BEATS
from ...stream.machine.program import Program
from ...stream.memory.samples import token_rows
from ...zo.job import ZerothOrderJob
from ...zo.memory_layout import ZerothOrderLayout


class ZostreamLayout(ZerothOrderLayout):
    """Regions that the commands of `zostream` read and write.

    Deltas have a row for each word of a perturbation, or as many as return, `ZostreamSpec.times`.

    Parameters
    ----------
    program : Program
        Program that is loaded.
    generator : PezoSpec
        The core's generator.
    """

    def __init__(self, program: Program, generator: PezoSpec) -> None:
        rows = min(len(generator.base), program.words)
        super().__init__(range(rows), generator, program.instructions[-1].outputs)

    @staticmethod
    def network(images: StreamImages) -> tuple[Region, Region]:
        """Program, and stream of weights with its tables, without the header: its digest is for the host to check."""
        return (
            Region.containing("program", images.program.encode()),
            Region.containing("weights", images.weights[HEADER_BEATS * BEAT :]),
        )

    @staticmethod
    def samples(sentences: Sequence[Integers]) -> tuple[Region, Region]:
        """Index and samples.

        A sample is a beat with its number of tokens, then the rows of its tokens. The index has 4 bytes for each
        sample, its first beat.

        Parameters
        ----------
        sentences : sequence of array of int, (tokens, features)
            Q8.16.
        """
        images = [sentence_image(one) for one in sentences]
        ends = np.cumsum([len(one) // BEAT for one in images])
        index = np.concatenate([[0], ends[:-1]]).astype("<u4").view(np.uint8)
        padded = np.pad(index, (0, -len(index) % BEAT))
        return Region.containing("index", padded), Region.containing("samples", np.concatenate(images))


def sentence_image(rows: Integers) -> Bytes:
    """Image of a sample: a beat with its number of tokens, then for each token rows of 32 values of 3 bytes each."""
    header = np.zeros(BEAT, np.uint8)
    header[:4] = np.array([len(rows)], "<u4").view(np.uint8)
    return np.concatenate([header, token_rows(rows)])


def counters_of(job: ZerothOrderJob) -> dict[str, int]:
    """Counters of a training, as the integer job has them, but for the steps."""
    activations = sum(job.saturated_places.values())
    return {
        "saturations": activations,
        "offsets_clipped": job.saturations - activations,
        "coefficients_clipped": job.coefficients_clipped,
    }
