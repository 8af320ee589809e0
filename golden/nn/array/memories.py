"""Memories of a network on the array: activations, parameters, stage outputs, outputs before a cut."""

from __future__ import annotations

from dataclasses import replace

from ...axi.bus import BEAT
from ...fixed import Q4_12, Q8_16
from ...memories.plan import MemoryShape
from .mapping import Mapping

BEAT_BITS = 8 * BEAT
MOST_BEAT_ROWS = 2048
"""Most words of a memory written by the beat."""
_PART_BEATS, _WIDE_BEATS, _ULTRA_PARTS = 9, 64, 2
"""Beats of a part of a weight word and of a word of 512 weights; parts of such a word in UltraRAM: 16 blocks of 144
bits, the rest of a KV260's beside a batch memory of four words."""
_OUTPUT_LUT_ROWS = 32
"""Most outputs of a column and perturbation sign in LUT RAM."""


def parameter_memory(
    name: str, words: int, lanes: int, columns: int, beats_per_write: int = 1, frozen: bool = False
) -> MemoryShape:
    """Memories of parameter words for the whole array: one for each beat of a word, or one of whole words.

    `frozen` parameters are written in whole words, because a beat of 128 bits leaves a ninth of two block RAMs unused.
    In LUT RAM beats waste nothing. From 8 columns on LUT RAM may have more rows, because block RAMs would be nearly
    empty.
    """
    beats, lut_rows = lanes * columns * Q4_12.width // BEAT_BITS, 32 if columns <= 4 else 128
    whole = beats_per_write == 1 and words > (lut_rows if frozen else MOST_BEAT_ROWS)
    return MemoryShape(
        name, words, BEAT_BITS * (beats if whole else 1), 1 if whole else beats, lut_rows=lut_rows, ultra=True
    )


def weight_memories(mapping: Mapping) -> tuple[MemoryShape, ...]:
    """Memories of frozen weights: one for each of several adjacent parts of a word, or one for each beat.

    A part of nine beats fills 16 block RAMs and is written at once. Words of 512 weights would take 114 block RAMs at
    any depth, so their last parts may be in UltraRAM, with one address for both ports: weights are written only between
    samples.
    """
    whole = parameter_memory("weights", mapping.weight_words, mapping.lanes, mapping.columns, frozen=True)
    if whole.count > 1:
        return (whole,)
    beats = whole.width // BEAT_BITS
    if beats <= _PART_BEATS:
        return (whole,)
    ultra = _ULTRA_PARTS if beats == _WIDE_BEATS else 0
    count, rest = divmod(beats - ultra * _PART_BEATS, _PART_BEATS)
    part = replace(whole, width=_PART_BEATS * BEAT_BITS, ultra=not ultra)
    found = (
        replace(part, count=count),
        replace(part, name="weights, short part", width=rest * BEAT_BITS),
        replace(part, name="weights, last parts", count=ultra, one_address=True, ultra=True),
    )
    return tuple(one for one in found if one.count and one.width)


def activation_memory(mapping: Mapping) -> MemoryShape:
    """Banks of the activation memory, one per lane."""
    rows = -(-mapping.activation_values // mapping.lanes)
    return MemoryShape("activations", rows, Q8_16.width, mapping.lanes, lut_rows=0, ultra=True)


def bias_memory(mapping: Mapping) -> MemoryShape:
    """Memory of biases, a group of output channels per word."""
    return MemoryShape("biases", mapping.groups, mapping.columns * Q4_12.width)


def output_memory(mapping: Mapping, kept: int = 0) -> MemoryShape:
    """Banks of the output memory, one per column, for stages from `kept` on; each perturbation sign has a half."""
    dropped = mapping.stages[kept].output
    rows = mapping.output_depth - dropped
    depth = rows if mapping.sides == 1 else 2 << (rows - 1).bit_length()
    lut_rows = mapping.sides * _OUTPUT_LUT_ROWS if dropped else 0
    return MemoryShape("outputs", depth, Q8_16.width, mapping.columns, lut_rows=lut_rows, ultra=True)


def cut_memory(mapping: Mapping, rows: int) -> MemoryShape:
    """Memory of the outputs before a cut; a word has the values of all columns, a mask, an activation address."""
    width = mapping.columns * (Q8_16.width + 1) + (mapping.activation_values - 1).bit_length()
    return MemoryShape("outputs before the cut", rows, width, one_address=True, lut_rows=0, ultra=True)


def network_memories(mapping: Mapping, kept: int = 0) -> tuple[MemoryShape, ...]:
    """Memories of a forward engine that stores stage outputs from `kept` on."""
    weights = weight_memories(mapping)
    return activation_memory(mapping), *weights, bias_memory(mapping), output_memory(mapping, kept)


def target_memory(mapping: Mapping) -> MemoryShape:
    """Memory of targets, one beat per word, for the samples in the forward engine and one more."""
    return MemoryShape("targets", (mapping.sample_buffers + 1) * mapping.sample_beats, BEAT_BITS, ultra=True)
