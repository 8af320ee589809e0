"""`coefficient`: every shift with its latency, a late rate, a step while the previous step's word waits."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.zo.coefficient import LARGEST_SHIFT, CoefficientSpec
from fabtune.hw.zo.coefficient import Coefficient

from ..play import play_interface

SPEC = CoefficientSpec()


def expected(steps):
    """Payloads of all streams for steps (differences, rate, shift)."""
    differences = np.concatenate([step[0] for step in steps])
    last = last_flags([len(step[0]) for step in steps])
    rates = {name: np.array([step[at] for step in steps])[:, None] for at, name in ((1, "rate"), (2, "shift"))}
    result = SPEC.run({"i": {"difference": differences[:, None], "last": last}, "rate": rates}, len(steps))["o"]
    sources = {
        "i": [{"difference": int(a), "last": int(b)} for a, b in zip(differences, last[:, 0], strict=True)],
        "rate": [{"rate": int(step[1]), "shift": int(step[2])} for step in steps],
    }
    return sources, [{name: int(column[at, 0]) for name, column in result.items()} for at in range(len(steps))]


def steps_of(shifts, seed=0):
    """Random steps whose products are about as wide as shift and coefficient together, so that many bits matter."""
    rng, steps = np.random.default_rng(seed), []
    for shift in shifts:
        length = int(rng.integers(1, 4))
        bits = min(max(shift + 26 - 16, 3), 39)
        steps.append((rng.integers(-(1 << bits), 1 << bits, length), int(rng.integers(1 << 15, 1 << 16)), shift))
    return steps


def test_latency_for_every_shift():
    sources, words = expected(steps_of(range(LARGEST_SHIFT + 1)))
    seen = play_interface(Coefficient(SPEC), sources, {"o": len(words)})
    assert seen.words("o") == words
    ends = [cycle for cycle, word in seen["i"] if word["last"]]
    assert [cycle - end for end, (cycle, _) in zip(ends, seen["o"], strict=True)] == [
        SPEC.latency_of(shift) for shift in range(LARGEST_SHIFT + 1)
    ]


@pytest.mark.parametrize("shift", [1, 2, 3, 5])
def test_all_small_products(shift):
    """Every remainder, ties among them, above, below and around 0; no rest of a step reaches the next."""
    sources, words = expected([([-number], 1, shift) for number in range(-(3 << shift), (3 << shift) + 1)])
    assert play_interface(Coefficient(SPEC), sources, {"o": len(words)}).words("o") == words


def test_a_step_waits_for_its_rate():
    steps = steps_of([5, 0, 62, 17])
    sources, words = expected(steps)
    dut, count = Coefficient(SPEC), len(steps[0][0])
    seen = play_interface(dut, sources, {"o": len(words)}, after={"rate": ("i", count)}, stall=0.5)
    assert seen.words("o") == words
    assert seen["rate"][0][0] > seen["i"][count - 1][0]
    # no difference of the next step is taken before the word is taken
    assert seen["i"][count][0] > seen["o"][0][0]
