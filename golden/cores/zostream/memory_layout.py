"""Device memory of `zostream`: the images of a network, and the regions of a zeroth-order job with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...axi.bus import BEAT
from ...axi.regions import Bytes, Region
from ...fixed import Integers
from ...rng.perturbation import cycles_of
from ...rng.pezo import PezoSpec
from ...stream.instruction import Kind
from ...stream.machine.images import StreamImages
from ...stream.machine.layout import HEADER_BEATS
from ...stream.machine.program import Program
from ...stream.memory.samples import token_rows
from ...stream.weights.tensor_sequencer import PassInstruction
from ...stream.weights.tile_stream import BEAT_CORRECTIONS, TileStreamSpec
from ...zo.memory_layout import WORDS, ZerothOrderLayout


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
        rows = sum(min(len(generator.base), words) for words in (program.words, program.behind))
        super().__init__(range(rows), generator, program.instructions[-1].outputs)
        self._program = program

    def kept_beats(self, lengths: Sequence[int]) -> list[int]:
        """Beats of what passes the cut of samples of so many tokens: 4 bytes a value, each row from a beat on.

        Where the part before the cut is tuned as well, each row of the plus side has one of the minus side behind it.
        """
        before = self._program.instructions[: self._program.cut]
        sides = 2 if self._program.words else 1
        row = sides * -(-before[-1].outputs // WORDS)
        pooled = any(one.kind == Kind.POOL for one in before)
        return [row * (1 if pooled else length) for length in lengths]

    def cache(self, lengths: Sequence[int]) -> tuple[Integers, Region]:
        """First beat of what passes the cut of each sample, and the region of all."""
        beats = self.kept_beats(lengths)
        return np.cumsum([0, *beats[:-1]]), Region("cache", sum(beats) * BEAT)

    def kept_image(self, passed: Sequence[Integers]) -> Bytes:
        """Image of what passes the cut of all samples, as the core writes it.

        Parameters
        ----------
        passed : sequence of array of int, (rows, values)
            Of each sample; rows of the minus side between those of the plus side, where it has any.
        """
        rows = [np.pad(one, ((0, 0), (0, -one.shape[1] % WORDS))) for one in passed]
        return np.ascontiguousarray(np.concatenate(rows), "<i4").view(np.uint8).reshape(-1)

    def place_of(self, beat: int) -> tuple[int, int] | None:
        """Find the operation and the tile of a beat of the weights and their tables; None where it is of no operation.

        Tiles are counted in their tensor, as the core counts them; vectors, tables and sensitive weights are of tile 0.
        """
        size = self._program.size
        reader = TileStreamSpec(lanes=size.lanes, columns=size.columns)
        for number, one in enumerate(self._program.instructions):
            longest = one.positions if one.kind == Kind.POSITIONS else size.sums
            for tensor in reader.sequencer.tensors(PassInstruction.of(one, longest)):
                if 0 <= (at := beat - tensor.reads.beat) < tensor.reads.beats:
                    return number, int(reader.tiles(tensor.reads)[at])
            if 0 <= beat - one.correction_beat < cycles_of(one.corrections, BEAT_CORRECTIONS):
                return number, 0
        return None

    @staticmethod
    def network(images: StreamImages) -> tuple[Region, Region]:
        """Program, and stream of weights with its tables, without the header: its digest is for the host to check."""
        return (
            Region.containing("program", images.program.encode()),
            Region.containing("weights", images.weights[HEADER_BEATS * BEAT :]),
        )

    @staticmethod
    def samples(sentences: Sequence[Integers], kept: Integers | None = None) -> tuple[Region, Region]:
        """Index and samples.

        A sample is a beat with its number of tokens, then the rows of its tokens. The index has 4 bytes for each
        sample, its first beat.

        Parameters
        ----------
        sentences : sequence of array of int, (tokens, features)
            Q8.16.
        kept : array of int, optional
            First beat in the cache of each.
        """
        places = np.zeros(len(sentences), np.int64) if kept is None else kept
        images = [sentence_image(*one) for one in zip(sentences, places.tolist(), strict=True)]
        ends = np.cumsum([len(one) // BEAT for one in images])
        index = np.concatenate([[0], ends[:-1]]).astype("<u4").view(np.uint8)
        padded = np.pad(index, (0, -len(index) % BEAT))
        return Region.containing("index", padded), Region.containing("samples", np.concatenate(images))


def sentence_image(rows: Integers, kept: int = 0) -> Bytes:
    """Image of a sample: a beat with its tokens and its place in the cache, then of each token rows of 32 values."""
    header = np.zeros(BEAT, np.uint8)
    header[:8] = np.array([len(rows), kept], "<u4").view(np.uint8)
    return np.concatenate([header, token_rows(rows)])
