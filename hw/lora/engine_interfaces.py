"""Interfaces of the adapter engine on the array, with its memories."""

import enum

from amaranth.hdl import Shape, ShapeLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.lora.mapping import AdapterMapping
from ..nn.interfaces import ACTIVATION, BEAT_BITS, PARAMETER

VALUES = BEAT_BITS // PARAMETER.width
"""Parameters of a beat."""


class AdapterWrite(wiring.Signature):
    """Write of A or B, between batches.

    Members
    -------
    a : Out(words_per_cycle)
        Write enables of A, a bit for each of `beats`.
    b : Out(1)
        Write the first beat to B.
    address : Out(range(adapter_beats))
        Index of the beat in A or B; with several beats, of any of them.
    beats : Out(128 * words_per_cycle)
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
    """Updated beats of the adapters' image.

    Members
    -------
    write : Out(words_per_cycle)
        Valid beats of `beats` in this cycle.
    address : Out(range(adapter_beats))
        Index of the first beat in the image.
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
    """Results of a batch's forward pass, in sample order; no handshake.

    Members
    -------
    hidden_valid : Out(1)
        `hidden` has the hidden values of the next adapter, sample by sample.
    hidden : Out, array of ranks Q8.16
    base_valid : Out(1)
        `base` has the next row of base logits. A single row comes at least two cycles before the sample's last hidden
        values.
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
    """Read of a row of the batch memory: targets of an autoencoder's outputs.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    address : Out(range(2 * batch * sample_rows))
    free : In(1)
        The row at `address` is read in this cycle.
    values : In, array of logits_per_row Q8.16
        The row, a cycle later.
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
    """Write of entry class * adapters + adapter of B, between batches or in an update.

    Members
    -------
    enable : Out(1)
    address : Out(range(classes * adapters))
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
    """Read of the adapters' parameters between batches, through the operand registers of the updaters.

    Members
    -------
    part : Out(range(word_beats / words_per_cycle))
        Part of the row of A read in the next cycle: `words_per_cycle` beats.
    of_b : Out(1)
        In place of the first beat, the entry of B read in the next cycle; not during a batch.
    beats : In(words_per_cycle * 128)
        Beats, two cycles later.
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
    """Read of entry class * adapters + adapter of B and of its gradient.

    Parameters
    ----------
    sum_width : int
        Bits of a gradient.

    Members
    -------
    address : Out(range(classes * adapters))
        Not during the computation of logits.
    value : In, array of ranks Q4.12
        The entry, a cycle later.
    gradient : In, array of ranks integers, 28 fraction bits
        Gradient of the batch, a cycle later.
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
    """Read of the hidden values' gradient, entry sample * adapters + adapter.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    address : Out(range(batch * adapters))
    value : In, array of ranks Q4.12
        The gradient, a cycle later.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        super().__init__(
            {
                "address": Out(range(batch * mapping.adapters)),
                "value": In(data.ArrayLayout(PARAMETER, mapping.ranks)),
            }
        )


class BatchWrite(wiring.Signature):
    """Write to the batch memory.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    enable : Out(words_per_cycle)
        Write enable of each word of the row.
    address : Out(range(2 * batch * sample_rows)); with `AdapterMapping.loads_apart` an array, one for each word
        Row.
    words : Out, `lanes` x `words_per_cycle` values in Q8.16
        Words of the row.
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
    """Destination of parameters: a bit of `ParameterWrite.kind`."""

    WEIGHT = 1
    BIAS = 2
    A = 4
    B = 8


class ParameterWrite(wiring.Signature):
    """Write of a beat of parameters.

    Members
    -------
    kind : Out(4)
        Memory to write in this cycle, a bit of `ParameterKind`; 0 for none.
    address : Out(range(parameter_beats))
        Index of the beat in the memory.
    beat : Out(128)
        Eight parameters in Q4.12, the first in the lowest bits.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__({"kind": Out(4), "address": Out(range(parameter_beats(mapping))), "beat": Out(128)})


class AdapterRead(wiring.Signature):
    """Read of a beat of the adapters' image, between batches.

    Members
    -------
    address : Out(range(adapter_beats))
        Index of the beat in the image.
    beat : In(128)
        The beat, `LATENCY` cycles later.
    """

    LATENCY = 3

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__({"address": Out(range(mapping.adapter_beats)), "beat": In(128)})


def parameter_beats(mapping: AdapterMapping) -> int:
    """Beats of the longer image: the frozen parameters or the adapters."""
    return max(mapping.forward.frozen_beats, mapping.adapter_beats)
