"""Addresses of the sequencer compared with the stages' loops in plain Python."""

import itertools
from collections import deque
from dataclasses import replace
from functools import reduce

import pytest

from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool
from fabtune.golden.models.network import Network
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.copies import tail_lanes
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.alternating_sequencer import AlternatingSequencer
from fabtune.hw.nn.forward.overlapping_sequencer import OverlappingSequencer
from fabtune.hw.nn.sequencer import Sequencer

from ..play import play_interface

NETWORK = Network("own", (2, 7, 6), (Convolution(5, 2, 1), Relu(), MaxPool(3), Convolution(3, 2), Flatten(), Linear(3)))
WORD = ("address", "weight", "bias", "first", "last", "relu")
DRAIN = 3
VARIATIONS = {
    "base": Mapping.of(NETWORK, lanes=16, columns=2),
    "one group a stage": Mapping.of(NETWORK, lanes=32, columns=8),
    "one vector": Mapping.of(Network("fc", (40,), (Linear(3),)), lanes=16, columns=2),
    "groups": Mapping.of(network_from("4x4x3 conv12k2g2 relu pool2s1 flatten fc3"), lanes=16, columns=2),
    "a concatenation": Mapping.of(
        network_from("9x4x5 conv10k3 relu conv12k1x3p0,0,1,1 relu cat@3,1 conv5k2 flatten fc3"),
        lanes=16,
        columns=2,
    ),
}


def expected(mapping, number, buffer):
    """Words of a stage: address, weight, bias, first, last, relu; pool's first, last, target, mask."""
    stage = mapping.stages[number]
    counts, strides = ([getattr(loop, name) for loop in stage.loops] for name in ("count", "stride"))
    base = stage.base + (mapping.sample_values if buffer and number == 0 else 0)
    words = []
    for turn in itertools.product(*(range(count) for count in reversed(counts))):
        *groups, y, x, dy, dx = turn[: -stage.inner]
        inside = list(zip(turn[-stage.inner :], reversed(counts[: stage.inner]), strict=True))
        # each of several groups of a convolution has this number of iterations
        group = sum(at * size for at, size in zip(groups, (counts[stage.inner + 4], 1)[-len(groups) :], strict=True))
        word_in_sum = reduce(lambda found, loop: found * loop[1] + loop[0], inside, 0)
        address = base + sum(at * stride for at, stride in zip(reversed(turn), strides, strict=True))
        weight = stage.weights + group * stage.words + word_in_sum
        first, last = word_in_sum == 0, word_in_sum == stage.words - 1
        word = (address, weight, stage.biases + group, first, last, stage.relu)
        target = stage.target + sum(
            at * stride for at, stride in zip((x, y, *reversed(groups)), stage.targets, strict=True)
        )
        outputs = min(mapping.columns, stage.channels - group * mapping.columns)
        pooled = [dx, dy] == [count - 1 for count in counts[stage.inner : stage.inner + 2]]
        words.append((*word, not (dy or dx), pooled, target, (1 << outputs) - 1))
    return words


def full_until(dut, full):
    """Background bench: each bit of `full` is 1 before its cycle."""

    async def bench(ctx):
        for cycle in itertools.count():
            ctx.set(dut.full, sum(1 << bit for bit, end in (full or {}).items() if cycle < end))
            await ctx.tick()

    return bench


def word_of(values):
    """A word in the form of `expected`."""
    *word, pool = values
    return (*word, pool["first"], pool["last"], pool["target"], pool["mask"])


def walk(mapping, buffer=0, full=None, drain=DRAIN, pauses=None):
    """Words with cycles; cycles in which each stage is filled; the cycle of `done`."""
    dut = OverlappingSequencer(mapping, drain, pauses) if pauses else Sequencer(mapping, drain)

    async def body(bench):
        await bench.pulse("start", buffer=buffer)
        await bench.until("done")

    watch = {"word.enable": (*WORD, "pool"), "filled": None, "done": None}
    seen = play_interface(dut, watch=watch, body=body, background=[full_until(dut, full)])
    words = [(cycle, word_of(values)) for cycle, values in seen["word.enable"]]
    filled = {bit: cycle for cycle, bits in seen["filled"] for bit in range(len(mapping.stages)) if bits >> bit & 1}
    return words, filled, seen.cycles("done")[0]


