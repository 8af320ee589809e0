"""Device memory of `zostream`: images of a network, and regions of a zeroth-order job."""

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
    """Memory regions of the commands of `zostream`.

    Deltas have a row for each word of a perturbation, at most `ZostreamSpec.times` rows.

    Parameters
    ----------
    program : Program
        Loaded program.
    generator : PezoSpec
        Generator of the core.
    """

    def __init__(self, program: Program, generator: PezoSpec) -> None:
        rows = sum(min(len(generator.base), words) for words in (program.words, program.behind))
        super().__init__(range(rows), generator, program.instructions[-1].outputs)
        self._program = program

    def kept_beats(self, lengths: Sequence[int]) -> list[int]:
        """Beats of each sample's values at the cut, from its tokens: 4 bytes per value, each row in whole beats.

        With a tuned first part each row of the plus side is followed by the row of the minus side.
        """
        before = self._program.instructions[: self._program.cut]
        sides = 2 if self._program.words else 1
        row = sides * -(-before[-1].outputs // WORDS)
        pooled = any(instruction.kind == Kind.POOL for instruction in before)
        return [row * (1 if pooled else length) for length in lengths]

    def cache(self, lengths: Sequence[int]) -> tuple[Integers, Region]:
        """First beat of each sample's values at the cut, and the region of all samples."""
        beats = self.kept_beats(lengths)
        return np.cumsum([0, *beats[:-1]]), Region("cache", sum(beats) * BEAT)

    def kept_image(self, passed: Sequence[Integers]) -> Bytes:
        """Image of the values at the cut of all samples, as the core writes it.

        Parameters
        ----------
        passed : sequence of array of int, (rows, values)
            Rows of each sample; with two sides, plus and minus rows alternate.
        """
        rows = [np.pad(values, ((0, 0), (0, -values.shape[1] % WORDS))) for values in passed]
        return np.ascontiguousarray(np.concatenate(rows), "<i4").view(np.uint8).reshape(-1)

    def place_of(self, beat: int) -> tuple[int, int] | None:
        """Operation and tile that a beat of the weight stream or its tables belongs to; None if to no operation.

        Tiles are counted in their tensor, as in the core; vectors, tables and sensitive weights have tile 0.
        """
        size = self._program.size
        reader = TileStreamSpec(lanes=size.lanes, columns=size.columns)
        for number, instruction in enumerate(self._program.instructions):
            longest = instruction.positions if instruction.kind == Kind.POSITIONS else size.sums
            for tensor in reader.sequencer.tensors(PassInstruction.of(instruction, longest)):
                if 0 <= (offset := beat - tensor.reads.beat) < tensor.reads.beats:
                    return number, int(reader.tiles(tensor.reads)[offset])
            if 0 <= beat - instruction.correction_beat < cycles_of(instruction.corrections, BEAT_CORRECTIONS):
                return number, 0
        return None

    @staticmethod
    def network(images: StreamImages) -> tuple[Region, Region]:
        """Program, and weight stream with its tables, without the header: the host checks the header's digest."""
        return (
            Region.containing("program", images.program.encode()),
            Region.containing("weights", images.weights[HEADER_BEATS * BEAT :]),
        )

    @staticmethod
    def samples(sentences: Sequence[Integers], kept: Integers | None = None) -> tuple[Region, Region]:
        """Images of the index and of the samples.

        A sample has a beat with its number of tokens, then the rows of its tokens. The index has the number of each
        sample's first beat, in 4 bytes.

        Parameters
        ----------
        sentences : sequence of array of int, (tokens, features)
            Q8.16.
        kept : array of int, optional
            First beat of each sample in the cache of the cut.
        """
        places = np.zeros(len(sentences), np.int64) if kept is None else kept
        images = [sentence_image(*sample) for sample in zip(sentences, places.tolist(), strict=True)]
        ends = np.cumsum([len(image) // BEAT for image in images])
        index = np.concatenate([[0], ends[:-1]]).astype("<u4").view(np.uint8)
        padded = np.pad(index, (0, -len(index) % BEAT))
        return Region.containing("index", padded), Region.containing("samples", np.concatenate(images))


def sentence_image(rows: Integers, kept: int = 0) -> Bytes:
    """Image of a sample: a beat with its number of tokens and its cache slot, then rows of 32 values for each token."""
    header = np.zeros(BEAT, np.uint8)
    header[:8] = np.array([len(rows), kept], "<u4").view(np.uint8)
    return np.concatenate([header, token_rows(rows)])
