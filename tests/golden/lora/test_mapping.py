"""Words of adapters and records, and the adapters' image in multiplier order."""

import itertools

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.lora.mapping import AdapterMapping
from fabtune.golden.lora.memory_layout import adapters_image, adapters_of, update_order
from fabtune.golden.lora.update_noise import UpdateNoise
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool
from fabtune.golden.models.network import Network, deployed
from fabtune.golden.models.text import NETWORKS, network_from

OWN = Network(
    "own", (2, 11, 9), (Convolution(5, 2, 1), Relu(), MaxPool(3), Convolution(6, 2), Relu(), Flatten(), Linear(3))
)
MAPPINGS = {
    name: AdapterMapping.of(deployed(net), byte_inputs=len(net.input_shape) == 3) for name, net in NETWORKS.items()
}
MAPPINGS |= {
    "own": AdapterMapping.of(OWN),
    "wide": AdapterMapping.of(NETWORKS["digits"], lanes=16, columns=8),
    "last": AdapterMapping.of(OWN, first=2),
}
MAPPINGS |= {
    f"{tunes}, {columns} columns": AdapterMapping.of(OWN, columns=columns, rank=2, tunes=tunes)
    for tunes in ("layer", "biases")
    for columns in (2, 4)
}
MAPPINGS |= {
    f"own, {columns} columns, rank {rank}": AdapterMapping.of(OWN, rank=rank, columns=columns)
    for columns, rank in ((16, 8), (16, 4), (16, 1), (8, 5), (8, 4), (8, 3), (4, 2), (4, 1), (2, 1))
}

