"""The array's network as a model: cuts, segments, and oversized parameters. test_job covers its steps."""

import numpy as np
import pytest

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.train.zo.parameter_order import ArrayOrder
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.network_model import NetworkModel, check_cut

CHANNELS = "3x7x6 conv5k3p1 relu pool2 conv6k2 relu flatten fc9 relu fc4"
RESIDUAL = "16 fc16 relu fc16 relu fc16 add@4,1 relu fc4"


def mapping_of(network=CHANNELS):
    return PerturbationMapping(Mapping.of(network_from(network), 16, 4))


@pytest.mark.parametrize(
    ("mapping", "cut", "refusal"),
    [
        (mapping_of(), 4, "cut = 4: .* of 4 stages is cut at 0 to 3"),
        (mapping_of(), -1, "cut = -1"),
        (mapping_of(RESIDUAL), 2, "not cut before stage 2: stage 2 has its residual before that"),
        (ZotrainSpec(**ZotrainSpec.presets["large"]).mapping, 1, "cut = 1: where words share rows of deltas"),
    ],
)
def test_a_cut_that_a_network_does_not_have_is_refused(mapping, cut, refusal):
    with pytest.raises(UserError, match=refusal):
        check_cut(mapping, cut)


def test_parts_are_those_of_the_cut(parameters):
    mapping = mapping_of()
    model = NetworkModel(mapping, parameters(mapping))
    (whole,) = model.parts(0)
    assert np.array_equal(whole.rows, np.arange(model.mapping.all_rows))
    first, second = model.parts(2)
    assert (first.words + second.words, len(first.rows)) == (whole.words, first.words)
    for part in (whole, first, second):
        assert np.array_equal(whole.frozen[part.rows], part.frozen)
    with pytest.raises(UserError, match="cut = 4"):
        model.parts(4)


def test_words_of_two_pixels_have_one_order_in_software_and_core():
    spec = ZotrainSpec(network=CHANNELS, lanes=32, columns=16)
    assert any(stage.pair for stage in spec.mapping.forward.stages)
    order = ArrayOrder.of(spec.described, 32, 16).mapping
    for own, others in zip(spec.mapping.positions, order.positions, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(own, others, strict=True))
    numbers = np.concatenate([one.reshape(-1) for own in order.positions for one in own])
    assert len(np.unique(numbers)) == len(numbers)


def test_parameters_of_other_shapes_are_refused(parameters):
    model = NetworkModel(mapping_of(), parameters(mapping_of())[::-1])
    with pytest.raises(UserError, match="do not fit"):
        model.parts(0)
