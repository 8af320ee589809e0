"""Attention of a pass: sentences in a memory, an operation on them, and the golden contexts."""

import numpy as np

from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.stream.array.array_path import TileKind
from fabtune.golden.stream.array.stationary_load import StationaryLoadSpec
from fabtune.golden.stream.attention import Q6_12, Attention, causal
from fabtune.golden.stream.instruction import Instruction, Kind, RowAddress, shifted_format
from fabtune.golden.stream.softmax.attention_sequencer import Sentence, attention_operation

MANY = 1 << 40


class Pass:
    """Sentences of both sides in a memory with random rows, and an operation on them."""

    def __init__(self, spec, lengths, heads, key_heads, width, causal=0, shifts=(0, 0, 0, 0), seed=0):
        self.spec, self.rng = spec, np.random.default_rng(seed)
        self.heads, self.key_heads, self.width, self.causal, self.shifts = heads, key_heads, width, causal, shifts
        starts = np.cumsum([0, *lengths, *lengths])
        self.sentences = [Sentence(*pair) for pair in zip(starts[:-1].tolist(), [*lengths, *lengths], strict=True)]
        self.stride = int(starts[-1]) + 1
        self.rows = [-(-count * width // spec.lanes) for count in (heads, key_heads, key_heads, heads)]
        firsts = np.cumsum([3, *self.rows])[:4].tolist()
        buffers = (RowAddress(False, first).bits for first in firsts)
        names = ("source", "second", "third", "destination", "source_shift", "second_shift", "third_shift")
        fields = dict(zip((*names, "result_shift"), (*buffers, *shifts), strict=True))
        sizes = {"heads": heads, "key_heads": key_heads, "width": width, "causal": causal}
        factor, fraction = Attention(width).factor
        instruction = Instruction(Kind.ATTENTION, factor=factor, factor_fraction=fraction, **sizes, **fields)
        self.operation = attention_operation(instruction, self.stride, len(self.sentences))
        self.memory = self.rng.integers(-(1 << 17), 1 << 17, (spec.rows, spec.lanes)) >> 3

    def values(self, name, count):
        """Values of a buffer, (rows, features) for `count` heads."""
        base, rows = getattr(self.operation, name), -(-count * self.width // self.spec.lanes)
        parts = [self.memory[base + row * self.stride :][: self.stride - 1] for row in range(rows)]
        return np.concatenate(parts, axis=1)[:, : count * self.width]

    def expected(self):
        """Contexts of all rows, and the number of clipped values."""
        query, key, value, output = self.shifts
        forms = shifted_format(Q8_16, query), shifted_format(Q6_12, key), shifted_format(Q6_12, value)
        head, narrow, found = Attention(self.width, None, *forms, shifted_format(Q8_16, output)), Narrower(), []
        queries, keys, values = (
            self.values(name, count)
            for name, count in (("queries", self.heads), ("keys", self.key_heads), ("values", self.key_heads))
        )
        for first, length in self.sentences:
            q, k, v = (
                each[first : first + length].reshape(length, -1, self.width).swapaxes(0, 1)
                for each in (queries, keys, values)
            )
            k, v = (each.repeat(self.heads // self.key_heads, axis=0) for each in (k, v))
            seen = causal(length, length)[None] if self.causal else None
            contexts = head.context(head.exponents(q, k, narrow, seen), v, narrow, seen)
            found.append(contexts.swapaxes(0, 1).reshape(length, -1))
        return np.concatenate(found), narrow.saturations

    def inputs(self):
        """Words of `operation` and `sentences`."""
        operation = {name: np.array([[value]]) for name, value in self.operation._asdict().items()}
        sentences = np.array(self.sentences)
        return {"operation": operation, "sentences": {"first": sentences[:, :1], "length": sentences[:, 1:]}}


def performed(spec, given):
    """All outputs of the sequencer, with the surrounding blocks' answers to its commands."""
    ((one, blocks),) = spec.operations(given.inputs())
    commands = spec.commands(one, blocks)
    keys, rows, order = (commands[name] for name in ("keys_read", "rows_read", "order"))
    load = {"value": given.memory[keys["address"][:, 0]], **{name: keys[name] for name in ("turn", "part", "zero")}}
    beats = StationaryLoadSpec(lanes=spec.lanes, columns=spec.columns).run({"i": load}, MANY)["o"]["weight"]
    # rows fill all lanes
    order = order | {"used": np.full_like(order["rows"], spec.lanes)}
    inputs = {
        "order": order,
        "rows": {
            "value": given.memory[rows["address"][:, 0]],
            **{name: rows[name] for name in ("row", "first", "last")},
        },
        "terms": {name: np.zeros((0, 1), np.int64) for name in ("weight", "query", "first", "last")},
        "weights": {"weight": beats[:0]},
        "keys": {"weight": beats},
    }
    # weights depend on scores only; then everything in array order
    of_scores = order["kind"][:, 0] == TileKind.SCORES
    tiles = beats.reshape(len(of_scores), -1, beats.shape[1])[of_scores]
    alone = {"order": {name: column[of_scores] for name, column in order.items()}}
    alone |= {"keys": {"weight": tiles.reshape(-1, beats.shape[1])}}
    scores = spec.array.run(inputs | alone, MANY)["scores"]
    softmax = spec.softmax.run({"operation": commands["softmax"], "scores": scores}, MANY)
    sums = spec.array.run(inputs | {"terms": {name: softmax["o"][name] for name in inputs["terms"]}}, MANY)
    assert np.array_equal(sums["scores"]["score"], scores["score"])
    assert np.array_equal(sums["contexts"]["query"], commands["scales"]["query"])
    scaled = {"sum": sums["contexts"]["sum"]} | commands["scales"]
    inverse = {name: softmax["inverse"][name] for name in ("mantissa", "exponent", "last")}
    contexts = spec.scale.run({"inverse": inverse, "i": scaled}, MANY)["o"]
    return given.inputs() | {"inverse": softmax["inverse"], "contexts": contexts}
