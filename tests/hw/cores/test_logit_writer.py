"""Logit writer: every sample starts on a beat, in order, after its own command."""

import numpy as np
import pytest

from fabtune.hw.cores.logit_writer import LogitWriter

from ..memory import Memory
from ..play import play_interface

JOBS = (0x100, 0x8000)
"""Addresses of two jobs."""


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(("classes", "told"), [(1, False), (3, False), (4, False), (10, False), (10, True)])
def test_logits_are_packed_by_sample(classes, told, stall):
    beats, rng = -(-classes // 4), np.random.default_rng(classes)
    logits = rng.integers(-(1 << 23), 1 << 23, (2, 5, classes))
    dut, store, expected = LogitWriter(0 if told else beats), Memory(stall), Memory()

    async def body(bench):
        for address, samples in zip(JOBS, logits, strict=True):
            await bench.pulse("start", address=address)
            for sample in samples:
                await bench.give("i", [{"logit": one, "last": at == classes - 1} for at, one in enumerate(sample)])
            await bench.until("empty")

    wires = {"sample_beats": beats} if told else {}
    play_interface(dut, body=body, background=[store.writer(dut.write)], wires=wires, stall=stall)
    for address, samples in zip(JOBS, logits, strict=True):
        expected.load(address, np.pad(samples, ((0, 0), (0, 4 * beats - classes))).astype("<i4"))
    assert store.writes == [(base + 16 * beats * at, beats) for base in JOBS for at in range(5)]
    assert store.beats == expected.beats


def test_a_sample_that_has_begun_is_not_empty():
    dut = LogitWriter(1)

    async def body(bench):
        assert bench.get("empty")
        await bench.give("i", [{"logit": 5, "last": 0}])
        for _ in range(5):
            await bench.tick()
            assert not bench.get("empty")

    play_interface(dut, body=body, background=[Memory().writer(dut.write)])
