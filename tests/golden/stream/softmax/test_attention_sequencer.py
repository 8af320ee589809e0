"""`attention_sequencer` with its surrounding blocks computes attention contexts; refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.softmax.attention_sequencer import AttentionOperation, AttentionSequencerSpec, Sentence
from tests.golden.stream.softmax.attention_pass import MANY, Pass, performed

SPEC = AttentionSequencerSpec(lanes=8, columns=4, queries=4, keys=16, rows=1024, wide_rows=128, sums=64)
PASSES = {
    "sentences of different lengths": ([1, 7, 16, 2], 2, 2, 8),
    "causal": ([1, 7, 16, 2], 2, 2, 8, 1),
    "a part": ([5, 3], 3, 3, 4),
    "causal parts": ([9, 1], 3, 3, 4, 1),
    "heads that begin within a row": ([6, 11], 3, 3, 12, 1),
    "several rows": ([3, 9], 1, 1, 24),
    "shared keys": ([10, 1], 4, 2, 8, 1),
    "shared by all": ([5], 3, 1, 16),
    "shifted": ([12, 4], 2, 2, 8, 0, (1, 2, 3, 0)),
    "clipped": ([12, 4], 2, 2, 8, 1, (7, 7, 7, 0)),
}


@pytest.mark.parametrize("name", PASSES)
def test_contexts_are_those_of_attention(name):
    given = Pass(SPEC, *PASSES[name])
    found = SPEC.run(performed(SPEC, given), MANY)
    written, seen = np.zeros((given.stride - 1, given.heads * given.width), np.int64), set()
    for address, part, value in zip(
        *(found["write"][one].tolist() for one in ("address", "part", "value")), strict=True
    ):
        line, row = divmod(address[0] - given.operation.destination, given.stride)
        at = line * SPEC.lanes + part[0] * SPEC.columns
        written[row, at : at + SPEC.columns] = value
        seen.add((row, at))
    contexts, clipped = given.expected()
    assert len(seen) == len(found["write"]["address"]) == contexts.size // SPEC.columns
    assert np.array_equal(written, contexts)
    assert found["done"]["clipped"].tolist() == [[clipped]]
    assert (clipped > 0) == (name == "clipped")


def test_a_sentence_has_no_more_tokens_than_the_softmax_has_keys():
    with pytest.raises(UserError, match="a sentence of 17 tokens: one has 1 to 16"):
        SPEC.operations(Pass(SPEC, [17], 1, 1, 8).inputs())


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((3, 2, 8), "3 heads of queries for 2 of keys"),
        ((2, 2, 6), "heads of 6 features, which are not a multiple of 4"),
        ((4, 2, 4), "heads of 4 features, which are not a multiple of 8"),
    ],
)
def test_heads_that_do_not_fit(heads, message):
    one = AttentionOperation(*heads, *[0] * 13)
    with pytest.raises(UserError, match=message):
        list(SPEC.blocks(one, [Sentence(0, 1)]))


def test_rows_of_partial_sums_hold_scores_and_contexts():
    with pytest.raises(UserError, match="to half of sums = 64"):
        AttentionSequencerSpec(sums=64)
