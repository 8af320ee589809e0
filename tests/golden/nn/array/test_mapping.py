"""The mapping, executed in plain Python as by the hardware, computes the integer job's network."""

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower, divided, narrow
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Depthwise, Flatten, Linear, MaxPool
from fabtune.golden.models.network import Network, deployed
from fabtune.golden.models.stages import Stage, stages_of
from fabtune.golden.models.text import NETWORKS, network_from
from fabtune.golden.nn.arithmetic.forward import PRODUCT_FRACTION, StageIntegers, run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.array.activation_layout import sample_is_map
from fabtune.golden.nn.array.copies import copy_of, segments, tail_lanes
from fabtune.golden.nn.array.images import frozen_image, weight_positions
from fabtune.golden.nn.array.mapping import Mapping

OWN = Network(
    "own", (2, 11, 9), (Convolution(5, 2, 1), Relu(), MaxPool(3), Convolution(6, 2), Relu(), Flatten(), Linear(3))
)
POOLED = stages_of("pooled", (3, 9, 8), (Convolution(7, 3, 1), MaxPool(2)))
MAPPINGS = {name: Mapping.of(deployed(net), byte_inputs=len(net.input_shape) == 3) for name, net in NETWORKS.items()}
MAPPINGS |= {
    "own": Mapping.of(OWN),
    "wide": Mapping.of(NETWORKS["digits"], lanes=16, columns=8),
    "one convolution": Mapping("pooled", POOLED),
}
GRAPHS = {
    "strides": "2x11x9 conv5k3p1s2x1 relu conv6k3s1x2 flatten fc3",
    "replicated rows, kernel and stride of their own": "1x13x10 conv7k4x3p1s2 relu flatten fc3",
    "more padding below than above": "1x9x10 conv5k3p0,1,0,1 relu conv4k2x3p1,0,2,0 flatten fc3",
    "same padding of a stride": "3x9x9 conv5k3p0,1,0,1s2 relu conv4k3p1s2 flatten fc3",
    "pools that overlap": "1x12x11 conv5k3 pool3s2 conv4k2 pool2x3s1x2 flatten fc3",
    "pixel by pixel": "20x5x4 conv18k1 relu conv6k1s2 flatten fc3",
    "a kernel of a row, one of a column": "1x7x9 conv4k1x4 relu conv5k5x1 flatten fc3",
    "outputs with several readers": "2x6x7 conv5k3 relu conv4k3p0,1,2,0@1 conv5k1@1 relu conv4k3p1,0,1,1@4 add@2,5 "
    "conv6k1@4 pool2 flatten@6 fc4 flatten@8 fc4 add@10,12 fc3",
    "a sample with several readers": "3x6x5 conv3k3p1 add@0,-1 relu pool3x2s2x1 conv4k1@-1 flatten@-1 fc6 relu "
    "conv2k2@3 flatten@4 fc6 add@10,7 flatten@8 fc6 add@13,11 fc2",
    "a sample that its own convolution adds": "3x6x5 conv3k3p1 add@0,-1 relu flatten fc3",
    "a vector with two readers": "21 fc9 relu fc8 relu fc9@3 add@4,1 relu fc21 add@7,-1 fc3",
    "limits": "2x6x5 conv5k3 relu0.5 pool2 flatten fc6 relu fc5 relu1.25 fc4",
    "average pools": "2x7x8 conv5k3 relu avg2 conv6k1 avg2x3 flatten fc3",
    "a global average": "3x6x6 conv5k3p1s2 relu6 avg3 conv4k1 flatten fc3",
    "one filter a channel": "3x7x6 dw3x2p1,0,1,1s1x2 relu conv19k1 relu dw3p1 relu6 conv4k1 flatten fc20 dw1 relu fc3",
    "pools behind one filter a channel": "3x9x8 conv5k1 relu dw3p1 relu pool2 dw3p1 avg2 conv4k1 dw3p1 "
    "pool2 flatten fc3",
    "residuals of one filter a channel": "3x6x6 conv20k1 relu dw3p1 add@2,1 relu conv20k1s2 relu dw3p1s2@4 "
    "add@7,6 pool2s1 flatten fc3",
    "halves of the lanes": "3x9x8 conv8k3p1 relu conv8k3p1 add@2,1 relu pool2 conv7k3p1 relu conv5k3 avg2x1 "
    "flatten fc3",
    "a kernel as large as the map": "2x4x5 conv6k4x5 relu conv5k1 flatten fc3",
    "a concatenation": "3x7x6 conv5k3p1 relu conv7k1 relu conv6k3p1@1 relu cat@3,5 conv9k3p1 pool2 flatten fc3",
    "concatenations of concatenations": "3x6x6 conv5k3p1 relu dw1 relu conv3k3p1 cat@1,4 dw1 relu conv4k3p1 "
    "cat@5,8 dw1 relu conv6k1 avg2 flatten fc3",
    "pools into a concatenation": "2x9x8 conv5k3p1 relu pool2 conv6k3p0,1,0,1s2@-1 relu cat@2,4 conv4k2 flatten fc3",
    "parts that others read": "3x6x5 conv15k3p1 relu conv7k3p1 relu cat@1,3 conv6k3p1 relu conv4k2@3 pool2 conv5k1x3@1 "
    "flatten fc3 flatten@8 fc3 add@13,11 flatten@6 fc3 add@16,14 flatten@1 fc3 add@19,17",
    "a concatenation that is added": "3x6x5 conv5k3p1 relu conv7k3p1 cat@1,2 conv12k3p1 add@4,3 relu pool2 flatten fc3",
    "vectors side by side": "21 fc9 relu fc8 relu cat@1,3 fc17 add@5,4 relu fc3 fc3@3 add@9,8",
    "parts of more channels than lanes": "3x5x5 conv20k3p1 relu conv18k3p1 relu cat@1,3 conv4k3p1 dw3p1 conv40k1 relu "
    "conv8k3p1g2 relu flatten fc3",
    "flattened maps side by side": "2x5x5 conv5k3 relu conv6k1 relu flatten flatten@1 cat@5,4 fc4 relu fc3",
    "groups": "6x6x5 conv8k3p1g2 relu conv8k3p1s2g2 relu pool2 conv16k1g2 flatten fc3",
    "groups of one turn": "8x6x5 conv16k3p1g4 relu conv16k3p1g4 add@2,1 relu conv8k2g2 flatten fc3",
    "groups with a residual and a part": "3x6x5 conv8k3p1 relu conv16k1g2 relu cat@1,3 conv24k3p1g2 add@5,4 relu pool2 "
    "flatten fc3",
}
MAPPINGS |= {name: Mapping.of(network_from(text), lanes=16) for name, text in GRAPHS.items()}
WIDE = {
    f"{name}, {lanes} x 16": Mapping.of(network_from(text), lanes, columns=16)
    for lanes in (16, 32)
    for name, text in GRAPHS.items()
    if not re.search(r"\dg\d", text)
}
WIDE["groups, 16 x 16"] = Mapping.of(network_from("6x4x5 conv64k3g2 relu conv32k1g2 pool2 flatten fc3"), 16, 16)
PAIRS = {
    "a maximum of neighbours": ("1x10x9 conv5k5p2 relu pool2 conv6k3 relu pool1x2s1 flatten fc3", "22"),
    "outputs beside each other": ("1x8x8 conv4k3s2x1 relu conv4k3 avg1x2 conv3k1 flatten fc3", "111"),
    "a window of several rows": ("7x6x8 conv3k3p1 relu conv5k2x3 relu pool2x3s1 flatten fc3", "11"),
    "a window of several words": ("20x5x6 conv5k3p1 relu dw3p1 conv8k1 flatten fc3", "1.1"),
    "pools that overlap": ("2x8x9 conv4k3 pool3x4s1x3 flatten fc3", "2"),
    "an odd map, a residual": ("2x7x6 conv5k3p1 conv5k3p1 add@1,0 relu conv4k2 flatten fc3", "1.."),
    "a part of a concatenation": (
        "3x6x6 conv5k3p1 relu conv3k3p1 relu cat@1,3 conv4k1 pool1x2 flatten fc3 conv4k2x3@1 flatten fc3 add@11,8",
        "..2.1",
    ),
    "many outputs": ("3x6x6 conv9k3p1 relu conv16k3p1 relu flatten fc3", ".."),
}
"""Networks with a mark per convolution: `2` two pixels of a window, `1` two outputs, a dot for neither."""
PAIRED = {
    f"{name}, {lanes} lanes": Mapping.of(network_from(text), lanes, 16, pairs="frozen")
    for lanes in (16, 32)
    for name, (text, _) in PAIRS.items()
}
PAIRED |= {
    f"the last stage, {kind}": Mapping(kind, stages_of(kind, (3, 9, 8), layers), 16, 16, pairs="frozen")
    for kind, layers in {"1": (Convolution(7, 3, 1),), "2": (Convolution(7, 3, 1), MaxPool(2))}.items()
}
PERTURBED = {
    f"{name}, perturbed": Mapping.of(network_from(text), 32, 16, pairs="perturbed") for name, (text, _) in PAIRS.items()
}
MAPPINGS |= WIDE | PAIRED | PERTURBED


