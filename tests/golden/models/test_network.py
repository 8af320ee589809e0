"""Descriptions: shapes, sizes and refusals."""

import subprocess
import sys

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.models.network import BatchNorm, Convolution, Flatten, Linear, MaxPool, Network, Relu
from fabtune.golden.models.presets import NETWORKS, preset


def network(*layers, shape=(1, 8, 8)):
    return Network("net", shape, layers)


@pytest.mark.parametrize(
    ("name", "inputs", "parameters", "macs", "classes"),
    [
        # LeCun et al. 1998, with the 5 x 5 kernels, full connections and max-pools of InstantFT
        ("lenet5-mnist", (784, 1176, 400, 120, 84), 61_706, 416_520, 10),
        ("lenet5-svhn", (3072, 1176, 400, 120, 84), 62_006, 651_720, 10),
        ("fan", (256, 96, 96), 256 * 96 + 96 + 96 * 96 + 96 + 96 * 3 + 3, 256 * 96 + 96 * 96 + 96 * 3, 3),
        ("har", (561, 96, 96), 561 * 96 + 96 + 96 * 96 + 96 + 96 * 6 + 6, 561 * 96 + 96 * 96 + 96 * 6, 6),
        ("digits", (64, 128, 32), 8 * 9 + 8 + 128 * 32 + 32 + 32 * 10 + 10, 8 * 9 * 64 + 128 * 32 + 32 * 10, 10),
    ],
)
def test_presets_have_the_sizes_of_the_papers(name, inputs, parameters, macs, classes):
    net = preset(name)
    assert tuple(stage.inputs for stage in net.stages) == inputs
    assert net.parameters == parameters
    assert sum(stage.macs for stage in net.stages) == macs
    assert net.classes == classes


def test_the_presets_are_the_ones_tested_here():
    assert set(NETWORKS) == {"lenet5-mnist", "lenet5-svhn", "fan", "har", "digits"}


def test_an_unknown_preset_is_refused_with_what_there_is():
    with pytest.raises(UserError, match=r"no network 'resnet'; there are: lenet5-mnist, .*or --model file\.py:build"):
        preset("resnet")


def test_stages_of_lenet5():
    first, second, third, *_, last = preset("lenet5-mnist").stages
    assert (first.input_shape, first.computed_shape, first.output_shape) == ((1, 28, 28), (6, 28, 28), (6, 14, 14))
    assert (first.weight_shape, first.channels, first.biases) == ((6, 1, 5, 5), 1, 6)
    assert (second.input_shape, second.computed_shape, second.output_shape) == ((6, 14, 14), (16, 10, 10), (16, 5, 5))
    assert (third.input_shape, third.channels, third.weight_shape) == ((16, 5, 5), 16, (120, 400))
    assert [stage.relu for stage in preset("lenet5-mnist").stages] == [True, True, True, True, False]
    assert (last.weight_shape, last.channels, last.pool, last.batch_norm) == ((10, 84), 1, 1, False)


def test_batch_norm_belongs_to_the_stage_before_it():
    assert [stage.batch_norm for stage in preset("fan").stages] == [True, True, False]


def test_pool_and_relu_may_come_in_either_order():
    tail = (Flatten(), Linear(2))
    one = network(Convolution(3, 3), Relu(), MaxPool(2), *tail)
    other = network(Convolution(3, 3), MaxPool(2), Relu(), *tail)
    assert one.stages == other.stages
    assert one.stages[0].pool == 2


def test_a_pool_drops_what_fills_no_window():
    stage = network(Convolution(3, 2), MaxPool(2), Flatten(), Linear(2)).stages[0]
    assert (stage.computed_shape, stage.output_shape) == ((3, 7, 7), (3, 3, 3))


def test_a_flat_input_may_be_flattened_again():
    assert network(Flatten(), Linear(2), shape=(5,)).stages[0].weight_shape == (2, 5)


def test_an_image_may_be_flattened_first():
    stage = network(Flatten(), Linear(2)).stages[0]
    assert (stage.input_shape, stage.inputs) == ((1, 8, 8), 64)


TAIL = (Flatten(), Linear(2))
CONV = Convolution(3, 3)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "net must end in a linear layer: its outputs are the logits"),
        ((CONV,), "net must end in a linear layer"),
        ((*TAIL, Relu()), "net must end in a linear layer"),
        ((*TAIL, BatchNorm()), "net must end in a linear layer"),
        ((Linear(2),), "net, layer 0 (Linear): the input is (1, 8, 8); flatten it first"),
        ((Flatten(), Linear(0)), "net, layer 1 (Linear): 0 outputs"),
        ((Flatten(), CONV, Linear(2)), "layer 1 (Convolution): a convolution needs (channels, height, width), not a"),
        ((*TAIL, CONV, *TAIL), "layer 2 (Convolution): a convolution needs"),
        ((Convolution(0, 3), *TAIL), "layer 0 (Convolution): 0 channels, kernel 3, padding 0"),
        ((Convolution(3, 0), *TAIL), "layer 0 (Convolution): 3 channels, kernel 0, padding 0"),
        ((Convolution(3, 3, -1), *TAIL), "layer 0 (Convolution): 3 channels, kernel 3, padding -1"),
        ((Convolution(3, 9), *TAIL), "layer 0 (Convolution): a kernel of 9 does not fit (1, 8, 8)"),
        ((BatchNorm(), *TAIL), "layer 0 (BatchNorm): batch norm must directly follow"),
        ((CONV, Relu(), BatchNorm(), *TAIL), "layer 2 (BatchNorm): batch norm must directly follow"),
        ((CONV, MaxPool(2), BatchNorm(), *TAIL), "layer 2 (BatchNorm): batch norm must directly follow"),
        ((CONV, BatchNorm(), BatchNorm(), *TAIL), "layer 2 (BatchNorm): batch norm must directly follow"),
        ((CONV, Flatten(), BatchNorm(), Linear(2)), "layer 2 (BatchNorm): batch norm must directly follow"),
        ((Relu(), *TAIL), "layer 0 (Relu): a ReLU must follow a layer with weights"),
        ((MaxPool(2), *TAIL), "layer 0 (MaxPool): a max-pool must follow a convolution, one at most"),
        ((CONV, MaxPool(2), MaxPool(2), *TAIL), "layer 2 (MaxPool): a max-pool must follow a convolution, one at most"),
        ((*TAIL, MaxPool(2)), "layer 2 (MaxPool): a max-pool must follow a convolution"),
        ((CONV, MaxPool(1), *TAIL), "layer 1 (MaxPool): windows of 1 x 1 do not fit (3, 6, 6)"),
        ((CONV, MaxPool(7), *TAIL), "layer 1 (MaxPool): windows of 7 x 7 do not fit (3, 6, 6)"),
    ],
)
def test_what_has_no_hardware_is_refused(layers, message):
    with pytest.raises(UserError) as mistake:
        network(*layers)
    assert str(mistake.value).startswith(message) or message in str(mistake.value)


@pytest.mark.parametrize("shape", [(), (8, 8), (0,), (1, 0, 8), (1, 1, 8, 8)])
def test_an_input_that_is_neither_vector_nor_image_is_refused(shape):
    with pytest.raises(UserError, match="an input is"):
        network(Flatten(), Linear(2), shape=shape)


def test_descriptions_do_not_need_pytorch():
    code = "import sys, fabtune.golden.models.presets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
