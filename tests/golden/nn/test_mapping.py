"""The plan, walked in plain Python as the hardware does, gives what the integer job's network gives."""

import itertools

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower, narrow
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.models.network import Convolution, Flatten, Linear, MaxPool, Network, Relu, deployed
from fabtune.golden.models.presets import NETWORKS
from fabtune.golden.nn.forward import PRODUCT_FRACTION, StageIntegers, forward
from fabtune.golden.nn.mapping import Plan
from fabtune.golden.nn.products import product_of

OWN = Network(
    "own", (2, 11, 9), (Convolution(5, 2, 1), Relu(), MaxPool(3), Convolution(6, 2), Relu(), Flatten(), Linear(3))
)
PLANS = {name: Plan(deployed(net), pixels=len(net.input_shape) == 3) for name, net in NETWORKS.items()}
PLANS |= {"own": Plan(OWN), "wide": Plan(NETWORKS["digits"], lanes=16, columns=8), "last": Plan(OWN, first=2)}
PLANS |= {
    f"own, {columns} columns, rank {rank}": Plan(OWN, rank=rank, columns=columns)
    for columns, rank in ((8, 5), (8, 4), (8, 3), (4, 2), (4, 1), (2, 1))
}


def _frozen(network: Network, rng: np.random.Generator) -> list[StageIntegers]:
    return [
        StageIntegers(rng.integers(-900, 900, stage.weight_shape), rng.integers(-9000, 9000, stage.biases))
        for stage in network.stages
    ]


def _fill(plan: Plan, memory: np.ndarray, values: np.ndarray) -> None:
    """A sample's values where the first stage reads them."""
    stage = plan.network.stages[0]
    if not isinstance(stage.layer, Convolution):
        memory[: values.size] = values.reshape(-1)
        return
    rows, pitch, column = plan._layout(0)
    padding, copies = stage.layer.padding, plan.copies
    for (c, y, x), value in np.ndenumerate(values):
        for copy in range(copies):
            if 0 <= y + padding - copy < rows:
                memory[(y + padding - copy) * pitch + (x + padding) * column + c * copies + copy] = value


def _walk(plan: Plan, frozen: list[StageIntegers], values: np.ndarray) -> list[np.ndarray]:
    """Outputs of all stages, channel by channel."""
    image = plan.frozen_image(frozen).view("<i2").astype(np.int64)
    tiles = image[: plan.weight_words * plan.lanes * plan.columns].reshape(-1, plan.lanes, plan.columns)
    biases = image[tiles.size :].reshape(plan.groups, -1)
    memory = np.zeros(plan.activations, np.int64)
    _fill(plan, memory, values)
    outputs = []
    for stage in plan.stages:
        found = np.zeros((stage.groups * plan.columns, stage.cells), np.int64)
        counts = [loop.count for loop in stage.loops]
        strides = [loop.stride for loop in stage.loops]
        for group, y, x in itertools.product(*(range(count) for count in counts[:3:-1])):
            best = np.full(plan.columns, Q8_16.minimum)
            for dy, dx in itertools.product(range(counts[3]), range(counts[2])):
                total = biases[stage.biases + group, : plan.columns] << Q8_16.fraction
                for row, run in itertools.product(range(counts[1]), range(counts[0])):
                    at = np.dot((run, row, dx, dy, x, y), strides[:6]) + stage.base
                    tile = tiles[stage.weights + group * stage.words + row * counts[0] + run]
                    total = total + memory[at : at + plan.lanes] @ tile
                best = np.maximum(best, narrow(total, PRODUCT_FRACTION, Q8_16))
            if stage.relu:
                best = np.maximum(best, 0)
            kept = min(plan.columns, stage.channels - group * plan.columns)
            at = stage.target + x * stage.targets[0] + y * stage.targets[1] + group * stage.targets[2]
            memory[at : at + kept] = best[:kept]
            found[group * plan.columns : (group + 1) * plan.columns, y * counts[4] + x] = best
        outputs.append(found[: stage.channels].reshape(-1))
    return outputs


