"""Logit reader: rows of sentences from the activation memory, value by value."""

import numpy as np
import pytest

from fabtune.golden.stream.memory.chunks import ChunkLayout, ValueAddress
from fabtune.hw.cores.zostream.logit_reader import LogitReader

from ...play import play_interface

CHUNKS = ChunkLayout(lanes=16, columns=4, rows=512, wide_rows=64)
BASE, STRIDE, CLASSES = 40, 20, 24


@pytest.mark.parametrize(("outputs", "sentences", "both", "stall"), [(1, 1, 0, 0.0), (10, 3, 1, 0.0), (24, 4, 1, 0.5)])
def test_rows_of_both_sides_of_each_sentence(outputs, sentences, both, stall):
    rng = np.random.default_rng(outputs)
    values = rng.integers(-(1 << 23), 1 << 23, (2 * sentences, outputs + -outputs % 4))
    memory = {}
    for row, chunks in enumerate(values.reshape(2 * sentences, -1, 4)):
        for group, chunk in enumerate(chunks):
            memory[CHUNKS.chunk(ValueAddress(False, BASE), group, row, STRIDE)] = chunk.tolist()
    dut = LogitReader(CHUNKS, 8, CLASSES)

    async def reads(bench):
        for _ in range(2 * (1 + both) * sentences * values.shape[1] // 4):
            (read,) = await bench.take("operands_read", 1)
            await bench.give("operands", [{"value": memory[read["wide"], read["address"], read["part"]]}])

    async def body(bench):
        for _ in range(2):
            settings = {"base": BASE, "stride": STRIDE, "outputs": outputs, "sentences": sentences, "both": both}
            settings |= {"rows": sentences, "tokens": 1}
            await bench.pulse("start", **settings)
            await bench.until("done")
            assert not bench.get("o.valid")

    seen = play_interface(dut, take={"o": None}, watch={"begins": "number"}, body=[body, reads], stall=stall)
    expected = []
    for sentence in range(sentences):
        for side in range(1 + both):
            row = values[sentence + side * sentences, :outputs].tolist()
            expected += [{"logit": value, "last": at == outputs - 1} for at, value in enumerate(row)]
    assert seen.words("o") == 2 * expected
    assert seen.words("begins") == 2 * list(range(sentences))
    # a sentence begins before its first logit, and after the last logit of the previous sentence
    logits, begins = seen.cycles("o"), seen.cycles("begins")
    width = outputs * (1 + both)
    for number, cycle in enumerate(begins[:sentences]):
        assert seen.before("o", cycle) >= number * width - 3
        assert cycle < logits[number * width]


@pytest.mark.parametrize(("wide", "both", "stall"), [(0, 1, 0.0), (1, 0, 0.4), (1, 1, 0.4)])
def test_rows_of_all_tokens(wide, both, stall):
    rng, lengths, outputs = np.random.default_rng(wide), [2, 1, 3], 6
    rows = sum(lengths)
    values = rng.integers(-(1 << 26), 1 << 26, (2 * rows, 8))
    memory = {}
    for row, chunks in enumerate(values.reshape(2 * rows, -1, 4)):
        for group, chunk in enumerate(chunks):
            memory[CHUNKS.chunk(ValueAddress(bool(wide), BASE), group, row, STRIDE)] = chunk.tolist()
    dut = LogitReader(CHUNKS, 8, CLASSES)

    async def reads(bench):
        for _ in range(2 * (1 + both) * rows):
            (read,) = await bench.take("operands_read", 1)
            await bench.give("operands", [{"value": memory[read["wide"], read["address"], read["part"]]}])

    async def tokens(ctx):
        while True:
            *_, number = await ctx.tick().sample(dut.number)
            ctx.set(dut.tokens, lengths[number % len(lengths)])

    async def body(bench):
        settings = {"base": BASE, "stride": STRIDE, "outputs": outputs, "sentences": len(lengths), "both": both}
        await bench.pulse("start", **settings, rows=rows, wide=wide, waits=1)
        await bench.until("done")

    background = {"body": [body, reads], "background": [tokens], "stall": stall}
    seen = play_interface(dut, take={"o": None}, watch={"begins": "number"}, **background)
    expected = [values[row + side * rows, :outputs].tolist() for row in range(rows) for side in range(1 + both)]
    assert seen.words("o") == [
        {"logit": value, "last": at == outputs - 1} for row in expected for at, value in enumerate(row)
    ]
    assert seen.words("begins") == [0, 1, 2]
    # a sentence begins once the previous sentence was taken completely
    ends = np.cumsum([0, *lengths[:-1]]) * outputs * (1 + both)
    assert [seen.before("o", cycle) for cycle in seen.cycles("begins")] == ends.tolist()
