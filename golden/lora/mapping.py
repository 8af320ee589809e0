"""Mapping of adapters and of a sample's record onto the core's memories.

Adapters take their inputs, and a record keeps all stages' outputs, in *words*: `lanes` values of one tensor. Adapters
whose rank leaves half of the columns idle take two words of their input in a cycle, and four where it leaves three
quarters of 16. What adapters take in a cycle is a *row*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Literal

import numpy as np

from ..axi.bus import BEAT
from ..errors import UserError
from ..fixed import Q4_12
from ..models.network import Network
from ..models.stages import Tensors
from ..nn.arithmetic.loss import Loss, labels_of
from ..nn.array.mapping import Mapping
from .adapters import AdapterSizes, Tuned, last_layer_sizes

SCALES = 4
"""Most NF4 blocks, and so scales, that a word of a record has a part of."""
BEAT_PARAMETERS = 8 * BEAT // Q4_12.width
"""Parameters of a beat, and so the most of a class and adapter in B, which has one for each."""
_PAIRED_ENTRIES = 16
"""Least entries of B, classes x adapters, of which the logit head takes two at once."""
ZERO_CODE = 7
"""The NF4 code of 0: pads a record's words."""


@dataclass(frozen=True)
class Word:
    """Part of a tensor that is processed at once.

    Parameters
    ----------
    first, count : int
        First value, and number of values; other lanes are zero.
    block : int
        NF4 block of the first value, counted over all tensors of a record.
    borders : tuple of int
        The lanes at which the next block begins, and the one after that.
    """

    first: int
    count: int
    block: int
    borders: tuple[int, ...]