@pytest.mark.parametrize("buffer", [0, 1])
@pytest.mark.parametrize("name", VARIATIONS)
def test_words_are_those_of_the_loops(name, buffer):
    mapping = VARIATIONS[name]
    words, filled, done = walk(mapping, buffer)
    assert [word for _, word in words] == [
        tuple(map(int, word)) for number in range(len(mapping.stages)) for word in expected(mapping, number, buffer)
    ]
    assert done == filled[len(mapping.stages) - 1] == max(filled.values())


def test_a_stage_issues_a_word_a_cycle_and_then_counts_down():
    mapping, drain = VARIATIONS["base"], 6
    words, filled, _ = walk(mapping, drain=drain)
    first = 0
    for number, stage in enumerate(mapping.stages):
        cycles = [cycle for cycle, _ in words[first : first + stage.cycles]]
        assert cycles == list(range(cycles[0], cycles[0] + stage.cycles))
        assert filled[number] == cycles[-1] + drain
        first += stage.cycles


def test_a_stage_waits_for_room_in_the_output_memory():
    mapping = VARIATIONS["base"]
    free, _, _ = walk(mapping)
    held, filled, _ = walk(mapping, full={1: 900})
    assert [word for _, word in held] == [word for _, word in free]
    assert filled[0] < 900 < held[mapping.stages[0].cycles][0]


@pytest.mark.parametrize("name", [name for name, mapping in VARIATIONS.items() if len(mapping.stages) > 1])
def test_overlapping_stages_issue_the_same_words(name):
    mapping = VARIATIONS[name]
    pauses = tuple((5 * number) % 7 for number in range(len(mapping.stages)))
    plain, overlapping = walk(mapping), walk(mapping, pauses=pauses)
    assert [word for _, word in overlapping[0]] == [word for _, word in plain[0]]
    assert overlapping[2] == overlapping[1][len(mapping.stages) - 1]


def test_overlapping_stages_follow_each_other_after_their_pauses():
    """Also with two samples; each stage is filled with the latency of a separate run."""
    mapping, drain, pauses = VARIATIONS["base"], 40, (3, 0, 5)
    dut, stages = OverlappingSequencer(mapping, drain, pauses), 2 * mapping.stages

    async def body(bench):
        bench.set({"start": 1})
        await bench.until("issued")
        await bench.until("done")
        bench.set({"start": 0})
        await bench.until("done")

    watch = {"word.enable": (), "filled": None, "consumed": None, "issued": None, "done": None}
    seen = play_interface(dut, watch=watch, body=body)
    words, filled, first = seen.cycles("word.enable"), seen.cycles("filled"), 0
    assert len(words) == 2 * mapping.cycles
    for number, stage in enumerate(stages):
        cycles = words[first : first + stage.cycles]
        assert cycles == list(range(cycles[0], cycles[0] + stage.cycles))
        assert filled[number] == cycles[-1] + drain
        first += stage.cycles
        if number + 1 < len(stages):
            pause = 4 + pauses[(number + 1) % 3]
            assert words[first] - cycles[-1] == pause
    assert seen.words("filled") == [1, 2, 4] * 2
    assert seen.cycles("issued") == [words[mapping.cycles - 1] - 1, words[-1] - 1]
    # only the first stage reads the sample
    assert seen.cycles("consumed") == [words[at + mapping.stages[0].cycles - 1] - 1 for at in (0, mapping.cycles)]
    assert seen.cycles("done") == [filled[2], filled[5]]


PAIRED = replace(VARIATIONS["base"], sides=2)


