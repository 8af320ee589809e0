"""Interfaces of the adapter engine and of its backward half."""

import enum

from amaranth.hdl import Shape, ShapeLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.lora.mapping import AdapterMapping
from ..nn.interfaces import ACTIVATION, BEAT_BITS, PARAMETER

VALUES = BEAT_BITS // PARAMETER.width
"""Parameters of a beat."""


class AdapterWrite(wiring.Signature):
    """A write of parameters A or B, between batches.

    Parameters
    ----------
    mapping : AdapterMapping

    Attributes
    ----------
    a : Out, words_per_cycle
        The beats of `beats` that are written to A.
    b : Out, 1
        The first beat is written to B.
    address : Out, range(adapter_beats)
        Number of the beat in A or in B; of several neighbours that of any.
    beats : Out, 128 * words_per_cycle
        Eight parameters a beat.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        words = mapping.words_per_cycle
        super().__init__(
            {
                "a": Out(words),
                "b": Out(1),
                "address": Out(range(mapping.adapter_beats)),
                "beats": Out(BEAT_BITS * words),
            }
        )


class AdapterUpdates(wiring.Signature):
    """Beats of the adapters' image that an update changes.

    Parameters
    ----------
    mapping : AdapterMapping

    Attributes
    ----------
    write : Out, words_per_cycle
        The beats of `beats` that are there in this cycle.
    address : Out, range(adapter_beats)
        Number of the first beat in the image.
    beats : Out, array of 8 * words_per_cycle Q4.12
        Updated parameters.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        words = mapping.words_per_cycle
        super().__init__(
            {
                "write": Out(words),
                "address": Out(range(mapping.adapter_beats)),
                "beats": Out(data.ArrayLayout(PARAMETER, VALUES * words)),
            }
        )


class ForwardValues(wiring.Signature):
    """Results of a batch's forward pass, in the order of its samples; no handshake.

    Parameters
    ----------
    mapping : AdapterMapping

    Attributes
    ----------
    hidden_valid : Out, 1
        `hidden` has an adapter's hidden values; adapters in order, sample by sample.
    hidden : Out, array of ranks Q8.16
    base_valid : Out, 1
        `base` has the next row of a sample's base logits. A single row comes at least two cycles before the sample's
        last hidden values.
    base : Out, array of logits_per_row Q8.16
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(
            {
                "hidden_valid": Out(1),
                "hidden": Out(data.ArrayLayout(ACTIVATION, mapping.ranks)),
                "base_valid": Out(1),
                "base": Out(data.ArrayLayout(ACTIVATION, mapping.logits_per_row)),
            }
        )


class TargetRead(wiring.Signature):
    """A read of a row of the batch memory, for the targets of an autoencoder's outputs.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.

    Attributes
    ----------
    address : Out, range(2 * batch * sample_rows)
    free : In, 1
        The row at `address` is read in this cycle.
    values : In, array of logits_per_row Q8.16
        The row, one cycle later.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        super().__init__(
            {
                "address": Out(range(2 * batch * mapping.sample_rows)),
                "free": In(1),
                "values": In(data.ArrayLayout(ACTIVATION, mapping.logits_per_row)),
            }
        )


