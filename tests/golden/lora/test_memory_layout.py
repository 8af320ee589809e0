"""Regions of a job in device memory: registers, sizes, images."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.instantft.registers import REGISTERS
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.memory_layout import cache_image
from fabtune.golden.nn.arithmetic.forward import StageIntegers

SPEC = InstantftSpec(network="digits")
MAPPING, NETWORK, LAYOUT = SPEC.mapping, SPEC.described, SPEC.layout


def test_sizes_are_those_of_the_images():
    frozen = [
        StageIntegers(np.ones(one.weight_shape, np.int64), np.ones(one.biases, np.int64)) for one in NETWORK.stages
    ]
    adapters = Adapters(MAPPING.shape, np.arange(MAPPING.shape.parameters) % 999)
    batches = [(np.arange(5), np.arange(5)), (np.arange(3), np.arange(3))]
    regions = {
        "parameters": (LAYOUT.parameters(frozen), MAPPING.forward.frozen_beats),
        "adapters": (LAYOUT.adapters(adapters), MAPPING.adapter_beats),
        "samples": (LAYOUT.samples(np.zeros((7, *NETWORK.input_shape), int)), 7 * MAPPING.forward.sample_beats),
        "order": (LAYOUT.order(batches), 2 + 1),
    }
    for name, (region, beats) in regions.items():
        assert region.register == name
        assert region.size == region.image.size == 16 * beats
    assert LAYOUT.adapters().size == regions["adapters"][0].size
    assert np.array_equal(LAYOUT.adapters_of(regions["adapters"][0].image).flat, adapters.flat)


def test_every_register_of_an_address_has_a_region():
    regions = (LAYOUT.cache(1, False), LAYOUT.scratch(), LAYOUT.logits(1))
    assert {region.register for region in regions} == {"cache", "logits"}
    assert all(REGISTERS[region.register].access == "RW" for region in regions)
    assert not any(region.image.size for region in regions)


@pytest.mark.parametrize(
    ("region", "beats"),
    [
        (LAYOUT.cache(10, False), 10 * MAPPING.record_beats),
        (LAYOUT.cache(10, True), 10 * MAPPING.raw_beats),
        (LAYOUT.scratch(), 2 * SPEC.batch * MAPPING.raw_beats),
        (LAYOUT.logits(10), 10 * MAPPING.logit_beats),
        (LAYOUT.logits(0), 1),
        (InstantftSpec(network="digits", cache="chip", cache_entries=64).layout.cache(10, False), 1),
        (InstantftSpec(network="digits", cache="none", batch=3).layout.cache(10, True), 6 * MAPPING.raw_beats),
    ],
)
def test_sizes_without_an_image(region, beats):
    assert region.size == 16 * beats


@pytest.mark.parametrize("lanes", [16, 32])
def test_the_image_of_the_cache_holds_every_value(lanes):
    spec = InstantftSpec(network="digits", lanes=lanes)
    mapping, rng = spec.mapping, np.random.default_rng(2)
    words = [word for tensor in mapping.record_words for word in tensor]
    for codec in (record_layout(NETWORK), WordCodec(NETWORK)):
        raw = isinstance(codec, WordCodec)
        cache = ForwardCache(NETWORK, codec, 3)
        cache.records[:] = codec.quantise(rng.integers(-(1 << 20), 1 << 20, (3, codec.values)))
        image = cache_image(mapping, cache)
        assert image.size == spec.layout.cache(3, raw).size
        if raw:
            values = image.view("<i4").reshape(3, len(words), lanes)
            found = np.concatenate([values[:, at, : word.count] for at, word in enumerate(words)], axis=1)
            assert np.array_equal(found, codec.dequantise(cache.records))


def test_logits_begin_on_a_beat():
    logits = np.arange(-10, 10).reshape(2, 10)
    image = LAYOUT.logits_image(logits)
    assert image.size == LAYOUT.logits(2).size == 2 * MAPPING.logit_beats * 16
    assert image.view("<i4").reshape(2, -1)[1, :10].tolist() == list(range(10))
    assert np.array_equal(LAYOUT.logits_of(image), logits)