def walk_sides(mapping, first, last, samples=1, both=1, full=None, drain=DRAIN):
    """Words of each sample's sides and stages with cycles, in order; cycles of `filled` by bit, and of `done`."""
    dut, runs, filled = AlternatingSequencer(mapping, drain), [], {}

    async def body(bench):
        bench.set(first_stage=first, last_stage=last, both=both)
        await bench.tick(2)
        await bench.pulse("start")
        for _ in range(samples - 1):
            while not bench.get("issued"):
                await bench.tick()
            await bench.pulse("start")
        while len(bench.seen["done"]) < samples:
            await bench.tick()

    watch = {
        "begin": ("side", "final", "tail_lanes"),
        "word.enable": ("side", *WORD, "pool"),
        "filled": None,
        "done": None,
    }
    seen = play_interface(dut, watch=watch, body=body, background=[full_until(dut, full)])
    words = deque(seen["word.enable"])
    for begin, end in itertools.pairwise([*seen.cycles("begin"), 1 << 30]):
        own = []
        while words and begin <= words[0][0] < end:
            own.append(words.popleft())
        assert {side for _, (side, *_) in own} == {dict(seen["begin"])[begin][0]}
        runs.append((*dict(seen["begin"])[begin], [(cycle, word_of(values)) for cycle, (_, *values) in own]))
    assert not words
    for cycle, bits in seen["filled"]:
        for bit in range(len(dut.filled)):
            if bits >> bit & 1:
                filled.setdefault(bit, []).append(cycle)
    return runs, filled, seen.cycles("done")


def of_side(mapping, number, side, words):
    """Words of a stage with the addresses of a side: operands and outputs have a region per side."""
    apart = side * mapping.side_values
    return [(address + (apart if number else 0), *rest, target + apart, mask) for address, *rest, target, mask in words]


def test_each_word_of_a_run_of_a_pixel_is_its_last():
    mapping = replace(VARIATIONS["groups"], sides=2)
    dut = AlternatingSequencer(mapping, DRAIN)

    async def body(bench):
        bench.set(first_stage=0, last_stage=1)
        await bench.tick(2)
        await bench.pulse("start")
        await bench.until("done")

    seen = play_interface(dut, watch={"word.enable": "tail", "done": None}, body=body)
    tails = [tail for _, tail in seen["word.enable"]]
    pixels, vector = (stage.cycles for stage in mapping.stages)
    assert [loop.count for loop in mapping.stages[0].loops[:3]] == [1, 2, 2]
    assert tail_lanes(mapping, 0) == (0b11,)
    assert tails == [1] * pixels + [0, 1] * (vector // 2)


@pytest.mark.parametrize("both", [0, 1])
@pytest.mark.parametrize(("first", "last"), [(0, 2), (0, 0), (1, 2), (2, 2)])
def test_sides_alternate_stage_by_stage(first, last, both):
    runs, filled, done = walk_sides(PAIRED, first, last, samples=2, both=both)
    order = [(stage, side) for _ in range(2) for stage in range(first, last + 1) for side in range(1 + both)]
    assert len(runs) == len(order)
    for (stage, side), (own, final, lanes, words) in zip(order, runs, strict=True):
        assert (own, final) == (side, stage == last)
        assert (lanes,) == tail_lanes(PAIRED, stage)
        expected_words = of_side(PAIRED, stage, side, expected(PAIRED, stage, 0))
        assert [word for _, word in words] == [tuple(map(int, word)) for word in expected_words]
    assert {bit: len(cycles) for bit, cycles in filled.items()} == {2 * last + side: 2 for side in range(1 + both)}
    assert done == filled[2 * last + both]


def test_a_side_waits_until_its_outputs_are_written_and_the_other_one_fills_the_time():
    drain = 30
    runs, _, _ = walk_sides(PAIRED, 0, 2, drain=drain)
    spans = {
        (stage, side): (runs[2 * stage + side][3][0][0], runs[2 * stage + side][3][-1][0])
        for stage in range(3)
        for side in range(2)
    }
    # states of the sequencer between two runs: wait, begin, first; a wait ends a cycle after the outputs are written
    assert spans[0, 1][0] == spans[0, 0][1] + 4
    for stage in (1, 2):
        for side in range(2):
            before = spans[(stage, 0) if side else (stage - 1, 1)][1]
            assert spans[stage, side][0] == max(before + 4, spans[stage - 1, side][1] + drain + 5)


def test_a_pass_of_one_stage_waits_until_its_outputs_can_be_read():
    drain = 30
    runs, filled, _ = walk_sides(PAIRED, 2, 2, samples=2, drain=drain)
    for side in range(2):
        assert filled[4 + side][0] + 2 < runs[2 + side][3][0][0]


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_waits_for_room_in_the_output_memory(side):
    runs, _, _ = walk_sides(PAIRED, 0, 2, full={4 + side: 900})
    assert runs[4 + side][3][0][0] > 900
    assert runs[3 + side][3][-1][0] < 900
