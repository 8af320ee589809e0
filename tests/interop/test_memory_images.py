"""Memory images by docs/memory-images.md, written and read without golden's layouts, against golden's."""

from dataclasses import replace

import memory_images as page
import numpy as np
import pytest
from memory_images import stages_of

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.memory_layout import cache_image
from fabtune.golden.nn.arithmetic.forward import StageIntegers
from fabtune.golden.zo.job import ZerothOrderStep
from fabtune.golden.zo.memory_layout import StepOrder

NETWORKS = (
    "digits",
    "lenet5-mnist",
    "lenet5-svhn",
    "har",
    "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3",
    "3x9x8 conv5k4 relu conv20k3p1 pool2 flatten fc11",
    "2x5x5 flatten fc9 relu fc4",
    "3x9x8 conv8k3p1 relu conv16k3p1 relu pool2 conv7k3p1 avg2 flatten fc3",
    "3x7x6 conv16k3p1 relu conv7k3p1 relu pool2 flatten fc3",
    "1x8x9 conv35k4x3p1,0,1,1s2 relu dw3x2s1 relu6 conv6k1x2 avg1x2 flatten fc3",
    "3x6x5 conv20k3p1 relu conv7k3p1 relu cat@1,3 conv5k3p1 dw1 relu flatten@1 fc5 relu flatten@7 fc6 cat@10,12 fc3",
    "4x6x5 conv32k3p1g2 relu conv64k2g2 relu pool2 flatten fc3",
    "8x4x4 conv16k3p1 relu conv8k1 conv16k3p1 add@3,1 relu flatten fc3",
    # pairs of pixels: in a window of a pool, in neighbouring outputs, in several words, in a part of a map
    "2x9x9 conv5k2x3s2 relu pool3x2s1 conv3k2 relu flatten fc3",
    "1x7x8 conv4k3p1 pool2 relu conv2k2x3p0,0,1,1 pool1x4 flatten fc3",
    "3x6x6 conv5k3p1 relu conv3k3p1 relu cat@1,3 conv4k1 pool1x2 flatten fc3 conv4k2x3@1 flatten fc3 add@11,8",
)
SIZES = ((16, 2), (16, 4), (16, 8), (32, 4), (32, 8), (32, 16))


def parameters(network, rng):
    return [
        StageIntegers(rng.integers(-32768, 32768, one.weight_shape), rng.integers(-32768, 32768, one.biases))
        for one in network.stages
    ]


def samples(spec, rng, count=3):
    bounds = (0, 256) if spec.byte_inputs else (-(1 << 23), 1 << 23)
    return rng.integers(*bounds, (count, *spec.described.input_shape))


def same(image, region):
    return image == region.image.tobytes() and region.size == len(image)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("lanes", "columns"), SIZES)
def test_what_both_cores_read(network, lanes, columns):
    rng = np.random.default_rng(1)
    for kind, as_bytes in ((InstantftSpec, True), (ZotrainSpec, False)):
        spec = kind(network=network, lanes=lanes, columns=columns, byte_inputs=as_bytes, **RANK[kind])
        own, given = parameters(spec.described, rng), samples(spec, rng)
        weights, biases = [one.weight for one in own], [one.bias for one in own]
        stages = stages_of(spec.described)
        written = page.write_parameters(stages, weights, biases, lanes, columns, kind is ZotrainSpec)
        assert same(written, spec.layout.parameters(own))
        assert same(page.write_samples(given, as_bytes), spec.layout.samples(given))


RANK = {InstantftSpec: {"rank": 2}, ZotrainSpec: {}}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("lanes", "columns", "rank"), [(16, 4, 4), (32, 4, 2), (32, 8, 3), (32, 8, 5), (16, 2, 1), (32, 16, 5)]
)
@pytest.mark.parametrize("tuned", ["all", "last", "layer", "biases"])
def test_adapters_of_instantft(network, lanes, columns, rank, tuned):
    own = {"last_only": tuned == "last"} if tuned in ("all", "last") else {"tunes": tuned}
    spec = InstantftSpec(network=network, lanes=lanes, columns=columns, rank=rank, **own)
    rng, shape, stages = np.random.default_rng(2), spec.mapping.shape, stages_of(spec.described)
    a = [rng.integers(-32768, 32768, (rank, inputs)) for inputs in shape.inputs]
    b = [rng.integers(-32768, 32768, (shape.classes, rank)) for _ in shape.inputs]
    written = page.write_adapters(stages, a, b, lanes, columns, tuned)
    region = spec.layout.adapters(Adapters.of(shape, a, b))
    assert same(written, region)
    found = page.read_adapters(stages, region.image.tobytes(), rank, lanes, columns, tuned)
    for each, own in zip(found, (a, b), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(each, own, strict=True))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("lanes", [16, 32])
