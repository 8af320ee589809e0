"""Step updates: the address sequences of a step against golden's scalars and saturated sums."""

import numpy as np
import pytest

from fabtune.golden.fixed import Narrower
from fabtune.golden.zo.coefficient import COEFFICIENT
from fabtune.golden.zo.scalars import Scalars
from fabtune.golden.zo.split import Split
from fabtune.hw.zo.deltas.walks import WalkRange
from fabtune.hw.zo.steps.step_updates import StepUpdates

from ...play import play_interface

SPLITS = [Split(), Split(first=4), Split(1, 2, 8), Split(1, 16, 4), Split(1, 1, 1)]


def expected(coefficients, split, scalars):
    """Range and coefficient of each address sequence, and the number of clipped sums."""
    narrow, walks = Narrower(), []
    given = Scalars.of(coefficients).coefficients if scalars else coefficients
    own = [int(narrow(np.array(one), 0, COEFFICIENT)) for one in given]
    for i in range(split.first):
        mine = own[i * split.second : (i + 1) * split.second]
        if split.cut:
            walks.append((WalkRange.FIRST, int(narrow(np.array(sum(mine)), 0, COEFFICIENT))))
        walks += [(WalkRange.SECOND if split.cut else WalkRange.ALL, one) for one in mine]
    return walks, narrow.saturations


def steps_of(split, rng):
    """Coefficients of steps of different sizes, including coefficients rounded up to another shift, and the largest."""
    edges = [0, 1, 126, 127, 128, 129, 254, 255, 256, 509, 510, 511, (255 << 10) - 1, 255 << 10, 127 << 19]
    edges += [COEFFICIENT.maximum, -COEFFICIENT.minimum - 2, (1 << 25) + (1 << 18), 3 << 20]
    for edge in edges:
        values = rng.integers(-edge - 1, edge + 1, split.slopes)
        values[rng.integers(split.slopes)] = edge * rng.choice([-1, 1])
        yield [int(one) for one in np.clip(values, COEFFICIENT.minimum, COEFFICIENT.maximum)]
    yield [COEFFICIENT.minimum] * split.slopes
    yield [COEFFICIENT.maximum] * split.slopes


@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize(
    "split",
    [SPLITS[0], SPLITS[2], *(pytest.param(one, marks=pytest.mark.slow) for one in (SPLITS[1], *SPLITS[3:]))],
    ids=str,
)
def test_walks_of_a_step(split, scalars):
    steps = list(steps_of(split, np.random.default_rng(3)))
    clipped = 0

    async def body(bench):
        nonlocal clipped
        for step in steps:
            await bench.give("coefficient", step)
            await bench.tick(2)
            await bench.pulse("start")
            walks, clips = expected(step, split, scalars)
            for number, walk in enumerate(walks):
                while not bench.get("walk.valid"):
                    await bench.tick()
                await bench.tick(3)
                found = bench.get("walk.payload")
                assert (found["range"], found["coefficient"]) == walk
                assert found["final"] == (number == len(walks) - 1)
                bench.set(moved=1)
                assert bench.get("done") == (number == len(walks) - 1)
                await bench.pulse("moved")
            assert sum(bench.seen.fresh("clipped")) == clips
            clipped += clips

    wires = {"first": split.first, "second": split.second, "cut": split.cut > 0, "scalars": scalars, "walk.ready": 1}
    play_interface(StepUpdates(), watch={"clipped": None}, body=body, wires=wires)
    assert (clipped > 0) == (scalars or (split.cut > 0 and split.second > 1))