@dataclass(frozen=True)
class AdapterMapping:
    """Adapters from stages' inputs to the logits, and the records that the forward cache keeps.

    Parameters
    ----------
    forward : Mapping
        The frozen network.
    first : int
        The first stage whose input has an adapter; all later ones have one, too.
    rank : int
        Rank of every adapter.
    tunes : "adapters", "layer" or "biases"
        Adapters as above, or those of `last_layer`, which tune the last layer's weights and biases, or its biases.
    loss : str
        See `nn.loss`; with ``mse`` an adapter reads the sample, which is the target.
    """

    forward: Mapping
    first: int = 0
    rank: int = 4
    tunes: Literal["adapters"] | Tuned = "adapters"
    loss: Loss = "cross_entropy"

    def __post_init__(self) -> None:
        name, stages = self.forward.name, self.forward.network_stages
        if not 1 <= self.rank <= self.columns:
            raise UserError(f"rank = {self.rank} needs as many columns; there are {self.columns}")
        if self.rank > BEAT_PARAMETERS:
            raise UserError(f"rank = {self.rank} is more than {BEAT_PARAMETERS}: a class's part of B is one beat")
        if not 0 <= self.first < len(stages):
            raise UserError(f"{name} has stages 0 to {len(stages) - 1}, not {self.first}")
        _ = self.labels  # refuses outputs that do not fit the loss
        if self.loss == "mse" and not self.takes_sample:
            raise UserError(
                f"loss = mse: no adapter of {name} reads the sample, which is the target; give all adapters"
            )

    @classmethod
    def of(
        cls,
        network: Network,
        first: int = 0,
        rank: int = 4,
        lanes: int = 32,
        columns: int = 4,
        byte_inputs: bool = True,
        tunes: Literal["adapters"] | Tuned = "adapters",
        loss: Loss = "cross_entropy",
    ) -> AdapterMapping:
        """Map a network and its adapters; parameters as of `Mapping` and of this class."""
        return cls(Mapping.of(network, lanes, columns, byte_inputs, pairs="frozen"), first, rank, tunes, loss)

    @property
    def lanes(self) -> int:
        """Inputs that are multiplied at once."""
        return self.forward.lanes

    @property
    def columns(self) -> int:
        """Outputs that are computed at once."""
        return self.forward.columns

    @property
    def classes(self) -> int:
        """Logits."""
        return self.forward.network_stages[-1].biases

    @property
    def labels(self) -> int:
        """Labels that a sample can have, see `nn.loss.labels_of`."""
        stages = self.forward.network_stages
        return labels_of(self.loss, self.forward.name, stages[0].inputs, stages[-1].biases)

    # -- records ---------------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(NF4 blocks, values of each) of every stage's output."""
        shapes = [stage.output_shape for stage in self.forward.network_stages]
        return tuple((shape[0], prod(shape[1:])) if len(shape) == 3 else (1, shape[0]) for shape in shapes)

    @cached_property
    def sample_words(self) -> tuple[Word, ...]:
        """Words of the network's input."""
        return self._words(1, self.forward.inputs, 0)

    @cached_property
    def record_words(self) -> tuple[tuple[Word, ...], ...]:
        """Words of every stage's output."""
        begins = np.cumsum([0, *(count for count, _ in self.blocks)])
        return tuple(self._words(*pair, int(begin)) for pair, begin in zip(self.blocks, begins, strict=False))

    def _words(self, count: int, length: int, block: int) -> tuple[Word, ...]:
        words, first, total = [], 0, count * length
        while first < total:
            at = first // length
            end = min(first + self.lanes, total, (at + SCALES) * length)
            borders = tuple(edge - first for edge in range((at + 1) * length, end, length))
            words.append(Word(first, end - first, block + at, borders))
            first = end
        return tuple(words)

    @property
    def batch_words(self) -> tuple[tuple[Word, ...], ...]:
        """Words of a record that a batch needs: the adapters' inputs and the base logits."""
        return self.record_words[self.first_record :]

    @cached_property
    def first_record(self) -> int:
        """Number of the first stage whose outputs a batch needs."""
        return min((one for own in self.tensors for one in own if one >= 0), default=len(self.blocks) - 1)

    @property
    def scales(self) -> int:
        """Scales of a record."""
        return sum(count for count, _ in self.blocks)

    @cached_property
    def packed_at_once(self) -> int:
        """Values of a record that are packed in a cycle.

        Two on an array of 16 columns whose words of a new sample are fewer than the values of its record.
        """
        values = sum(count * length for count, length in self.blocks)
        return 2 if self.columns >= 16 and values > self.forward.cycles else 1

    @cached_property
    def loads_apart(self) -> bool:
        """Whether samples are loaded beside records, and scales beside codes, a word each: in rows of four words."""
        return self.words_per_cycle == 4 and self.takes_sample

    # -- adapters --------------------------------------------------------------------------------------------------

    @property
    def tensors(self) -> tuple[Tensors, ...]:
        """Inputs of the adapters: numbers of the stages whose outputs each reads, -1 for the sample.

        Adapters that read the constant alone are not among them.
        """
        stages = self.forward.network_stages
        if self.tunes == "adapters":
            return tuple(stage.source for stage in stages[self.first :])
        return (stages[-1].source,) * len(self.shape.inputs) if self.tunes == "layer" else ()

    @property
    def takes_sample(self) -> bool:
        """Whether an adapter reads the sample."""
        return any(-1 in own for own in self.tensors)

    @cached_property
    def adapter_words(self) -> tuple[tuple[Word, ...], ...]:
        """Words of each adapter's input; a constant has a row of its own."""
        read = tuple(map(self._input_words, self.tensors))
        if self.tunes == "adapters":
            return read
        words, at = read[0] if read else (), self.shape.inputs[0] - 1
        return ((*words, *self._filling(words), Word(at, 1, 0, ())),) * len(self.shape.inputs)

    def _input_words(self, tensors: Tensors) -> tuple[Word, ...]:
        """Words of an adapter's input; each part of a concatenation begins with a row."""
        words, begin = list[Word](), 0
        for own in map(self._tensor_words, tensors):
            words += self._filling(words)
            words += [replace(word, first=begin + word.first) for word in own]
            begin = words[-1].first + words[-1].count
        return tuple(words)

    def _filling(self, words: Sequence[Word]) -> list[Word]:
        """Empty words behind the last ones of a tensor, to the end of their row."""
        return [Word(0, 0, 0, ())] * (-len(words) % self.words_per_cycle)

    def _tensor_words(self, tensor: int) -> tuple[Word, ...]:
        return self.sample_words if tensor < 0 else self.record_words[tensor]

    @property
    def adapters(self) -> int:
        """Number of adapters."""
        return len(self.adapter_words)

    @property
    def words_per_cycle(self) -> int:
        """Words of an adapter's input that the array takes at once: two where one leaves half of it idle.

        Four, which take a batch memory of twice the blocks, only on 16 columns: of eight the gradients leave as fast as
        the samples of a batch pass.
        """
        idle = self.columns >> (self.rank - 1).bit_length()
        return min(idle, 4 if self.columns == 16 else 2)

    @property
    def ranks(self) -> int:
        """Columns that each word of a row has: the rank, and some that stay zero."""
        return self.columns // self.words_per_cycle

    @cached_property
    def rows_per_adapter(self) -> tuple[int, ...]:
        """Rows of each adapter's input; the last one of an adapter may have fewer words."""
        return tuple(self._rows(words) for words in self.adapter_words)

    def _rows(self, words: Sequence[Word]) -> int:
        return -(-len(words) // self.words_per_cycle)

    @property
    def logit_rows(self) -> int:
        """Rows of a sample's base logits."""
        return self._rows(self.record_words[-1])

    @property
    def logits_per_row(self) -> int:
        """Base logits of a row: all of a sample's, where they fit."""
        return min(self.classes, self.lanes * self.words_per_cycle)

    @property
    def classes_per_cycle(self) -> int:
        """Classes that the logit head takes at once: two where the array takes four words, and a sample has so many."""
        entries = self.classes * self.adapters
        return 2 if self.words_per_cycle == 4 and self.classes <= self.lanes and entries >= _PAIRED_ENTRIES else 1

    @property
    def adapter_rows(self) -> int:
        """Rows of all adapters' inputs, each with a word of parameters."""
        return sum(self.rows_per_adapter)

    @property
    def record_row(self) -> int:
        """First row in the batch memory of what a sample's record gives: behind the sample, where it is there."""
        return self._rows(self.sample_words) if self.takes_sample else 0

    @property
    def sample_rows(self) -> int:
        """Rows of a sample in the batch memory: the adapters' inputs, each once, then the base logits."""
        return self.record_row + sum(map(self._rows, self.batch_words))

    @cached_property
    def row_order(self) -> tuple[int, ...]:
        """Row in the batch memory of each of the adapters' rows, then those of the base logits.

        One behind the other but where an adapter does not read the outputs that lie behind the input of the one before.
        """
        begins = [self.record_row]
        for words in self.batch_words:
            begins.append(begins[-1] + self._rows(words))
        order, base = list[int](), range(self.sample_rows - self.logit_rows, self.sample_rows)
        for number in range(self.adapters):
            for tensor in self.tensors[number] if self.tensors else ():
                begin = 0 if tensor < 0 else begins[tensor - self.first_record]
                order.extend(range(begin, begin + self._rows(self._tensor_words(tensor))))
            if self.tunes != "adapters":
                order.append(base.start)
        return (*order, *base)

    @cached_property
    def constant_rows(self) -> tuple[int, ...]:
        """Rows of the adapters that are a constant 1; what the batch memory has there is not used."""
        ends = np.cumsum(self.rows_per_adapter) - 1
        return () if self.tunes == "adapters" else tuple(ends.tolist())

    @cached_property
    def shape(self) -> AdapterSizes:
        """Shape of the adapters."""
        if self.tunes != "adapters":
            return last_layer_sizes(self.forward.network_stages[-1], self.tunes, self.rank)
        inputs = tuple(stage.inputs for stage in self.forward.network_stages[self.first :])
        return AdapterSizes(inputs, self.classes, self.rank)

    # -- sizes in the memory outside, in beats: `RecordSizes` --------------------------------------------------------

    @property
    def sample_beats(self) -> int:
        """Beats of a sample."""
        return self.forward.sample_beats

    @property
    def _unread_words(self) -> int:
        """Words of a record that no adapter reads, at its begin."""
        return sum(len(words) for words in self.record_words[: self.first_record])

    @property
    def unread_beats(self) -> int:
        """Beats of codes of outputs that no adapter reads, at a record's begin."""
        return self._unread_words * self.word_codes

    @property
    def unread_raw_beats(self) -> int:
        """Beats of outputs in Q8.16 that no adapter reads, at a record's begin."""
        return self._unread_words * self.lanes // 4

    @property
    def word_codes(self) -> int:
        """Beats of a word's codes."""
        return -(-self.lanes // 32)

    @property
    def code_beats(self) -> int:
        """Beats of a record's codes."""
        return sum(map(len, self.record_words)) * self.word_codes

    @property
    def scale_beats(self) -> int:
        """Beats of a record's scales, which follow the codes."""
        return -(-self.scales // SCALES)

    @property
    def record_beats(self) -> int:
        """Beats of a record in NF4."""
        return self.code_beats + self.scale_beats

    @property
    def raw_beats(self) -> int:
        """Beats of a record in Q8.16, four bytes a value."""
        return sum(map(len, self.record_words)) * self.lanes // 4

    @property
    def a_beats(self) -> int:
        """Beats of the matrices A of all adapters, row by row."""
        return self.adapter_rows * self.forward.word_beats

    @property
    def adapter_beats(self) -> int:
        """Beats of the adapters' image: every A, row by row, then B, class by class, a beat for each adapter."""
        return self.a_beats + self.classes * self.adapters

    @property
    def update_cycles(self) -> int:
        """Cycles in which an update writes beats: those of A as many at once as a row has words, those of B alone."""
        entries = 0 if self.shape.selects else self.classes * self.adapters
        return self.a_beats // self.words_per_cycle + entries

    @property
    def logit_beats(self) -> int:
        """Beats of a sample's logits."""
        return -(-self.classes * 4 // BEAT)
