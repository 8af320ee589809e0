"""Descriptions: shapes, sizes and refusals."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.models.activations import HardSwish, Relu
from fabtune.golden.models.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Convolution,
    Depthwise,
    Flatten,
    Linear,
    MaxPool,
)
from fabtune.golden.models.network import Network, deployed
from fabtune.golden.models.stages import after_cut
from fabtune.golden.models.text import NETWORKS, network_from, preset, text_of


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
    assert [stage.activation for stage in preset("lenet5-mnist").stages] == [*[Relu()] * 4, None]
    assert (last.weight_shape, last.channels, last.pool, last.batch_norm) == ((10, 84), 1, None, False)


def test_batch_norm_belongs_to_the_stage_before_it():
    assert [stage.batch_norm for stage in preset("fan").stages] == [True, True, False]


def test_pool_and_relu_may_come_in_either_order():
    tail = (Flatten(), Linear(2))
    one = network(Convolution(3, 3), Relu(), MaxPool(2), *tail)
    other = network(Convolution(3, 3), MaxPool(2), Relu(), *tail)
    assert one.stages == other.stages
    assert one.stages[0].pool == MaxPool(2)


def test_a_pool_drops_what_fills_no_window():
    stage = network(Convolution(3, 2), MaxPool(2), Flatten(), Linear(2)).stages[0]
    assert (stage.computed_shape, stage.output_shape) == ((3, 7, 7), (3, 3, 3))


def test_a_flat_input_may_be_flattened_again():
    assert network(Flatten(), Linear(2), shape=(5,)).stages[0].weight_shape == (2, 5)


def test_an_image_may_be_flattened_first():
    stage = network(Flatten(), Linear(2)).stages[0]
    assert (stage.input_shape, stage.inputs) == ((1, 8, 8), 64)


TAIL = (Flatten(), Linear(2))
JOINED = ((-1,), (0, 0), (1,))
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
    code = "import sys, fabtune.golden.models.text; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- graphs ------------------------------------------------------------------------------------------------------------

BLOCK = (Convolution(2, 1), Relu(), Convolution(2, 3, 1), BatchNorm(), Convolution(2, 1), Add(), Relu(), *TAIL)
BLOCK_SOURCES = ((-1,), (0,), (1,), (2,), (1,), (4, 3), (5,), (6,), (7,))


def graph(layers, sources, shape=(1, 8, 8)):
    return Network("net", shape, layers, sources)


def test_the_later_of_two_stages_adds_the_earlier_one():
    for sum_of in ((4, 3), (3, 4)):
        net = graph(BLOCK, (*BLOCK_SOURCES[:5], sum_of, *BLOCK_SOURCES[6:]))
        assert [stage.source for stage in net.stages] == [(-1,), (0,), (0,), (2,)]
        assert [stage.residual for stage in net.stages] == [None, None, (1,), None]
        assert [stage.activation for stage in net.stages] == [Relu(), None, Relu(), None]
        assert [stage.batch_norm for stage in net.stages] == [False, True, False, False]


def test_a_sample_can_be_a_residual():
    net = graph((Convolution(1, 3, 1), Add(), Relu(), *TAIL), ((-1,), (-1, 0), (1,), (2,), (3,)))
    assert (net.stages[0].residual, net.stages[0].forward_flops) == ((-1,), 2 * 9 * 64 + 3 * 64)


def test_a_deployed_graph_has_no_batch_norm_and_the_same_stages():
    net = deployed(graph(BLOCK, BLOCK_SOURCES))
    assert net.sources == ((-1,), (0,), (1,), (1,), (3, 2), (4,), (5,), (6,))
    given = graph(BLOCK, BLOCK_SOURCES).stages
    assert net.stages == tuple(replace(stage, batch_norm=False) for stage in given)


def test_sources_of_a_chain_are_none():
    assert graph(TAIL, ((-1,), (0,))) == network(*TAIL)
    assert network(*TAIL).reads == ((-1,), (0,))


@pytest.mark.parametrize(
    ("layer", "shape", "weights", "parameters", "macs"),
    [
        (Convolution(4, (3, 2), (0, 1, 0, 1), (2, 3)), (4, 4, 3), (4, 2, 3, 2), 52, 4 * 2 * 6 * 12),
        (Depthwise((3, 2), 0, 2), (2, 3, 4), (2, 1, 3, 2), 14, 2 * 6 * 12),
        (Depthwise(1), (2, 8, 8), (2, 1, 1, 1), 4, 2 * 64),
    ],
)
def test_sizes_of_a_layer(layer, shape, weights, parameters, macs):
    stage = network(layer, *TAIL, shape=(2, 8, 8)).stages[0]
    assert (stage.output_shape, stage.weight_shape) == (shape, weights)
    assert (stage.parameters, stage.macs) == (parameters, macs)


def test_a_scale_of_a_vector():
    stage = network(Flatten(), Depthwise(1), Linear(2)).stages[0]
    assert (stage.input_shape, stage.output_shape, stage.weight_shape) == ((1, 8, 8), (64,), (64, 1, 1, 1))
    assert (stage.parameters, stage.macs) == (128, 64)


def test_operations_of_pools_and_activations():
    def flops(*layers):
        return network(Convolution(1, 1), *layers, *TAIL).stages[0].forward_flops - 3 * 64

    assert (flops(Relu()), flops(Relu(6)), flops(Relu(slope=0.1)), flops(HardSwish())) == (64, 128, 128, 320)
    assert (flops(MaxPool(2)), flops(AveragePool(2)), flops(MaxPool(3, 1))) == (16 * 3, 16 * 4, 36 * 8)


def test_limits_of_neighbouring_relus_are_one():
    tails = (Relu(6), Relu()), (Relu(), Relu(6)), (Relu(6), MaxPool(2), Relu(7))
    found = [network(Convolution(1, 1), *tail, *TAIL).stages[0].activation for tail in tails]
    assert found == [Relu(6)] * 3
    tails = (Relu(slope=0.1), Relu()), (Relu(6), Relu(slope=0.1)), (Relu(6, 0.2), MaxPool(2))
    found = [network(Convolution(1, 1), *tail, *TAIL).stages[0].activation for tail in tails]
    assert found == [Relu(), Relu(6), Relu(6, 0.2)]


@pytest.mark.parametrize(
    ("layers", "sources", "message"),
    [
        (TAIL, ((-1,),), "net has 2 layers, and sources of 1"),
        (TAIL, ((-1,), (0, -1)), "layer 1 (Linear) reads 2 layers"),
        (TAIL, ((-1,), (1,)), "layer 1 (Linear) reads layers (1,), which are not all before it"),
        ((CONV, Add(), *TAIL), ((-1,), (0,), (1,), (2,)), "layer 1 (Add) reads 1 layers"),
        ((CONV, CONV, *TAIL), ((-1,), (-1,), (1,), (2,)), "layer 0 (Convolution): no layer reads its outputs"),
        (
            (CONV, Relu(), CONV, Add(), *TAIL),
            ((-1,), (0,), (-1,), (0, 2), (3,), (4,)),
            "layer 3 (Add) reads the outputs of layer 0 before layer 1: a stage gives only those behind",
        ),
        (
            (CONV, CONV, Relu(), Add(), *TAIL),
            ((-1,), (-1,), (1,), (0, 2), (3,), (4,)),
            "layer 3 (Add): it adds to layer 2, behind its ReLU: a residual is added before",
        ),
        (
            (CONV, CONV, MaxPool(2), Add(), *TAIL),
            ((-1,), (-1,), (1,), (0, 2), (3,), (4,)),
            "layer 3 (Add): it adds (3, 6, 6) to (3, 3, 3)",
        ),
        (
            (Convolution(1, 3, 1), Add(), Add(), *TAIL),
            ((-1,), (0, -1), (1, -1), (2,), (3,)),
            "layer 2 (Add): it adds to layer 1, behind its residual",
        ),
        (
            (CONV, Convolution(1, 1), Relu(), Add(), *TAIL),
            ((-1,), (0,), (0,), (1, 2), (3,), (4,)),
            "layer 2 (Relu) follows layer 0, which layer 1 reads without it: a stage gives only the outputs behind",
        ),
        (
            (Convolution(1, 1), Convolution(1, 1), Add(), Add(), *TAIL),
            ((-1,), (-1,), (0, 1), (0, -1), (3,), (4,)),
            "layer 3 (Add) follows layer 0, which layer 2 reads without it",
        ),
        ((CONV, Add(), *TAIL), ((-1,), (0, 0), (1,), (2,)), "it adds the outputs of one stage to themselves"),
        ((Add(), *TAIL), ((-1, -1), (0,), (1,)), "it adds the outputs of one stage to themselves"),
        ((CONV, Add(), *TAIL), ((-1,), (0, -1), (1,), (2,)), "layer 1 (Add): it adds (3, 6, 6) to (1, 8, 8)"),
        (
            (Convolution(1, 3, 1), Flatten(), Add(), Linear(2)),
            ((-1,), (0,), (1, -1), (2,)),
            "layer 2 (Add): it adds (64,) to (1, 8, 8)",
        ),
        (
            (Convolution(1, 3, 1), Add(), BatchNorm(), *TAIL),
            ((-1,), (0, -1), (1,), (2,), (3,)),
            "layer 2 (BatchNorm): batch norm must directly follow",
        ),
        ((CONV, Concat(), *TAIL), ((-1,), (0,), (1,), (2,)), "layer 1 (Concat) reads 1 layers"),
        (
            (CONV, Concat(), *TAIL),
            ((-1,), (0, -1), (1,), (2,)),
            "layer 1 (Concat): it puts (3, 6, 6), (1, 8, 8) side by side",
        ),
        (
            (CONV, Flatten(), Concat(), Linear(2)),
            ((-1,), (0,), (0, 1), (2,)),
            "layer 2 (Concat): it puts (3, 6, 6), (108,) side by side",
        ),
        ((CONV, Concat(), Relu(), *TAIL), (*JOINED, (2,), (3,)), "layer 2 (Relu): a ReLU behind a concatenation"),
        ((CONV, Concat(), MaxPool(2), *TAIL), (*JOINED, (2,), (3,)), "layer 2 (MaxPool): a max-pool behind a conc"),
        ((CONV, Concat(), BatchNorm(), *TAIL), (*JOINED, (2,), (3,)), "layer 2 (BatchNorm): batch norm must direct"),
        (
            (Convolution(6, 3), CONV, Concat(), Add(), *TAIL),
            ((-1,), (-1,), (1, 1), (2, 0), (3,), (4,)),
            "layer 3 (Add): it adds to a concatenation: a residual is added before",
        ),
        (
            (CONV, Concat(), Relu(), *TAIL),
            ((-1,), (0, 0), (0,), (1,), (3,)),
            "layer 3 (Flatten) reads the outputs of layer 0 before layer 2: a stage gives only",
        ),
        (
            (Flatten(), Linear(2), Linear(2), Concat()),
            ((-1,), (0,), (0,), (1, 2)),
            "net must end in one linear layer, not in a concatenation",
        ),
    ],
)
def test_a_graph_without_hardware_is_refused(layers, sources, message):
    with pytest.raises(UserError, match=re.escape(message)):
        graph(layers, sources)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((CONV, AveragePool(2), Relu(), *TAIL), "layer 2 (Relu): a ReLU behind an average pool has no hardware"),
        ((CONV, Relu(0), *TAIL), "layer 1 (Relu): a limit is above 0, not 0"),
        ((CONV, Relu(float("nan")), *TAIL), "layer 1 (Relu): a limit is above 0, not nan"),
        ((CONV, MaxPool(2, 3), *TAIL), "layer 1 (MaxPool): a stride of 3 x 3 is not 1 to the window's 2 x 2"),
        ((CONV, AveragePool(7), *TAIL), "layer 1 (AveragePool): windows of 7 x 7 do not fit (3, 6, 6)"),
        ((AveragePool(2), *TAIL), "layer 0 (AveragePool): an average pool must follow a convolution, one at most"),
        ((CONV, AveragePool(2), MaxPool(2), *TAIL), "layer 2 (MaxPool): a max-pool must follow a convolution, one"),
        ((Convolution(1, 3, 0, 0), *TAIL), "1 channels, kernel 3, padding 0, stride 0"),
        ((CONV, Convolution(3, 1, groups=2), *TAIL), "layer 1 (Convolution): 2 groups of 3 channels and 3 outputs"),
        ((CONV, Convolution(4, 1, groups=3), *TAIL), "layer 1 (Convolution): 3 groups of 3 channels and 4 outputs"),
        ((CONV, Convolution(4, 1, groups=0), *TAIL), "layer 1 (Convolution): 0 groups of 3 channels and 4 outputs"),
        ((Convolution(1, (3, 0), (0, 0, 0, -1)), *TAIL), "1 channels, kernel 3 x 0, padding 0 x 0 x 0 x -1"),
        ((Depthwise((9, 1)), *TAIL), "layer 0 (Depthwise): a kernel of 9 x 1 does not fit (1, 8, 8)"),
        ((Flatten(), Depthwise(3), Linear(2)), "of a vector, a depthwise convolution has a kernel of 1"),
    ],
)
def test_a_layer_without_hardware_is_refused(layers, message):
    with pytest.raises(UserError, match=re.escape(message)):
        network(*layers)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (1, ""),
        (2, "a network is not cut before stage 2: stage 2 has its source before that"),
        (3, ""),
    ],
)
def test_a_graph_is_cut_where_nothing_passes_by(cut, message):
    stages = graph(BLOCK, BLOCK_SOURCES).stages
    if message:
        with pytest.raises(UserError, match=message):
            after_cut(stages, cut)
        return
    assert after_cut(stages, 0) == list(stages)
    shifted = [(one.source, one.residual) for one in after_cut(stages, cut)]
    assert shifted == [((-1,), None), *([((-1,), (0,)), ((1,), None)] if cut == 1 else [])]


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "layers", "sources"),
    [
        ("1x8x8 conv3k3 flatten fc2", (CONV, *TAIL), ()),
        (
            "1x8x8 conv3k3 leaky0.01 conv3k3 leaky1e-05to1.5 flatten fc2",
            (CONV, Relu(slope=0.01), CONV, Relu(1.5, 1e-5), *TAIL),
            (),
        ),
        ("1x8x8 conv3k3 pool3p1s2 flatten fc2", (CONV, MaxPool(3, 2, 1), *TAIL), ()),
        ("1x8x8 conv3k3 pool2x3p1,0,0,2 flatten fc2", (CONV, MaxPool((2, 3), None, (1, 0, 0, 2)), *TAIL), ()),
        ("1x8x8 conv3k3p1s2 relu6 pool3s2 flatten fc2", (Convolution(3, 3, 1, 2), Relu(6), MaxPool(3, 2), *TAIL), ()),
        (
            "1x8x8 conv3k3x1p0,1,0,2s2x1 relu0.1 pool3x2s2x1 flatten fc2",
            (Convolution(3, (3, 1), (0, 1, 0, 2), (2, 1)), Relu(0.1), MaxPool((3, 2), (2, 1)), *TAIL),
            (),
        ),
        (
            "1x8x8 dw3p1s2 avg2x3 flatten dw1 fc2",
            (Depthwise(3, 1, 2), AveragePool((2, 3)), *TAIL[:1], Depthwise(1), *TAIL[1:]),
            (),
        ),
        ("1x8x8 conv2k1 relu conv2k3p1 norm conv2k1@1 add@4,3 relu flatten fc2", BLOCK, BLOCK_SOURCES),
        (
            "1x8x8 conv4k3p1s2 cat@0,0 conv6k1x3s2g2 flatten fc2",
            (Convolution(4, 3, 1, 2), Concat(), Convolution(6, (1, 3), 0, 2, 2), *TAIL),
            ((-1,), (0, 0), (1,), (2,), (3,)),
        ),
    ],
)
def test_text_is_a_description(text, layers, sources):
    net = network_from(text)
    assert (net.layers, net.sources) == (layers, sources)
    assert text_of(net) == text


@pytest.mark.parametrize(
    "word", ["conv3", "conv3k3p1,1", "pool", "avg2s2", "relu-1", "add@", "relu@x", "relu@1,", "sigmoid"]
)
def test_a_word_that_is_no_layer_is_refused(word):
    with pytest.raises(UserError, match=re.escape(repr(word))):
        network_from(f"1x8x8 {word} flatten fc2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2x1073741824x1073741824 flatten fc2",
            "a sample has 2 x 1073741824 x 1073741824 = 2305843009213693952 values",
        ),
        ("1x1x1 conv1k1p1000000000 flatten fc2", "its weight or output has 1 x 2000000001 x 2000000001 = "),
        (
            "1000000 fc1000",
            "its weight or output has 1000 x 1000000 = 1000000000 values, more than the limit of 134217728",
        ),
        (f"1 fc{'9' * 5000}", "it has a number of 100 digits or more"),
    ],
)
def test_sizes_beyond_the_limit_are_refused(text, message):
    with pytest.raises(UserError, match=re.escape(message)) as mistake:
        network_from(text)
    assert len(str(mistake.value)) < 300


def test_slopes_that_are_no_numbers_are_refused():
    for slope in (float("nan"), float("inf")):
        with pytest.raises(UserError, match="a slope is 0 or"):
            network(CONV, Relu(slope=slope), *TAIL)
