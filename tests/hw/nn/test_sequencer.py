"""The sequencer's addresses are those of the stages' loops, walked in plain Python."""

import itertools

import pytest
from amaranth.sim import Simulator

from fabtune.golden.models.network import Convolution, Flatten, Linear, MaxPool, Network, Relu
from fabtune.golden.nn.mapping import Mapping
from fabtune.hw.nn.sequencer import Sequencer

NETWORK = Network("own", (2, 7, 6), (Convolution(5, 2, 1), Relu(), MaxPool(3), Convolution(3, 2), Flatten(), Linear(3)))
WORD = ("address", "weight", "bias", "first", "last", "relu")
VARIATIONS = {
    "base": Mapping.of(NETWORK, lanes=16, columns=2),
    "one group a stage": Mapping.of(NETWORK, lanes=32, columns=8),
    "one vector": Mapping.of(Network("fc", (40,), (Linear(3),)), lanes=16, columns=2),
}


def expected(mapping, number, buffer):
    """Words of a stage: address, weight, bias, first, last, relu; pool's first, last, target, mask."""
    stage = mapping.stages[number]
    counts, strides = ([getattr(loop, name) for loop in stage.loops] for name in ("count", "stride"))
    base = stage.base + (mapping.sample_values if buffer and number == 0 else 0)
    words = []
    for turn in itertools.product(*(range(count) for count in reversed(counts))):
        group, y, x, dy, dx, row, run = turn
        address = base + sum(at * stride for at, stride in zip(reversed(turn), strides, strict=True))
        weight = stage.weights + group * stage.words + row * counts[0] + run
        ends = (row, run) == (counts[1] - 1, counts[0] - 1)
        word = (address, weight, stage.biases + group, not (row or run), ends, stage.relu)
        target = stage.target + x * stage.targets[0] + y * stage.targets[1] + group * stage.targets[2]
        outputs = min(mapping.columns, stage.channels - group * mapping.columns)
        pooled = (dy, dx) == (counts[3] - 1, counts[2] - 1)
        words.append((*word, not (dy or dx), pooled, target, (1 << outputs) - 1))
    return words


def walk(mapping, buffer=0, full=None, drain=3):
    """Words with their cycles; cycles in which each stage is filled; the cycle of `done`."""
    sequencer = Sequencer(mapping, drain)
    words, filled, ended = [], {}, []

    async def bench(ctx):
        ctx.set(sequencer.buffer, buffer)
        ctx.set(sequencer.start, 1)
        for cycle in range(5000):
            ctx.set(sequencer.full, sum(1 << stage for stage, end in (full or {}).items() if cycle < end))
            if ctx.get(sequencer.enable):
                pool = ctx.get(sequencer.pool)
                word = [ctx.get(getattr(sequencer, name)) for name in WORD]
                words.append((cycle, (*word, pool["first"], pool["last"], pool["target"], pool["mask"])))
            for stage in range(len(mapping.stages)):
                if ctx.get(sequencer.filled) >> stage & 1:
                    filled[stage] = cycle
            if ctx.get(sequencer.done):
                ended.append(cycle)
                return
            await ctx.tick()
            ctx.set(sequencer.start, 0)

    simulator = Simulator(sequencer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return words, filled, ended[0]


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
