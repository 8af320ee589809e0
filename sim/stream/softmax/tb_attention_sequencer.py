"""Bench of `attention_sequencer`: operations of all kinds and sentences of all lengths, in two jobs."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words, joined, last_flags
from ....golden.fixed import Q8_16
from ....golden.stream.softmax.attention_sequencer import AttentionOperation, AttentionSequencerSpec
from ....golden.stream.softmax.attention_softmax import FRACTIONS, REPEATS
from ...phase import Phase
from ...stimulus import whole_job


def stimulus(spec: AttentionSequencerSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Operations with about `words` reads of keys and values; random reciprocals and contexts."""
    parts: list[dict[str, Words]] = []
    made = 0
    while made < words:
        part, reads = _operation(spec, rng, words - made)
        made += reads
        parts.append(part)
    return joined(parts)


def _wide(spec: AttentionSequencerSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """An operation with 1 head and 1 token; the head is so wide that there are about `words` reads."""
    groups = max(1, words // (2 * (spec.lanes + spec.columns)))
    room = (spec.rows - 2) * spec.lanes // spec.columns
    return _given(spec, rng, (1, 1, spec.columns * min(groups, room, REPEATS.maximum)), [1], stride=1)[0]


def _operation(spec: AttentionSequencerSpec, rng: np.random.Generator, words: int) -> tuple[dict[str, Words], int]:
    key_heads, shared = int(rng.integers(1, 3, endpoint=True)), int(rng.choice([1, 1, 2, 3]))
    size = spec.columns if shared == 1 else spec.lanes
    width = size * int(rng.integers(1, 3, endpoint=True))
    most = int(rng.choice([1, 2, min(spec.keys, spec.sums // 2)]))
    lengths: list[int] = []
    # number of reads of a token for all heads
    reads = key_heads * shared * 2 * (spec.lanes + spec.columns)
    while sum(lengths) < spec.sums and (not lengths or sum(lengths) * reads < words):
        free = spec.sums - sum(lengths)
        lengths.append(min(free, int(rng.choice([1, min(2, most), most, int(rng.integers(1, most, endpoint=True))]))))
    stride = int(rng.integers(sum(lengths), spec.sums, endpoint=True))
    return _given(spec, rng, (key_heads * shared, key_heads, width), lengths, stride)


def _given(
    spec: AttentionSequencerSpec, rng: np.random.Generator, heads: tuple[int, int, int], lengths: list[int], stride: int
) -> tuple[dict[str, Words], int]:
    """Input words of an operation, and the number of memory reads; `heads` = (heads, key heads, features a head)."""
    shifts, causal = rng.integers(0, 8, 4).tolist(), int(rng.integers(2))
    factor = int(rng.integers(1 << 16, 1 << 17)), int(rng.choice(FRACTIONS))
    addresses = rng.integers(0, spec.rows - (heads[0] * heads[2] // spec.lanes + 1) * stride, 4).tolist()
    operation = AttentionOperation._make((*heads, causal, *addresses, stride, len(lengths), *factor, *shifts))
    starts = np.cumsum([0, *lengths[:-1]])
    inputs = {
        "operation": {name: np.array([[value]]) for name, value in operation._asdict().items()},
        "sentences": {"first": starts[:, None], "length": np.array(lengths)[:, None]},
    }
    ((_, blocks),) = spec.operations(inputs)
    commands = spec.commands(operation, blocks)
    tag = commands["scales"]["tag"]
    shape = len(tag), spec.exponentials
    contexts = {
        "value": rng.integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True),
        "clipped": rng.integers(0, 2, shape),
        "tag": tag,
    }
    inverse = {"last": last_flags([block.softmax.queries for block in blocks])}
    for field in spec.streams()["inverse"].fields:
        if field.name != "last":
            inverse[field.name] = rng.integers(0, field.format.maximum, (len(inverse["last"]), 1), endpoint=True)
    return inputs | {"inverse": inverse, "contexts": contexts}, len(commands["keys_read"]["address"])


def scenario(spec: AttentionSequencerSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, the second without a reset and with a very wide head."""
    first, second = (stimulus(spec, rng, words) for _ in range(2))
    second = joined([second, _wide(spec, rng, words)])
    return [whole_job(spec, first), whole_job(spec, second, reset=False)]