def _frozen(stages: tuple[Stage, ...], rng: np.random.Generator) -> list[StageIntegers]:
    return [
        StageIntegers(rng.integers(-900, 900, stage.weight_shape), rng.integers(-9000, 9000, stage.biases))
        for stage in stages
    ]


def _fill(mapping: Mapping, memory: np.ndarray, values: np.ndarray) -> None:
    """A sample's values at the addresses read by the first stage."""
    rows, pitch, column, origin = mapping.layout(-1)
    if not sample_is_map(mapping.network_stages):
        memory[: values.size] = values.reshape(-1)
        return
    top, replicas = origin // pitch, mapping.row_replicas
    for (c, y, x), value in np.ndenumerate(values):
        for replica in range(replicas):
            if 0 <= y + top - replica < rows:
                memory[origin + (y - replica) * pitch + x * column + c * replicas + replica] = value


def _turns(counts: list[int]) -> Iterator[tuple[int, ...]]:
    """Iterations of nested loops, innermost first."""
    return (turn[::-1] for turn in itertools.product(*map(range, reversed(counts))))


def _walk(mapping: Mapping, frozen: list[StageIntegers], values: np.ndarray) -> list[np.ndarray]:
    """Outputs of all stages, channel by channel."""
    image = frozen_image(mapping, frozen).view("<i2").astype(np.int64)
    weights = image[: mapping.weight_words * mapping.lanes * mapping.columns].reshape(
        -1, mapping.lanes, mapping.columns
    )
    biases = image[weights.size :].reshape(mapping.groups, -1)
    memory = np.zeros(mapping.activation_values, np.int64)
    _fill(mapping, memory, values)
    outputs = []
    for stage in mapping.stages:
        beside = 2 if stage.spread else 1
        found = np.zeros((stage.groups * mapping.columns, stage.cells * beside), np.int64)
        wide = stage.parts * mapping.columns
        counts = [loop.count for loop in stage.loops]
        strides = [loop.stride for loop in stage.loops]
        inner = stage.inner
        for x, y, *groups in _turns(counts[inner + 2 :]):
            group = groups[0] + sum(counts[inner + 4] * further for further in groups[1:])
            pool = []
            for dx, dy in _turns(counts[inner : inner + 2]):
                first = stage.biases + group * stage.parts
                own = biases[first : min(first + stage.parts, stage.biases + stage.groups), : mapping.columns]
                total = np.pad(own.reshape(-1), (0, wide - own.size)) << Q8_16.fraction
                if stage.residual:
                    at = stage.residual.base + np.dot((dx, dy, x, y, *groups), stage.residual.strides)
                    total = total + (memory[at : at + wide] << Q4_12.fraction)
                for number, inside in enumerate(_turns(counts[:inner])):
                    at = np.dot((*inside, dx, dy, x, y, *groups), strides) + stage.base
                    word = weights[stage.weights + group * stage.words + number]
                    values = memory[at : at + (mapping.lanes if stage.within else stage.sum_lanes)]
                    if stage.within:
                        total = total + values * word[:, 0]
                    else:
                        parts = word.reshape(stage.parts, stage.sum_lanes, mapping.columns)
                        total = total + np.concatenate([values @ part for part in parts])
                pool.append(narrow(total, PRODUCT_FRACTION, Q8_16))
            if stage.relu:
                pool = [one.clip(0, Q8_16.maximum if stage.limit is None else stage.limit) for one in pool]
            if stage.average:
                assert stage.average == len(pool)
                best = divided(np.sum(pool, axis=0), stage.average)
            else:
                best = np.max(pool, axis=0)
            if stage.merged:
                best = np.maximum(*np.split(best, 2))
            kept = min(wide, stage.channels * beside - group * wide)
            at = stage.target + np.dot((x, y, *groups), stage.targets)
            memory[at : at + kept] = best[:kept]
            for pixel, own in enumerate(np.split(best[:kept], beside)):
                cell = (y * counts[inner + 2] + x) * beside + pixel
                found[group * wide : group * wide + len(own), cell] = own
        outputs.append(found[: stage.channels].reshape(-1))
    return outputs


