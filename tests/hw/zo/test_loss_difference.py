"""`loss_difference`: latency of a single pair, and inputs accepted while the word or the label waits."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.zo.loss_difference import LossDifferenceSpec
from fabtune.hw.zo.loss_difference import LossDifference

from ..play import play_interface


def pairs_of(lengths, seed=0):
    """Payloads of logits and labels of random pairs."""
    rng = np.random.default_rng(seed)
    flags = last_flags(np.repeat(lengths, 2).tolist())[:, 0].tolist()
    logits = [{"logit": int(rng.integers(-(1 << 20), 1 << 20)), "last": last} for last in flags]
    return logits, [{"label": int(rng.integers(length))} for length in lengths]


def expected(spec, logits, labels):
    """Words of the model."""
    inputs = {
        name: {field: np.array([word[field] for word in words])[:, None] for field in words[0]}
        for name, words in (("i", logits), ("label", labels))
    }
    result = spec.run(inputs, len(labels))["o"]
    return [{name: int(column[at, 0]) for name, column in result.items()} for at in range(len(labels))]


@pytest.mark.parametrize(("classes", "length"), [(1, 1), (2, 1), (2, 2), (10, 3), (10, 10), (256, 7), (256, 256)])
def test_latency_of_a_lone_pair(classes, length):
    spec = LossDifferenceSpec(classes=classes)
    logits, labels = pairs_of([length])
    seen = play_interface(LossDifference(spec), {"i": logits, "label": labels}, {"o": 1})
    assert seen["o"][0][0] - seen["i"][-1][0] == spec.latency_of(length)
    assert seen.words("o") == expected(spec, logits, labels)


def test_two_pairs_are_taken_while_a_label_is_missing():
    spec = LossDifferenceSpec(classes=3)
    logits, labels = pairs_of([3] * 4)
    streams = {"give": {"i": logits, "label": labels}, "take": {"o": 4}, "begin": {"label": 300, "o": 600}}
    seen = play_interface(LossDifference(spec), **streams, watch={"o.valid": None})
    assert seen.words("o") == expected(spec, logits, labels)
    assert seen.cycles("o.valid")[0] >= 300
    assert seen.before("i", 300) == 12
    # the first pair's products are finished; its word and the next pair wait
    assert seen.before("i", 600) == 18
    assert seen.before("label", 600) <= 1


@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_the_next_plus_side_is_taken_before_the_word_is_formed(stall):
    spec = LossDifferenceSpec()
    logits, labels = pairs_of([10] * 5)
    seen = play_interface(LossDifference(spec), {"i": logits, "label": labels}, {"o": 5}, stall=stall, seed=3)
    assert seen.words("o") == expected(spec, logits, labels)
    for number in range(4):
        assert seen["i"][20 * number + 29][0] < seen["o"][number][0]
    if not stall:
        assert seen["o"][-1][0] - seen["i"][0][0] + 1 == spec.cycles([10] * 5)