@pytest.mark.parametrize("name", ["lenet5-mnist", "fan", "digits", "own", "wide"])
def test_walk(name: str) -> None:
    plan = PLANS[name]
    rng = np.random.default_rng(3)
    frozen = _frozen(plan.network, rng)
    values = rng.integers(-(1 << 17), 1 << 17, plan.network.input_shape)
    found = _walk(plan, frozen, values)
    x, product, narrower = values[None], product_of("int64"), Narrower()
    for stage, own, output in zip(plan.network.stages, frozen, found, strict=True):
        x = forward(stage, own, x, product, narrower)
        assert np.array_equal(output, x.reshape(-1))


@pytest.mark.parametrize("name", PLANS)
def test_words_cover_tensors(name: str) -> None:
    plan = PLANS[name]
    assert len(plan.adapter_words) == plan.adapters == len(plan.network.stages) - plan.first
    for words, (count, length) in zip(plan.record_words, plan.blocks, strict=True):
        values = np.concatenate([np.arange(word.first, word.first + word.count) for word in words])
        assert np.array_equal(values, np.arange(count * length))
        for word in words:
            lanes = np.arange(word.count)
            block = word.block + np.searchsorted(word.borders, lanes, side="right")
            begun = sum(pair[0] for pair in plan.blocks[: plan.record_words.index(words)])
            assert np.array_equal(block - begun, (word.first + lanes) // length)
            assert len(word.borders) <= 3


@pytest.mark.parametrize("name", PLANS)
def test_adapters_image_round_trip(name: str) -> None:
    plan = PLANS[name]
    rng = np.random.default_rng(1)
    adapters = Adapters(plan.shape, rng.integers(Q4_12.minimum, Q4_12.maximum, plan.shape.parameters))
    image = plan.adapters_image(adapters)
    assert image.size == 16 * plan.adapter_beats
    assert np.array_equal(plan.adapters_of(image).flat, adapters.flat)


@pytest.mark.parametrize("name", PLANS)
def test_adapters_walk(name: str) -> None:
    """Rows of words through the image as the multipliers take them: the words' ranks are beside each other."""
    plan = PLANS[name]
    together, ranks = plan.together, plan.columns // plan.together
    assert together == (2 if plan.columns >= 2 * {1: 1, 2: 2, 3: 4, 4: 4, 5: 8}[plan.rank] else 1)
    rng = np.random.default_rng(2)
    adapters = Adapters(plan.shape, rng.integers(-900, 900, plan.shape.parameters))
    image = plan.adapters_image(adapters).view("<i2").astype(np.int64)
    at = 0
    for a, words in zip(adapters.a, plan.adapter_words, strict=True):
        x = rng.integers(-(1 << 17), 1 << 17, len(a))
        total = np.zeros(plan.columns, np.int64)
        for first in range(0, len(words), together):
            row = np.zeros(together * plan.lanes, np.int64)
            for half, word in enumerate(words[first : first + together]):
                row[half * plan.lanes :][: word.count] = x[word.first : word.first + word.count]
            for lane, column in itertools.product(range(plan.lanes), range(plan.columns)):
                total[column] += row[column // ranks * plan.lanes + lane] * image[at]
                at += 1
        h = total.reshape(together, ranks).sum(axis=0)
        assert np.array_equal(h[: plan.rank], x @ a)
        assert not h[plan.rank :].any()
    assert at == plan.tiles * plan.tile_beats * 8
    b = image[at:].reshape(plan.network.classes, plan.adapters, -1)
    assert b.shape[-1] == 8
    assert np.array_equal(b[..., : plan.rank].reshape(adapters.b.shape), adapters.b)
    assert not b[..., plan.rank :].any()


def test_image_sizes() -> None:
    for plan in PLANS.values():
        frozen = _frozen(plan.network, np.random.default_rng(0))
        assert plan.frozen_image(frozen).size == 16 * plan.frozen_beats
    plan = PLANS["lenet5-mnist"]
    assert (plan.sample_beats, plan.record_beats, plan.tiles, plan.weight_words) == (49, 65, 82, 505)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lanes": 24}, "power of two"),
        ({"rank": 5}, "rank = 5"),
        ({"first": 9}, "stages 0 to 2"),
        ({"lanes": 8}, "16 or 32"),
    ],
)
def test_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Plan(NETWORKS["digits"], **settings)