# segments of 3, 2 and 1 words of 16 lanes
JOINED = network_from("2x4x4 conv3k3p1 relu conv2k3p1 relu cat@1,3 conv1k1 cat@5,4 flatten fc3")
MAPPINGS |= {
    f"a concatenation, rank {rank}": AdapterMapping.of(JOINED, rank=rank, lanes=16, first=2) for rank in (2, 4)
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_words_cover_tensors(name: str) -> None:
    mapping = MAPPINGS[name]
    expected = len(mapping.forward.network_stages) - mapping.first if mapping.tunes == "adapters" else 2
    assert len(mapping.adapter_words) == mapping.adapters == expected
    for words, (count, length) in zip(mapping.record_words, mapping.blocks, strict=True):
        values = np.concatenate([np.arange(word.first, word.first + word.count) for word in words])
        assert np.array_equal(values, np.arange(count * length))
        for word in words:
            lanes = np.arange(word.count)
            block = word.block + np.searchsorted(word.borders, lanes, side="right")
            begun = sum(pair[0] for pair in mapping.blocks[: mapping.record_words.index(words)])
            assert np.array_equal(block - begun, (word.first + lanes) // length)
            assert len(word.borders) <= 3


@pytest.mark.parametrize("name", MAPPINGS)
def test_adapters_image_round_trip(name: str) -> None:
    mapping = MAPPINGS[name]
    rng = np.random.default_rng(1)
    adapters = Adapters(mapping.shape, rng.integers(Q4_12.minimum, Q4_12.maximum, mapping.shape.parameters))
    image = adapters_image(mapping, adapters)
    assert image.size == 16 * mapping.adapter_beats
    assert np.array_equal(adapters_of(mapping, image).flat, adapters.flat)


@pytest.mark.parametrize("name", MAPPINGS)
def test_update_order_is_that_of_the_image(name: str) -> None:
    """A row's words in parallel beats, B in single beats: beat and lane identify a parameter."""
    mapping = MAPPINGS[name]
    words, numbers = mapping.words_per_cycle, np.arange(mapping.shape.parameters) + 1
    found = update_order(mapping)
    low, high = (
        adapters_image(mapping, Adapters(mapping.shape, part)).view("<i2") for part in (numbers % 1000, numbers // 1000)
    )
    for at, number in enumerate((low + 1000 * high.astype(np.int64)).tolist()):
        beat, value = divmod(at, 8)
        cycle, part = divmod(beat, words) if beat < mapping.a_beats else (beat - mapping.a_beats, 0)
        cycle += mapping.a_beats // words if beat >= mapping.a_beats else 0
        if number and number <= len(found):
            assert found[number - 1] == (cycle * words + part) * 8 + value
    noise = UpdateNoise.by_image(mapping)
    assert noise.urng.n == 8 * words + 1
    assert np.array_equal(noise.places // noise.urng.n, found // (8 * words))
    entries = mapping.classes * mapping.adapters if mapping.tunes == "adapters" else 0
    assert noise.cycles == mapping.a_beats // words + entries


@pytest.mark.parametrize("name", MAPPINGS)
def test_adapters_walk(name: str) -> None:
    """Row words in multiplier order through the image: the ranks of a word are adjacent."""
    mapping = MAPPINGS[name]
    words_per_cycle, ranks = mapping.words_per_cycle, mapping.columns // mapping.words_per_cycle
    idle = mapping.columns // {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8}[mapping.rank]
    assert words_per_cycle == (1 if idle == 1 else 4 if mapping.columns == 16 and idle >= 4 else 2)
    rng = np.random.default_rng(2)
    adapters = Adapters(mapping.shape, rng.integers(-900, 900, mapping.shape.parameters))
    image = adapters_image(mapping, adapters).view("<i2").astype(np.int64)
    at = 0
    for a, words in zip(adapters.a, mapping.adapter_words, strict=True):
        x = rng.integers(-(1 << 17), 1 << 17, len(a))
        total = np.zeros(mapping.columns, np.int64)
        for first in range(0, len(words), words_per_cycle):
            row = np.zeros(words_per_cycle * mapping.lanes, np.int64)
            for half, word in enumerate(words[first : first + words_per_cycle]):
                row[half * mapping.lanes :][: word.count] = x[word.first : word.first + word.count]
            for lane, column in itertools.product(range(mapping.lanes), range(mapping.columns)):
                total[column] += row[column // ranks * mapping.lanes + lane] * image[at]
                at += 1
        h = total.reshape(words_per_cycle, ranks).sum(axis=0)
        assert np.array_equal(h[: mapping.rank], x @ a)
        assert not h[mapping.rank :].any()
    assert at == mapping.a_beats * 8
    b = image[at:].reshape(mapping.classes, mapping.adapters, -1)
    assert b.shape[-1] == 8
    assert np.array_equal(b[..., : mapping.rank].reshape(adapters.b.shape), adapters.b)
    assert not b[..., mapping.rank :].any()


def test_sizes() -> None:
    mapping = MAPPINGS["lenet5-mnist"]
    assert (mapping.record_beats, mapping.adapter_rows) == (65, 82)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 5}, "rank = 5"),
        ({"rank": 9, "columns": 16}, "rank = 9 is more than 8: a class's part of B is one beat"),
        ({"first": 9}, "stages 0 to 2"),
        ({"lanes": 8}, "16 or 32"),
    ],
)
def test_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        AdapterMapping.of(NETWORKS["digits"], **settings)


def test_parts_of_a_concatenation_begin_with_a_row():
    mapping = MAPPINGS["a concatenation, rank 2"]
    assert mapping.words_per_cycle == 2
    assert mapping.tensors == ((0, 1), (2, 0, 1))
    firsts = [[(word.first, word.count) for word in words] for words in mapping.adapter_words]
    parts = [(0, 16), (16, 16), (32, 16), (0, 0), (48, 16), (64, 16)]
    assert firsts == [parts, [(0, 16), (0, 0), *((16 + at if count else 0, count) for at, count in parts)]]
    # rows of a sample: 2 of stage 0, 1 each of stages 1 and 2, and the logits
    assert mapping.row_order == (0, 1, 2, 3, 0, 1, 2, 4)
