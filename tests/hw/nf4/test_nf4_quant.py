"""RTL of `nf4_quant` with waiting blocks: for thresholds, for memory and for the queue."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec
from fabtune.sim.phase import Phase
from fabtune.sim.verify import verify_phases

RECORD = [*[196] * 6, *[25] * 16, 120, 84, 10]
"""Blocks of a LeNet-5 record."""
SHORT_MEMORY = [*[16] * 9, *[17] * 9, *[18] * 9, *[2] * 5, *[43] * 4, 1, 43, 17, 18]
SHORT_QUEUE = [*[1] * 40, 400, 400, 1, 400]


class Endless(Nf4QuantSpec):
    """Variant whose queue never fills."""

    waiting = 1 << 30


class Vast(Nf4QuantSpec):
    """Variant whose memory never fills."""

    address_bits = 30


@pytest.mark.parametrize(
    ("length", "lengths", "values"),
    [
        (43, SHORT_MEMORY, 1),
        *(pytest.param(*one, 1, marks=pytest.mark.slow) for one in ((196, 2 * RECORD), (400, SHORT_QUEUE))),
        pytest.param(196, RECORD, 2, marks=pytest.mark.slow),
    ],
)
def test_codes_and_cycles(length, lengths, values, fast_simulator):
    spec = Nf4QuantSpec(length=length, values=values)
    last = last_flags(list(map(spec.words, lengths)))
    given = np.random.default_rng(length).integers(-(1 << 23), 1 << 23, (2, len(last), values))
    jobs = [{"i": {"value": part, "last": last}} for part in given]
    if values == 2:
        single = last.copy()
        single[last[:, 0] == 1, 0] = np.array(lengths) % 2
        jobs = [{"i": job["i"] | {"single": single}} for job in jobs]
    wanted = [spec.run(job, len(last)) for job in jobs]
    first = Phase(jobs[0], wanted[0], reset=True, cycles=spec.cycles(lengths), quiet=True)
    verdict = verify_phases(spec, [first, Phase(jobs[1], wanted[1], quiet=True)], fast_simulator)
    assert verdict.passed, verdict


def test_those_blocks_meet_both_limits():
    assert Endless(length=400).cycles(SHORT_QUEUE) < Nf4QuantSpec(length=400).cycles(SHORT_QUEUE)
    assert Vast(length=43).cycles(SHORT_MEMORY) < Nf4QuantSpec(length=43).cycles(SHORT_MEMORY)