class BWrite(wiring.Signature):
    """A write of an entry of B, between batches or while the batch is updated; entry class * adapters + adapter.

    Parameters
    ----------
    mapping : AdapterMapping

    Attributes
    ----------
    enable : Out, 1
    address : Out, range(classes * adapters)
    value : Out, array of ranks Q4.12
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(
            {
                "enable": Out(1),
                "address": Out(range(mapping.classes * mapping.adapters)),
                "value": Out(data.ArrayLayout(PARAMETER, mapping.ranks)),
            }
        )


class SavedParameters(wiring.Signature):
    """Parameters of the adapters, as the component sees them that reads them while no batch runs.

    Parameters
    ----------
    mapping : AdapterMapping

    Attributes
    ----------
    part : Out, range(word_beats / words_per_cycle)
        Part of the row of A that is read in the next cycle: so many beats as a row has words.
    of_b : Out, 1
        The first beat is the entry of B that is read in the next cycle; only while no batch runs.
    beats : In, words_per_cycle * 128
        The beats, two cycles later.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        words = mapping.words_per_cycle
        super().__init__(
            {
                "part": Out(range(mapping.forward.word_beats // words)),
                "of_b": Out(1),
                "beats": In(BEAT_BITS * words),
            }
        )


class BRead(wiring.Signature):
    """A read of an entry of B and of its gradient; entry class * adapters + adapter.

    Parameters
    ----------
    mapping : AdapterMapping
    sum_width : int
        Bits of a gradient.

    Attributes
    ----------
    address : Out, range(classes * adapters)
        Only while no logits are computed.
    value : In, array of ranks Q4.12
        The entry, one cycle later.
    gradient : In, array of ranks integers, 28 bits behind the point
        The batch's gradient of it, one cycle later.
    """

    def __init__(self, mapping: AdapterMapping, sum_width: int) -> None:
        super().__init__(
            {
                "address": Out(range(mapping.classes * mapping.adapters)),
                "value": In(data.ArrayLayout(PARAMETER, mapping.ranks)),
                "gradient": In(data.ArrayLayout(signed(sum_width), mapping.ranks)),
            }
        )


class HiddenGradientRead(wiring.Signature):
    """A read of the gradient at an adapter's hidden values; entry sample * adapters + adapter.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.

    Attributes
    ----------
    address : Out, range(batch * adapters)
    value : In, array of ranks Q4.12
        The gradient, one cycle later.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        super().__init__(
            {
                "address": Out(range(batch * mapping.adapters)),
                "value": In(data.ArrayLayout(PARAMETER, mapping.ranks)),
            }
        )


class BatchWrite(wiring.Signature):
    """A write to the batch memory.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.

    Members
    -------
    enable : Out(words_per_cycle)
        Which words of the row to write in this cycle.
    address : Out(range(2 * batch * sample_rows)), or an array of them, one for each word, where words are `apart`
        The row.
    words : Out, `lanes` x `words_per_cycle` values in Q8.16
        The row's words.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        address: ShapeLike = Shape.cast(range(2 * batch * mapping.sample_rows))
        self.apart = mapping.loads_apart
        if self.apart:
            address = data.ArrayLayout(address, mapping.words_per_cycle)
        super().__init__(
            {
                "enable": Out(mapping.words_per_cycle),
                "address": Out(address),
                "words": Out(data.ArrayLayout(ACTIVATION, mapping.lanes * mapping.words_per_cycle)),
            }
        )


class ParameterKind(enum.IntFlag):
    """Memories that parameters are loaded into: a bit each of `ParameterWrite.kind`."""

    WEIGHT = 1
    BIAS = 2
    A = 4
    B = 8


class ParameterWrite(wiring.Signature):
    """A write of a beat of parameters.

    Parameters
    ----------
    mapping : AdapterMapping

    Members
    -------
    kind : Out(4)
        The memory to write in this cycle, a bit of `ParameterKind`; 0 for none.
    address : Out(range(parameter_beats))
        The beat's number in that memory.
    beat : Out(128)
        Eight parameters in Q4.12, the first one lowest.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__({"kind": Out(4), "address": Out(range(parameter_beats(mapping))), "beat": Out(128)})


class AdapterRead(wiring.Signature):
    """A read of a beat of the adapters' image, as the component sees it that saves the image.

    Parameters
    ----------
    mapping : AdapterMapping

    Members
    -------
    address : Out(range(adapter_beats))
        The beat's number in the image.
    beat : In(128)
        The beat, `LATENCY` cycles later, while no batch runs.
    """

    LATENCY = 3

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__({"address": Out(range(mapping.adapter_beats)), "beat": In(128)})


def parameter_beats(mapping: AdapterMapping) -> int:
    """Beats of the longer of the two images of parameters: the frozen network's and the adapters'."""
    return max(mapping.forward.frozen_beats, mapping.adapter_beats)
