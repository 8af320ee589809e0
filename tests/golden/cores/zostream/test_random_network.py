"""Random transformers of `zostream`: every operation, and programs accepted by the core."""

import numpy as np
import pytest

from fabtune.golden.cores.zostream.random_network import random_images, random_sentences
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.stream.instruction import ACTIVATIONS, Join, Kind

SPECS = [ZostreamSpec(**ZostreamSpec.presets[name]) for name in ("tiny", "fast")]


@pytest.mark.parametrize("spec", SPECS, ids=["tiny", "fast"])
def test_the_kinds_have_all_operations_together(spec):
    found = []
    for kind in ("perceptron", "encoder", "decoder"):
        images = random_images(spec, np.random.default_rng(1), kind)
        spec.check(images)
        found += images.program.instructions
        assert images.program.capacity // 2 >= 4
    assert {one.kind for one in found} == {*Kind}
    assert {one.join for one in found} == {*Join}
    assert {one.activation for one in found} == {*range(len(ACTIVATIONS) + 1)}
    assert {(one.causal, one.rotary) for one in found if one.kind == Kind.ATTENTION} == {(0, 0), (1, 1)}


def test_some_weights_alone_or_later_operations_are_tuned():
    rng = np.random.default_rng(2)
    some = random_images(SPECS[0], rng, "encoder", sensitive=5).model
    assert {*some.order.places} == {*some.sensitive}
    assert {len(places) for places in some.sensitive.values()} == {5}
    later = random_images(SPECS[0], rng, "decoder", first=8).model
    assert min(name[0] for name in later.order.places) == 8


def test_sentences_have_the_shortest_and_the_longest():
    images = random_images(SPECS[0], np.random.default_rng(3))
    sentences, labels = random_sentences(images, 9, 7, np.random.default_rng(4))
    lengths = (sentences >= 0).sum(axis=1)
    assert (sentences.shape, min(lengths), max(lengths), len(labels)) == ((9, 7), 1, 7, 9)
    assert {*labels} <= {0, 1, 2}
