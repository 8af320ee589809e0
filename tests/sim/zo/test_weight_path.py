"""The weight path and its corrections, axis by axis: crowded beats, none, either sign, wrong streams."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.zo.sparse_add import SparseAddSpec
from fabtune.golden.zo.weight_path import WeightPathSpec
from fabtune.sim.phase import Phase
from fabtune.sim.verify import verify_phases

NOTHING = np.zeros(0, np.int64)
BEATS = 20
ADD = SparseAddSpec(lanes=8)
EVERY = np.arange(BEATS * 8)
ONE_A_BEAT = np.arange(0, BEATS * 8, 9)
CROWDED = np.concatenate([EVERY[:3], EVERY[80:88], EVERY[-8:]])
CORRECTIONS = {"none": NOTHING, "one a beat": ONE_A_BEAT, "every lane": EVERY, "crowded": CROWDED}
CYCLES = {"none": BEATS + 6, "one a beat": BEATS + 6, "every lane": BEATS * 8 + 6, "crowded": BEATS + 16 + 6}
WRONG = {
    "falling": [0, 30, 29, 31, 2, 159],
    "twice": [7, 7, 7, 8, 8],
    "beyond": [3, 160, 161, 159, 500],
    "all beyond": [1 << 31, (1 << 32) - 1],
    "highest first": [159, 0, 1, 2],
    "beyond from the last lane on": [158, 159, 160, 161],
}


def check(spec, jobs, cycles, simulator):
    """Jobs in sequence, the first after reset, each with its cycles."""
    counts = [len(next(iter(job.values()))["last"]) for job in jobs]
    phases = [
        Phase(job, spec.run(job, count), reset=number == 0, cycles=taken, quiet=True)
        for number, (job, count, taken) in enumerate(zip(jobs, counts, cycles, strict=True))
    ]
    verdict = verify_phases(spec, phases, simulator)
    assert (verdict.failures, verdict.differences) == ((), ())
    assert verdict.passed


def dense(rng, packets):
    return {"weight": rng.integers(-32768, 32768, (packets * BEATS, 8)), "last": last_flags([BEATS] * packets)}


def test_corrections_and_their_cycles(fast_simulator):
    rng = np.random.default_rng(0)
    jobs = []
    for indices in CORRECTIONS.values():
        values = rng.integers(-32768, 32768, len(indices))
        jobs.append({"i": dense(rng, 1), "sparse": ADD.sparse_words(indices, values, BEATS * 8)})
    check(ADD, jobs, CYCLES.values(), fast_simulator)


def test_wrong_corrections_are_dropped_and_told_and_nothing_hangs(fast_simulator):
    rng = np.random.default_rng(1)
    jobs = []
    for indices in WRONG.values():
        # followed by a packet with a single, correct correction
        index = np.array([*indices, 5])[:, None]
        sparse = {
            "index": index,
            "value": rng.integers(-32768, 32768, index.shape),
            "last": last_flags([len(indices), 1]),
        }
        jobs.append({"i": dense(rng, 2), "sparse": sparse})
        assert ADD.run(jobs[-1], 2 * BEATS)["o"]["error"][BEATS - 1 :: BEATS, 0].tolist() == [1, 0]
    check(ADD, jobs, [ADD.cycles(job) for job in jobs], fast_simulator)


@pytest.mark.parametrize("kind", CORRECTIONS)
def test_each_sign_with_each_kind_of_corrections(kind, fast_simulator):
    rng = np.random.default_rng(2)
    spec = WeightPathSpec(lanes=8, numbers=8, eps_shift=4)
    indices = CORRECTIONS[kind]
    jobs = []
    for sign in (1, -1, 0):
        values = rng.integers(-32768, 32768, len(indices))
        codes, scales = rng.integers(0, 16, BEATS * 8).astype(np.uint8), rng.integers(0, 32768, BEATS * 8 // 32)
        numbers = rng.integers(-2048, 2048, (BEATS if sign else 0, 8))
        jobs.append(spec.packet(codes, scales, 32, indices, values, sign) | {"u": {"number": numbers}})
    check(spec, jobs, [CYCLES[kind] + 1] * 3, fast_simulator)
