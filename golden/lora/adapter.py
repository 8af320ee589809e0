"""`adapter`: the trainable part of a network, adapters to the logits with forward pass and update.

Inputs per sample: the adapters' inputs and the base logits. Outputs: the logits of the tuned network and, after a
batch, all updated parameters. Integers as `adapters.Adapters` and `softmax.SoftmaxTables`, as in `job.Job`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ..block import Field, Spec, Stream, Words, described, joined, last_flags
from ..errors import UserError, check_range
from ..fixed import Q4_12, Q8_16, Format, Integers, Narrower
from ..memories.plan import MemoryShape
from ..models.layers import Linear
from ..models.network import Network
from ..nn.arithmetic.loss import Loss
from ..nn.arithmetic.products import product_of
from ..nn.celoss import LABEL
from ..nn.layer_block import VALUES, check_beats
from ..nn.softmax import SoftmaxTables
from ..rng.urng import BIT
from .adapters import MAXIMUM_RATE, Adapters
from .mapping import AdapterMapping
from .memories import backward_memories
from .memory_layout import adapters_image, adapters_of
from .mseloss import mse_gradient

RATE = Format.up_to(MAXIMUM_RATE)


class AdapterBatch(NamedTuple):
    """Batch: inputs of each adapter (n, inputs) and base logits (n, classes), Q8.16; labels; rate of a sample."""

    read: list[Integers]
    base: Integers
    labels: Integers
    rate: int


@dataclass(frozen=True, kw_only=True)
class AdapterSpec(Spec):
    """Parameters and model of `adapter`.

    Parameters
    ----------
    inputs : tuple of int
        Number of input values of each adapter. Refused: more than 16 of them; outside 1 to 16384.
    classes : int
        Number of logits. Refused: below 2; with `loss` = `cross_entropy` more than 256: a label has eight bits.
    rank : int
        Rank of each adapter. Refused: more than `columns`; more than 8, because a class's part of B is a beat of eight
        values.
    batch : int
        Maximum number of samples in a batch, 2 to 256.
    lanes : int
        Inputs multiplied per cycle, a power of two. Refused: anything but 16 and 32.
    columns : int
        Ranks with multipliers of their own, a power of two. Refused: anything but 2, 4, 8, 16.
    loss : str
        Loss of labels, or `mse`: the squared error of an autoencoder, whose targets are the first adapter's inputs.
        Refused: with `mse` other `classes` than the first of `inputs`, more than 16,384.
    """

    name: ClassVar[str] = "adapter"
    summary: ClassVar[str] = "low-rank adapters that feed the logits: forward, softmax, gradients, update"
    presets: ClassVar[dict[str, dict[str, object]]] = {"lenet5": {"inputs": (784, 1176, 400, 120, 84)}}

    inputs: tuple[int, ...] = (120, 84)
    classes: int = 10
    rank: int = 4
    batch: int = 20
    lanes: int = 32
    columns: int = 4
    loss: Loss = "cross_entropy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.inputs) <= 16 or not 1 <= min(self.inputs) <= max(self.inputs) <= 1 << 14:
            raise UserError(f"inputs = {self.inputs} are not 1 to 16 numbers of 1 to {1 << 14}")
        check_range("batch", self.batch, 2, 256)
        if self.classes < 2:
            raise UserError(f"classes = {self.classes} is not 2 or more")
        check_beats(self.mapping.adapter_beats)

    @cached_property
    def mapping(self) -> AdapterMapping:
        """Mapping of inputs and parameters onto the memories."""
        return AdapterMapping.of(self.network, 0, self.rank, self.lanes, self.columns, False, loss=self.loss)

    @cached_property
    def network(self) -> Network:
        """Network of the adapters: fully connected layers with their inputs."""
        first, *others = self.inputs
        return Network(self.name, (first,), (*(Linear(count) for count in others), Linear(self.classes)))

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Memories of the backward engine with a single batch."""
        return tuple(backward_memories(self.mapping, self.batch, halves=1))

    @property
    def rows(self) -> int:
        """Rows of a sample: the adapters' inputs, then the base logits."""
        return self.mapping.adapter_rows + self.mapping.logit_rows

    @property
    def row(self) -> int:
        """Values of a row."""
        return self.lanes * self.mapping.words_per_cycle

    # -- the block -------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        """Streams: `load`, `label`, `i` in, `logits` and `o` out."""
        beats = (Field("parameter", Q4_12, VALUES * self.mapping.words_per_cycle),)
        return described(
            {
                "load": Stream(
                    "in",
                    beats,
                    doc="The image of the adapters: of A a beat for each word of a row at once, of B one beat alone.",
                ),
                "label": Stream(
                    "in",
                    (
                        Field("label", LABEL, doc="its class; with `mse` it counts for nothing"),
                        Field(
                            "rate",
                            RATE,
                            doc="learning rate of a sample, 20 fraction bits (`adapters.rate_of`); the last sample's"
                            " counts",
                        ),
                        Field("last", BIT),
                    ),
                    doc="A sample's ``label`` and learning ``rate``, ``last`` on the batch's last one.",
                ),
                "i": Stream(
                    "in",
                    (Field("x", Q8_16, self.row),),
                    doc="A sample's rows: the adapters' inputs, then the base logits.",
                ),
                "logits": Stream(
                    "out",
                    (Field("logit", Q8_16), Field("last", BIT)),
                    doc="``logit`` in Q8.16, ``last`` on a sample's last one.",
                ),
                "o": Stream("out", beats, doc="Updated parameters, as `load` takes them."),
            },
            {
                "label.last": "the batch ends with this sample; it does with the `batch`th in any case",
            },
        )

    def load_words(self, adapters: Adapters) -> Words:
        """Words of `load` and `o`: a beat of A for all words of a row, a beat of B per class."""
        words = self.mapping.words_per_cycle
        image = adapters_image(self.mapping, adapters).view("<i2").astype(np.int64)
        a, b = np.split(image, [self.mapping.a_beats * VALUES])
        b = np.pad(b.reshape(-1, VALUES), ((0, 0), (0, VALUES * (words - 1))))
        return {"parameter": np.concatenate([a.reshape(-1, VALUES * words), b])}

    def batch_words(self, batch: AdapterBatch) -> dict[str, Words]:
        """Words of `label` and `i` for a batch."""
        count = len(batch.labels)
        padded = [np.pad(values, ((0, 0), (0, -values.shape[1] % self.row))) for values in (*batch.read, batch.base)]
        labels = {"label": batch.labels[:, None], "rate": np.full((count, 1), batch.rate), "last": last_flags([count])}
        return {"label": labels, "i": {"x": np.concatenate(padded, axis=1).reshape(-1, self.row)}}

    def tune(self, adapters: Adapters, batch: AdapterBatch) -> dict[str, Words]:
        """Output words for a batch; updates the adapters in place."""
        product, narrow = product_of("int64"), Narrower()
        h = adapters.hidden(batch.read, product, narrow)
        logits = adapters.logits(batch.base, h, product, narrow)
        if self.loss == "mse":
            gradient = mse_gradient(logits, batch.read[0], narrow)
        else:
            gradient = SoftmaxTables().gradient(logits, batch.labels)
        adapters.update(batch.read, h, gradient, batch.rate, product, narrow)
        logit_words = {"logit": logits.reshape(-1, 1), "last": last_flags([self.classes] * len(logits))}
        return {"logits": logit_words, "o": self.load_words(adapters)}

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Load parameters, then run all complete batches."""
        a, b = np.split(inputs["load"]["parameter"], [self.mapping.a_beats // self.mapping.words_per_cycle])
        image = np.concatenate([a.reshape(-1), b[:, :VALUES].reshape(-1)])
        adapters = adapters_of(self.mapping, image.astype("<i2").view(np.uint8))
        ends = (np.flatnonzero(inputs["label"]["last"][:, 0]) + 1).tolist()
        results = [self.tune(adapters, self._batch(inputs, *pair)) for pair in zip([0, *ends], ends, strict=False)]
        return {
            port: {name: column[:words] for name, column in fields.items()} for port, fields in joined(results).items()
        }

    def _batch(self, inputs: dict[str, Words], first: int, end: int) -> AdapterBatch:
        """Batch of the samples from `first` up to, but not including, `end`."""
        rows = inputs["i"]["x"][first * self.rows : end * self.rows].reshape(end - first, -1)
        borders = np.cumsum([count * self.row for count in self.mapping.rows_per_adapter])
        *parts, base = np.split(rows, borders, axis=1)
        read = [part[:, :count] for part, count in zip(parts, self.inputs, strict=True)]
        label = inputs["label"]
        return AdapterBatch(read, base[:, : self.classes], label["label"][first:end, 0], int(label["rate"][end - 1, 0]))
