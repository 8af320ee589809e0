"""Memories of a network on the array: activations, parameters, outputs of stages, and those in front of a cut."""

from __future__ import annotations

from dataclasses import replace

from ...axi.bus import BEAT
from ...fixed import Q4_12, Q8_16
from ...memories.plan import MemoryShape
from .mapping import Mapping

BEAT_BITS = 8 * BEAT
MOST_BEAT_ROWS = 2048
"""Most words that are written by the beat where each beat could be waited for."""
_PART_BEATS, _WIDE_BEATS, _ULTRA_PARTS = 9, 64, 2
"""Beats of a part of a word of weights, and of a word of 512; parts of such a word that may be UltraRAM: 16 blocks of
144 bits, what a batch memory of four words leaves of a KV260's."""
_OUTPUT_LUT_ROWS = 32
"""Most outputs of a column and side in LUT RAM."""


def parameter_memory(
    name: str, words: int, lanes: int, columns: int, beats_per_write: int = 1, frozen: bool = False
) -> MemoryShape:
    """Memories of words of parameters for the whole array: one for each beat, or one of whole words.

    Those of `frozen` parameters are written by the word: a beat's 128 bits would leave a ninth of two block RAMs empty.
    In LUT RAM nothing is wasted by the beat. With 8 columns that is more rows, as so many block RAMs would lie idle.
    """
    beats, lut_rows = lanes * columns * Q4_12.width // BEAT_BITS, 32 if columns <= 4 else 128
    whole = beats_per_write == 1 and words > (lut_rows if frozen else MOST_BEAT_ROWS)
    return MemoryShape(
        name, words, BEAT_BITS * (beats if whole else 1), 1 if whole else beats, lut_rows=lut_rows, ultra=True
    )


def weight_memories(mapping: Mapping) -> tuple[MemoryShape, ...]:
    """Frozen weights: memories that stand side by side in a word, or one for each beat.

    Nine beats fill 16 block RAMs, so that as many are written at once. Words of 512 parameters would take 114 of them,
    however few they are. The last part of such a word may be UltraRAM, whose two ports serve one address, as weights
    are written only between samples.
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
    """Banks of the activation memory, one for each lane."""
    rows = -(-mapping.activation_values // mapping.lanes)
    return MemoryShape("activations", rows, Q8_16.width, mapping.lanes, lut_rows=0, ultra=True)


def bias_memory(mapping: Mapping) -> MemoryShape:
    """Biases, a group of output channels in a word."""
    return MemoryShape("biases", mapping.groups, mapping.columns * Q4_12.width)


def output_memory(mapping: Mapping, kept: int = 0) -> MemoryShape:
    """Banks of the output memory, one for each column, with a half for each side, for stages from `kept` on."""
    dropped = mapping.stages[kept].output
    rows = mapping.output_depth - dropped
    depth = rows if mapping.sides == 1 else 2 << (rows - 1).bit_length()
    lut_rows = mapping.sides * _OUTPUT_LUT_ROWS if dropped else 0
    return MemoryShape("outputs", depth, Q8_16.width, mapping.columns, lut_rows=lut_rows, ultra=True)


def cut_memory(mapping: Mapping, rows: int) -> MemoryShape:
    """Outputs of all columns in front of a cut, with a mask and their address in the activation memory."""
    width = mapping.columns * (Q8_16.width + 1) + (mapping.activation_values - 1).bit_length()
    return MemoryShape("outputs before the cut", rows, width, one_address=True, lut_rows=0, ultra=True)


def network_memories(mapping: Mapping, kept: int = 0) -> tuple[MemoryShape, ...]:
    """Memories of a forward engine that keeps the outputs of stages from number `kept` on."""
    weights = weight_memories(mapping)
    return activation_memory(mapping), *weights, bias_memory(mapping), output_memory(mapping, kept)


def target_memory(mapping: Mapping) -> MemoryShape:
    """Samples whose losses are not known yet, by the beat: those in the forward engine, and one."""
    return MemoryShape("targets", (mapping.sample_buffers + 1) * mapping.sample_beats, BEAT_BITS, ultra=True)
