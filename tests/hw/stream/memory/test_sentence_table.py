"""Sentence table: sentences for both perturbation signs, repeated, from the first at each restart; another pass."""

import numpy as np
import pytest

from fabtune.hw.stream.memory.sentence_table import SentenceTable

from ...play import play_interface


def expected(lengths, count):
    """A number of sentences for both perturbation signs, repeated."""
    firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()
    both = [
        (side * sum(lengths) + first, length) for side in (0, 1) for first, length in zip(firsts, lengths, strict=True)
    ]
    return [dict(zip(("first", "length"), both[at % len(both)], strict=True)) for at in range(count)]


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_sentences_of_both_sides(stall):
    dut = SentenceTable(32)
    found = []

    async def body(bench):
        for lengths in ([16], [3, 1, 5], [1] * 16, [2, 4]):
            await bench.pulse("clear")
            bench.set({"rows": sum(lengths), "count": len(lengths)})
            await bench.give("sentence", expected(lengths, len(lengths)))
            await bench.tick(3)
            assert not bench.get("sentences.valid")
            for count in (5, 1, 4 * len(lengths) + 1):
                await bench.pulse("restart")
                assert not bench.get("sentences.valid")
                found.append((await bench.take("sentences", count), expected(lengths, count)))

    play_interface(dut, body=body, stall=stall)
    assert len(found) == 12
    for seen, wanted in found:
        assert seen == wanted


def test_a_sentence_a_cycle_from_two_cycles_behind_restart_on():
    async def body(bench):
        bench.set({"rows": 5, "count": 2})
        await bench.give("sentence", expected([2, 3], 2))
        bench.set({"sentences.ready": 1})
        await bench.pulse("restart")
        for wanted in expected([2, 3], 9):
            await bench.tick()
            assert bench.get("sentences.valid")
            assert bench.get("sentences.payload") == wanted

    play_interface(SentenceTable(16), body=body)
