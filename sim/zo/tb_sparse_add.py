"""Bench of `sparse_add`: packets with no, few, dense and invalid corrections; two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words, last_flags
from ...golden.fixed import Q4_12, Integers
from ...golden.zo.sparse_add import SparseAddSpec
from ..phase import Phase
from ..stimulus import random_lengths, two_jobs


def stimulus(spec: SparseAddSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Packets with no, few and many corrections, some for all lanes of a beat, some invalid."""
    lengths = packet_lengths(rng, words)
    weights = rng.integers(Q4_12.minimum, Q4_12.maximum, (words, spec.lanes), endpoint=True)
    beats = {"weight": weights, "last": last_flags(lengths)}
    if spec.tag:
        beats["tag"] = rng.integers(0, 1 << spec.tag, (words, 1))
    return {"i": beats, "sparse": corrections(spec, rng, lengths)}


def packet_lengths(rng: np.random.Generator, words: int) -> list[int]:
    """Packet lengths with sum `words`: many of up to 60 beats, and one of a quarter of all beats in the middle.

    With a short index, corrections cannot reach the end of the long packet.
    """
    half, long = words * 3 // 8, words // 4
    return [*random_lengths(rng, half, 60), *([long] if long else []), *random_lengths(rng, words - half - long, 60)]


def corrections(spec: SparseAddSpec, rng: np.random.Generator, lengths: list[int]) -> Words:
    """Random corrections, words of stream `sparse`, for packets of these lengths in beats."""
    packets = [_indices(spec, rng, beats) for beats in lengths]
    for number in range(1, len(packets), 4):
        # keep at most two indices, then append one near the packet's end with one upper bit flipped, another bit each
        # time
        bit = spec.index_bits - 1 - number // 4 % (spec.index_bits - spec.lane_bits)
        near, size = packets[number], min(lengths[number] * spec.lanes, 1 << spec.index_bits)
        packets[number] = np.append(near[: rng.integers(3)], int(size - 1 - rng.integers(min(size, 20))) ^ 1 << bit)
    index = np.concatenate(packets)
    value = rng.integers(Q4_12.minimum, Q4_12.maximum, len(index), endpoint=True)
    return {"index": index[:, None], "value": value[:, None], "last": last_flags([len(packet) for packet in packets])}


def _indices(spec: SparseAddSpec, rng: np.random.Generator, beats: int) -> Integers:
    size = min(beats * spec.lanes, 1 << spec.index_bits)
    rates = np.repeat(rng.choice([0, 0.02, 0.2, 1], beats, p=[0.5, 0.3, 0.15, 0.05]), spec.lanes)[:size]
    index = np.flatnonzero(rng.random(size) < rates * rng.choice([0, 1, 1]))
    if rng.random() < 0.2:
        # add indices near the packet's end, some beyond, and swap two
        index = np.append(index, (size + rng.integers(-2, 3, rng.integers(1, 4))) % (1 << spec.index_bits))
        a, b = rng.integers(len(index), size=2)
        index[a], index[b] = index[b], index[a]
    return index if len(index) else rng.integers(size, size=1)


def scenario(spec: SparseAddSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs; the cycles depend on the corrections."""
    return [replace(phase, cycles=spec.cycles(phase.inputs)) for phase in two_jobs(spec, rng, words, stimulus)]
