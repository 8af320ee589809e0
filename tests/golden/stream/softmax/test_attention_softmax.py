"""`attention_softmax` and `context_scale` compute golden attention; order of a causal block; limits."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower
from fabtune.golden.stream.attention import Attention, causal
from fabtune.golden.stream.instruction import shifted_format
from fabtune.golden.stream.softmax.attention_softmax import AttentionSoftmaxSpec, SoftmaxOperation
from fabtune.golden.stream.softmax.context_scale import ContextScaleSpec

SPEC = AttentionSoftmaxSpec(columns=4, lanes=16, queries=8, keys=32)
SCALE = ContextScaleSpec(queries=8, keys=32)


def operation(head, queries, keys, first=0, masked=False, shifts=(0, 0), **others):
    """A word of `operation`."""
    factor, fraction = head.factor
    fields = {"queries": queries, "keys": keys, "first": first, "causal": masked, "factor": factor}
    fields |= {"fraction": fraction, "query_shift": shifts[0], "key_shift": shifts[1], "repeats": head.width // 4}
    return {name: np.array([[int(value)]]) for name, value in (fields | others).items()}


def scores(products, seen):
    """Sums of a block in array order: unattended groups are omitted, keys beyond the end have arbitrary sums."""
    padded = np.pad(products, ((0, 0), (0, -products.shape[1] % 4)), constant_values=1 << 40)
    firsts = range(0, padded.shape[1], 4)
    return np.concatenate([padded[seen[:, first : first + 4].any(axis=1), first : first + 4] for first in firsts])


def contexts(rows, values, inverse):
    """Contexts of a block: array sums by feature group and key tile, then `context_scale`."""
    groups, count = values.shape[1] // 4, len(inverse["last"])
    length = len(rows["query"]) // groups
    exact = np.zeros((groups, count, 4), np.int64)
    for row in range(groups * length):
        group, tile = row // length, rows["swap"][row // length * length + 1 : row + 1, 0].sum()
        own = values[tile * SPEC.lanes : (tile + 1) * SPEC.lanes, 4 * group : 4 * group + 4]
        exact[group, rows["query"][row, 0]] += rows["weight"][row, : len(own)] @ own
    query = np.tile(np.arange(count), groups)[:, None]
    fields = {"sum": exact.reshape(-1, 4), "query": query, "last": last_flags([len(query)])}
    fields |= {name: np.zeros_like(query) for name in ("value_shift", "output_shift")}
    found = SCALE.run({"inverse": inverse, "i": fields}, len(query))["o"]["value"]
    return found.reshape(groups, count, 4).swapaxes(0, 1).reshape(count, -1)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("shifts", "spread"), [((0, 0), 1), ((3, 2), 1), ((0, 0), 40)])
def test_blocks_of_a_sentence_are_the_attention_of_golden(masked, shifts, spread):
    tokens, width, rng = 21, 8, np.random.default_rng(1)
    plain = Attention(width)
    forms = [shifted_format(form, shift) for form, shift in zip((plain.queries, plain.keys), shifts, strict=True)]
    head = Attention(width, 1.0, *forms)
    queries = forms[0].from_float(rng.normal(0, spread, (tokens, width)))
    keys, values = (form.from_float(rng.normal(0, 2, (tokens, width))) for form in (forms[1], head.values))
    seen = causal(tokens, tokens) if masked else np.ones((tokens, tokens), bool)
    counted, clipped = Narrower(), 0
    exponents = head.exponents(queries, keys, counted, seen)
    assert (spread > 1) == (counted.saturations > 0)
    expected = head.context(exponents, values, Narrower(), seen)
    for first in range(0, tokens, SPEC.queries):
        some = slice(first, min(first + SPEC.queries, tokens))
        count = some.stop if masked else tokens
        word = operation(head, some.stop - first, count, first, masked, shifts)
        given = scores((queries[some] @ keys.T)[:, :count], seen[some, :count])
        found = SPEC.run({"operation": word, "scores": {"score": given}}, 1 << 40)
        assert (contexts(found["o"], values[:count], found["inverse"]) == expected[some]).all()
        assert found["o"]["first"].sum() == found["o"]["last"].sum() == (some.stop - first) * width // 4
        clipped += found["inverse"]["clipped"].sum()
    assert clipped == counted.saturations


def test_a_causal_block_leaves_out_what_sees_nothing():
    one = SoftmaxOperation(4, 20, 16, True, (1 << 16, 16), (0, 0), 1)
    assert one.seen.tolist() == [17, 18, 19, 20]
    assert [tuple(tile) for tile in one.tiles(4)] == [(0, 0), (4, 0), (8, 0), (12, 0), (16, 0)]
    early = SoftmaxOperation(8, 8, 0, True, (1 << 16, 16), (0, 0), 1)
    assert [tuple(tile) for tile in early.tiles(4)] == [(0, 0), (4, 4)]
    assert early.pairs(4) == 12


def test_blocks_overlap():
    spec, one = AttentionSoftmaxSpec(), SoftmaxOperation(32, 32, 0, False, (1 << 16, 16), (0, 0), 2)
    # scores and exponentials take 256 cycles each, rows 64
    assert spec.cycles([one] * 10) - spec.cycles([one] * 8) < 256 + 256 + 64 + 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": 3}, "columns = 3"),
        ({"lanes": 128}, "lanes = 128"),
        ({"exponentials": 32, "columns": 64}, "exponentials = 32"),
        ({"exponentials": 8, "columns": 4}, "does not divide columns = 4"),
        ({"exponentials": 4, "lanes": 4}, "not less than lanes = 4"),
        ({"queries": 2048}, "queries = 2048"),
        ({"keys": 16}, "keys = 16"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        AttentionSoftmaxSpec(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": 9}, "9 queries"),
        ({"keys": 0}, "0 keys"),
        ({"repeats": 0}, "0 repeats"),
        ({"masked": True, "first": 3}, "see 11 keys, not 8"),
        ({"fraction": 24}, "not 24"),
    ],
)
def test_operations_that_are_none(changes, message):
    with pytest.raises(UserError, match=message):
        SPEC.operations(operation(Attention(8), **{"queries": 8, "keys": 8} | changes))
