"""Mapping of adapters and records onto the core's memories.

A *word* is `lanes` values of a tensor; adapters read their inputs, and a record holds all stages' outputs, in words. A
*row* is the input of a cycle: a word, two words where the rank leaves half of the columns idle, or four where it leaves
three quarters of 16 columns idle.
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
"""Most NF4 blocks, and thus scales, in a word of a record."""
BEAT_PARAMETERS = 8 * BEAT // Q4_12.width
"""Parameters of a beat: the largest rank, as an entry of B takes a beat."""
_PAIRED_ENTRIES = 16
"""Fewest entries of B, classes x adapters, for a logit head with two classes a cycle."""
ZERO_CODE = 7
"""NF4 code of 0, the padding of a record's words."""


@dataclass(frozen=True)
class Word:
    """Part of a tensor, processed in a cycle.

    Parameters
    ----------
    first, count : int
        First value and number of values; other lanes are 0.
    block : int
        NF4 block of the first value, counted over all tensors of a record.
    borders : tuple of int
        First lane of each further block.
    """

    first: int
    count: int
    block: int
    borders: tuple[int, ...]


@dataclass(frozen=True)
class AdapterMapping:
    """Adapters from stages' inputs to the logits, and the records of the forward cache; sizes as `RecordSizes`.

    Parameters
    ----------
    forward : Mapping
        The frozen network.
    first : int
        Index of the first stage with an adapter at its input; all later stages have an adapter, too.
    tunes : "adapters", "layer" or "biases"
        These adapters, or the adapters that tune the last layer's weights and biases, or its biases.
    loss : str
        See `nn.loss`; ``mse`` needs an adapter that reads the sample, which is the target.
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
        """Mapping of a network and its adapters; parameters as of `Mapping` and of this class."""
        return cls(Mapping.of(network, lanes, columns, byte_inputs, pairs="frozen"), first, rank, tunes, loss)

    @property
    def lanes(self) -> int:
        """Inputs of the array in a cycle."""
        return self.forward.lanes

    @property
    def columns(self) -> int:
        """Outputs of the array in a cycle."""
        return self.forward.columns

    @property
    def classes(self) -> int:
        """Logits."""
        return self.forward.network_stages[-1].biases

    @property
    def labels(self) -> int:
        """Number of labels, see `nn.loss.labels_of`."""
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
        """Words of a record for a batch: the adapters' inputs and the base logits."""
        return self.record_words[self.first_record :]

    @cached_property
    def first_record(self) -> int:
        """Index of the first stage whose outputs a batch needs."""
        return min((stage for read in self.tensors for stage in read if stage >= 0), default=len(self.blocks) - 1)

    @property
    def scales(self) -> int:
        """Scales of a record."""
        return sum(count for count, _ in self.blocks)

    @cached_property
    def packed_at_once(self) -> int:
        """Values packed in a cycle: two on 16 columns if a sample has fewer words than its record has values."""
        values = sum(count * length for count, length in self.blocks)
        return 2 if self.columns >= 16 and values > self.forward.cycles else 1

    @cached_property
    def loads_apart(self) -> bool:
        """Whether samples, codes and scales are loaded as parallel streams: with rows of four words."""
        return self.words_per_cycle == 4 and self.takes_sample

    # -- adapters --------------------------------------------------------------------------------------------------

    @property
    def tensors(self) -> tuple[Tensors, ...]:
        """Inputs of each adapter: indices of stages, -1 for the sample; empty if adapters read the constant alone."""
        stages = self.forward.network_stages
        if self.tunes == "adapters":
            return tuple(stage.source for stage in stages[self.first :])
        return (stages[-1].source,) * len(self.shape.inputs) if self.tunes == "layer" else ()

    @property
    def takes_sample(self) -> bool:
        """Whether an adapter reads the sample."""
        return any(-1 in read for read in self.tensors)

    @cached_property
    def adapter_words(self) -> tuple[tuple[Word, ...], ...]:
        """Words of each adapter's input; a constant has a separate row."""
        read = tuple(map(self._input_words, self.tensors))
        if self.tunes == "adapters":
            return read
        words, at = read[0] if read else (), self.shape.inputs[0] - 1
        return ((*words, *self._filling(words), Word(at, 1, 0, ())),) * len(self.shape.inputs)

    def _input_words(self, tensors: Tensors) -> tuple[Word, ...]:
        """Words of an adapter's input; each part of a concatenation begins a new row."""
        words, begin = list[Word](), 0
        for tensor_words in map(self._tensor_words, tensors):
            words += self._filling(words)
            words += [replace(word, first=begin + word.first) for word in tensor_words]
            begin = words[-1].first + words[-1].count
        return tuple(words)

    def _filling(self, words: Sequence[Word]) -> list[Word]:
        """Empty words up to the end of a tensor's last row."""
        return [Word(0, 0, 0, ())] * (-len(words) % self.words_per_cycle)

    def _tensor_words(self, tensor: int) -> tuple[Word, ...]:
        return self.sample_words if tensor < 0 else self.record_words[tensor]

    @property
    def adapters(self) -> int:
        """Adapters."""
        return len(self.adapter_words)

    @property
    def words_per_cycle(self) -> int:
        """Words of an adapter's input in a cycle: 1, 2 or 4, see the module.

        Four words need twice the blocks of batch memory. On 8 columns they gain nothing: gradients leave as fast as the
        samples of a batch pass.
        """
        idle = self.columns >> (self.rank - 1).bit_length()
        return min(idle, 4 if self.columns == 16 else 2)

    @property
    def ranks(self) -> int:
        """Columns of each word of a row: the rank, padded with zeros."""
        return self.columns // self.words_per_cycle

    @cached_property
    def rows_per_adapter(self) -> tuple[int, ...]:
        """Rows of each adapter's input; the last row may have fewer words."""
        return tuple(self._rows(words) for words in self.adapter_words)

    def _rows(self, words: Sequence[Word]) -> int:
        return -(-len(words) // self.words_per_cycle)

    @property
    def logit_rows(self) -> int:
        """Rows of a sample's base logits."""
        return self._rows(self.record_words[-1])

    @property
    def logits_per_row(self) -> int:
        """Maximum number of base logits in a row."""
        return min(self.classes, self.lanes * self.words_per_cycle)

    @property
    def classes_per_cycle(self) -> int:
        """Classes of the logit head in a cycle: two if rows have four words and B has enough entries."""
        entries = self.classes * self.adapters
        return 2 if self.words_per_cycle == 4 and self.classes <= self.lanes and entries >= _PAIRED_ENTRIES else 1

    @property
    def adapter_rows(self) -> int:
        """Rows of all adapters' inputs; each has a word of parameters."""
        return sum(self.rows_per_adapter)

    @property
    def record_row(self) -> int:
        """First row of a sample's record in the batch memory: after the sample, if an adapter reads it."""
        return self._rows(self.sample_words) if self.takes_sample else 0

    @property
    def sample_rows(self) -> int:
        """Rows of a sample in the batch memory: each input of adapters once, then the base logits."""
        return self.record_row + sum(map(self._rows, self.batch_words))

    @cached_property
    def row_order(self) -> tuple[int, ...]:
        """Addresses in the batch memory of the adapters' rows in the order of their use, then of the base logits.

        Addresses increase by 1, except where an adapter does not read the outputs after the previous adapter's input.
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
        """Rows that hold the constant 1 instead of contents of the batch memory."""
        ends = np.cumsum(self.rows_per_adapter) - 1
        return () if self.tunes == "adapters" else tuple(ends.tolist())

    @cached_property
    def shape(self) -> AdapterSizes:
        """Sizes of the adapters."""
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
        """Leading words of a record that no adapter reads."""
        return sum(len(words) for words in self.record_words[: self.first_record])

    @property
    def unread_beats(self) -> int:
        """Leading beats of codes that no adapter reads."""
        return self._unread_words * self.word_codes

    @property
    def unread_raw_beats(self) -> int:
        """Leading beats of a Q8.16 record that no adapter reads."""
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
        """Beats of a record's scales, after the codes."""
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
        """Beats of the adapters' image: every A row by row, then B class by class with a beat for each adapter."""
        return self.a_beats + self.classes * self.adapters

    @property
    def update_cycles(self) -> int:
        """Cycles of an update: `words_per_cycle` beats of A, or one beat of B."""
        entries = 0 if self.shape.selects else self.classes * self.adapters
        return self.a_beats // self.words_per_cycle + entries

    @property
    def logit_beats(self) -> int:
        """Beats of a sample's logits."""
        return -(-self.classes * 4 // BEAT)
