"""`mse_difference`: latency of a pair, and waits for the target or for the word."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.zo.mse_difference import MseDifferenceSpec
from fabtune.hw.zo.mse_difference import MseDifference

from ..play import play_interface


def pairs_of(spec, count):
    """Payloads of random pairs and their targets, and the model's words."""
    rng, size = np.random.default_rng(count), 2 * count * spec.outputs
    logits, targets = rng.integers(-(1 << 20), 1 << 20, (2, size))
    flags = last_flags([spec.outputs] * (2 * count))
    inputs = {"i": {"logit": logits[:, None], "last": flags}, "target": {"target": targets[:, None]}}
    words = spec.run(inputs, count)["o"]
    return (
        [{"logit": int(logit), "last": int(last)} for logit, last in zip(logits, flags[:, 0], strict=True)],
        [{"target": int(target)} for target in targets],
        [{name: int(column[at, 0]) for name, column in words.items()} for at in range(count)],
    )


@pytest.mark.parametrize("outputs", [1, 2, 5, 33])
def test_latency_and_period(outputs):
    spec = MseDifferenceSpec(outputs=outputs)
    logits, targets, words = pairs_of(spec, 3)
    seen = play_interface(MseDifference(spec), {"i": logits, "target": targets}, {"o": 3})
    assert seen.words("o") == words
    first = seen["i"][0][0]
    assert [cycle - first for cycle, _ in seen["o"]] == [spec.period * number - 1 for number in (1, 2, 3)]
    assert seen["o"][0][0] - seen["i"][2 * outputs - 1][0] == spec.latency


@pytest.mark.parametrize(("waits", "taken"), [("target", 4), ("o", 6)])
def test_nothing_is_taken_without_a_target_or_before_the_word_is(waits, taken):
    """Four targets come at once and the others late, or the first word is taken late."""
    spec = MseDifferenceSpec(outputs=3)
    logits, targets, words = pairs_of(spec, 2)

    async def body(bench):
        await bench.give("target", targets[:4])
        await bench.tick(100 - bench.cycle if waits == "target" else 0)
        await bench.give("target", targets[4:])

    streams = {"give": {"i": logits}, "take": {"o": 2}, "begin": {"o": 100 if waits == "o" else 0}}
    seen = play_interface(MseDifference(spec), **streams, body=body)
    assert seen.words("o") == words
    assert seen.cycles("i") == seen.cycles("target")
    assert seen.before("i", 100) == taken