@pytest.mark.parametrize(
    "name", ["lenet5-mnist", "fan", "digits", "own", "wide", "one convolution", *GRAPHS, *WIDE, *PAIRED, *PERTURBED]
)
def test_walk(name: str) -> None:
    mapping = MAPPINGS[name]
    rng = np.random.default_rng(3)
    frozen = _frozen(mapping.network_stages, rng)
    values = rng.integers(-(1 << 17), 1 << 17, mapping.input_shape)
    found = _walk(mapping, frozen, values)
    expected = run(mapping.network_stages, frozen, values[None], product_of("int64"), Narrower())
    for output, wanted in zip(found, expected, strict=True):
        assert np.array_equal(output, wanted.reshape(-1))


@pytest.mark.parametrize("name", PAIRS)
def test_stages_of_few_outputs_take_two_pixels(name: str) -> None:
    text, kinds = PAIRS[name]
    single, paired = Mapping.of(network_from(text), 32, 16), PAIRED[f"{name}, 32 lanes"]
    for kind, one, two in zip(kinds, single.stages, paired.stages, strict=False):
        assert kind == ("." if two.pair is None else "2" if two.merged else "1")
        assert (two.cycles < one.cycles) == (kind != ".")
    assert not any(stage.pair for stage in single.stages)


@pytest.mark.parametrize("name", PERTURBED)
def test_places_of_a_perturbed_weight_are_in_one_word(name: str) -> None:
    mapping = PERTURBED[name]
    word = mapping.lanes * mapping.columns
    for at in (number for number, stage in enumerate(mapping.stages) if stage.pair):
        first, second = (weight_positions(mapping, at, pixel) for pixel in range(2))
        copy = copy_of(mapping, at)
        assert copy is not None
        assert np.array_equal(first // word, second // word)
        assert np.unique(second - first).tolist() == [copy.lanes * mapping.columns + copy.columns]
        # lanes with a weight in the columns of each pixel; each word ends a run
        for segment, positions in ((0, first), (segments(mapping).index(copy.columns), second)):
            lanes = np.unique(positions % word // mapping.columns)
            assert tail_lanes(mapping, at)[segment] == sum(1 << lane for lane in lanes.tolist())


def test_perturbed_words_of_fewer_columns_or_of_several_words_are_of_one_pixel() -> None:
    kinds = {
        name: "".join("." if stage.pair is None else "2" if stage.merged else "1" for stage in mapping.stages)
        for name, mapping in PERTURBED.items()
    }
    expected = {f"{name}, perturbed": kinds.ljust(6, ".") for name, (_, kinds) in PAIRS.items()}
    # adjacent rows in several words; 80 channels; several runs
    expected["a window of several rows, perturbed"] = ".1...."
    expected["a window of several words, perturbed"] = "..1..."
    expected["a part of a concatenation, perturbed"] = "..2..."
    assert {name: own.ljust(6, ".") for name, own in kinds.items()} == expected
    assert not any(
        stage.pair
        for text, _ in PAIRS.values()
        for stage in Mapping.of(network_from(text), 32, 8, pairs="perturbed").stages
    )


def test_windows_beyond_the_map_are_of_one_pixel() -> None:
    mapping = Mapping.of(network_from("1x7x6 conv4k3p1 pool2p0,0,1,1 flatten fc3"), 32, 16, pairs="frozen")
    assert [stage.pair for stage in mapping.stages] == [None, None]


def test_image_sizes() -> None:
    for mapping in MAPPINGS.values():
        frozen = _frozen(mapping.network_stages, np.random.default_rng(0))
        assert frozen_image(mapping, frozen).size == 16 * mapping.frozen_beats
    mapping = MAPPINGS["lenet5-mnist"]
    assert (mapping.sample_beats, mapping.weight_words) == (49, 505)


@pytest.mark.parametrize(
    ("settings", "message"), [({"lanes": 24}, "power of two"), ({"lanes": 8}, "16 or 32"), ({"columns": 32}, "2 to 16")]
)
def test_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Mapping.of(NETWORKS["digits"], **settings)


def test_batch_norm_is_refused() -> None:
    with pytest.raises(UserError, match="fan has batch norm: fold it first"):
        Mapping.of(NETWORKS["fan"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2x8x8 flatten dw1 fc2", "has flattened maps (2, 8, 8) as its inputs"),
        (
            "1x4x4 conv2k3p1 flatten fc32 add@2,1 fc2",
            "stage 1 (Linear) has flattened maps (2, 4, 4) as its residual",
        ),
        ("2x4x4 conv3k3p1 cat@0,-1 conv2k1 flatten fc2", "stage 1 (Convolution) has a concatenation with the sample"),
        (
            "2x4x4 conv3k3p1 relu conv3k1 cat@2,1 conv3k1 cat@4,1,2 dw1 relu flatten fc2",
            "a concatenation with the outputs of stage 1, which have another place in another one",
        ),
        (
            "2x4x4 conv3k3p1 relu conv3k1 conv4k1@1 cat@1,2 conv5k1 cat@1,3 dw1 flatten@5 fc2 flatten@7 fc2 add@11,9",
            "a concatenation with the outputs of stage 1, which have another neighbour in another one",
        ),
        (
            "2x4x4 conv3k3p1 relu flatten conv2k3@1 flatten cat@2,4 fc2",
            "stage 2 (Linear) has a concatenation of flattened maps of several sizes",
        ),
        (
            "4x4x4 conv12k3p1g2 flatten fc2",
            "stage 0 (Convolution) has 2 groups of 6 outputs, no multiple of columns = 4",
        ),
    ],
)
def test_what_the_array_does_not_map_is_refused(text, message):
    with pytest.raises(UserError, match=re.escape(message) + ", which the array does not map yet"):
        Mapping.of(network_from(text))


RESNET = (
    "3x32x32 conv16k3p1 relu conv16k3p1 relu conv16k3p1 add@4,1 relu conv32k1s2 conv32k3p0,1,0,1s2@6 relu conv32k3p1 "
    "add@10,7 relu conv64k1s2 conv64k3p0,1,0,1s2@12 relu conv64k3p1 add@16,13 relu avg8 flatten fc10"
)
KEYWORDS = "1x49x10 conv64k10x4p4,5,1,1s2 relu " + 4 * "dw3p1 relu conv64k1 relu " + "avg25x5 flatten fc12"
PUBLISHED = {"resnet": RESNET, "keywords": KEYWORDS}


@pytest.mark.parametrize("name", PUBLISHED)
def test_cycles_are_close_to_the_ideal(name: str) -> None:
    """MLPerf Tiny shapes: 16 and more channels fill the lanes; a depthwise channel uses one column."""
    mapping = Mapping.of(network_from(PUBLISHED[name]), lanes=16, columns=4)
    for own, stage in zip(mapping.network_stages, mapping.stages, strict=True):
        ideal = own.macs / (mapping.lanes * mapping.columns)
        if isinstance(own.layer, Depthwise):
            assert stage.cycles <= mapping.columns * ideal
        elif isinstance(own.layer, Convolution) and own.input_shape[0] >= 16:
            assert stage.cycles <= 1.15 * ideal


def test_a_short_sum_of_lanes_waits_for_its_parts() -> None:
    mapping = Mapping.of(network_from("40x3x2 dw1 conv20k1 flatten fc3"), lanes=16, columns=2)
    first = mapping.stages[0]
    assert (first.sums, first.sum_words, first.parts, first.groups) == (3 * 6, 1, 8, 20)
    assert first.cycles == 17 * 8 + 1