def test_records_and_logits_of_instantft(network, lanes):
    spec = InstantftSpec(network=network, lanes=lanes)
    rng, stages, described = np.random.default_rng(3), stages_of(spec.described), spec.described
    for codec in (record_layout(described), WordCodec(described)):
        cache = ForwardCache(described, codec, 3)
        cache.records[:] = codec.quantise(rng.integers(-(1 << 22), 1 << 22, (3, codec.values)))
        image = cache_image(spec.mapping, cache).tobytes()
        raw = isinstance(codec, WordCodec)
        assert len(image) == spec.layout.cache(3, raw).size == 3 * page.record_bytes(stages, lanes, raw)
        if raw:
            found = page.read_raw_records(stages, image, lanes)
        else:
            found, padding = page.read_records(stages, image, lanes)
            assert padding <= {7}
        assert np.array_equal(found, codec.dequantise(cache.records))
    logits = rng.integers(-(1 << 23), 1 << 23, (5, described.classes))
    assert np.array_equal(page.read_logits(spec.layout.logits_image(logits).tobytes(), described.classes), logits)


def test_order_lists():
    rng, spec = np.random.default_rng(4), InstantftSpec(network="digits")
    batches = [(rng.integers(0, 1 << 24, size), rng.integers(0, 256, size)) for size in (5, 4, 1)]
    assert same(page.write_order(batches), spec.layout.order(batches))
    steps = [(7, *batches[0]), (0xFFFF, *batches[2])]
    for batch in (5, 7, 8):
        own = [StepOrder(indices, labels, rate) for rate, indices, labels in steps]
        assert same(page.write_steps(steps, batch), ZotrainSpec(network="digits").layout.order(own, batch))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("lanes", "columns"), SIZES)
def test_what_zotrain_writes(network, lanes, columns):
    spec, rng = ZotrainSpec(network=network, lanes=lanes, columns=columns), np.random.default_rng(5)
    layout, stages = spec.layout, stages_of(spec.described)
    rows = page.delta_rows(stages, lanes, columns)
    deltas = rng.integers(-(1 << 31), 1 << 31, (rows, 31))
    assert same(page.write_deltas(deltas), layout.deltas(deltas))
    assert np.array_equal(page.read_deltas(layout.deltas(deltas).image.tobytes(), rows, 31), deltas)
    assert layout.deltas().size == rows * 128
    sizes = [4, 2, 5]
    slopes = [
        ZerothOrderStep(at, at - 4, (at - 4) << 40, rng.integers(0, 1 << 32, size)) for at, size in enumerate(sizes)
    ]
    image = layout.records_image(slopes, 6).tobytes()
    assert len(image) == layout.records(len(sizes), 6).size
    for found, own in zip(page.read_slopes(image, sizes, 6), slopes, strict=True):
        assert np.array_equal([found.plus, found.minus], own.probabilities)
        assert found[2:] == (own.position, own.coefficient, own.difference)
    logits = rng.integers(-(1 << 23), 1 << 23, (5, spec.described.classes))
    assert np.array_equal(page.read_logits(layout.logits_image(logits).tobytes(), spec.described.classes), logits)


def test_folded_deltas_have_255_rows():
    spec = ZotrainSpec(**ZotrainSpec.presets["large"])
    assert spec.layout.deltas().size == 255 * page.BEAT * 8


def test_another_order_of_the_weights_is_seen():
    """The comparison detects a transposed kernel."""
    spec = ZotrainSpec(network=NETWORKS[4], lanes=16)
    own = parameters(spec.described, np.random.default_rng(6))
    turned = [replace(own[0], weight=own[0].weight.swapaxes(2, 3)), *own[1:]]
    weights, biases = [one.weight for one in turned], [one.bias for one in turned]
    written = page.write_parameters(stages_of(spec.described), weights, biases, 16, 4, perturbed=True)
    assert len(written) == spec.layout.parameters(own).size
    assert not same(written, spec.layout.parameters(own))
