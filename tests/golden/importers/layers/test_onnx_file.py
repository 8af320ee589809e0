"""Import of ONNX files, compared with onnxruntime; invalid files are refused in one line."""

import logging
import re

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import onnx_network
from fabtune.golden.importers.onnx_file import LARGEST_FILE, OPSETS
from fabtune.golden.models.activations import HardSwish, Relu
from fabtune.golden.models.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Convolution,
    Depthwise,
    Flatten,
    Linear,
    MaxPool,
)

from ....onnx_models import array, head, model_of, node, same


@pytest.fixture
def imported(tmp_path):
    """Import a model and compare it with onnxruntime; returns description and module."""

    def run(model, shape=(2, 8, 8), turned=False):
        path = tmp_path / "model.onnx"
        if model is not None:
            path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        network, module = same(onnx.load(path), path, (2, 3, 1) if turned else None)
        assert network.input_shape == shape
        return network, module

    return run


class Net(nn.Module):
    """A residual, depthwise and strided convolutions, ReLU6, both ways to flatten."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.body, self.other = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.depth, self.hidden, self.head = nn.Conv2d(4, 4, 3, 2, 1, groups=4), nn.Linear(4, 6), nn.Linear(6, 3)
        for norm in (self.norm, self.other):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = functional.relu6(self.norm(self.stem(x)))
        x = functional.relu(self.other(self.body(x)) + x)
        x = functional.adaptive_avg_pool2d(functional.relu(self.depth(x)), 1)
        return self.head(functional.dropout(self.hidden(x.view(x.size(0), -1)).relu(), training=self.training))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("graphs", [False, True], ids=["traced", "exported"])
@pytest.mark.parametrize("batch", ["open", "fixed"])
def test_files_of_pytorch(graphs, batch, imported, tmp_path):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.manual_seed(0)
    module = Net().eval()
    settings = {"dynamo": graphs, "input_names": ["x"]}
    if batch == "open":
        shapes = (
            {"dynamic_shapes": ({0: torch.export.Dim("batch")},)} if graphs else {"dynamic_axes": {"x": {0: "batch"}}}
        )
        settings |= shapes
    torch.onnx.export(module, (torch.zeros(2, 2, 8, 8),), tmp_path / "model.onnx", verbose=False, **settings)
    network, own = imported(None)
    assert [stage.residual for stage in network.stages] == [None, (0,), None, None, None]
    kinds = [type(layer) for layer in network.layers if not isinstance(layer, BatchNorm)]
    assert kinds == [
        *(Convolution, Relu, Convolution, Add, Relu, Depthwise, Relu, AveragePool, Flatten, Linear, Relu, Linear)
    ]
    x = torch.randn(2, 2, 8, 8)
    torch.testing.assert_close(own(x), module(x), rtol=1e-4, atol=1e-5)
    assert "head.weight" in own.tensor_names.values()


def test_a_file_as_tf2onnx_makes_it(imported):
    """Input (height, width, channels), asymmetric padding, biases as sums, matrices (in, out)."""
    nodes = [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]),
        node("Conv", "t w1", "c1", auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[3, 3]),
        node("Add", "c1 b1", "a1"),
        node("Clip", "a1 zero six", "r1"),
        node("Conv", "r1 w2", "c2", auto_pad="SAME_UPPER", group=4),
        node("Relu", "c2", "r2"),
        node("GlobalAveragePool", "r2", "p"),
        node("Squeeze", "p axes", "v"),
        node("MatMul", "v w3", "m"),
        node("Add", "m b3", "y"),
    ]
    constants = {
        "w1": array(4, 2, 3, 3),
        "b1": array(1, 4, 1, 1),
        "w2": array(4, 1, 3, 2),
        "w3": array(4, 3),
        "b3": array(3),
        "zero": np.float32(0),
        "six": np.float32(6),
        "axes": np.array([2, 3]),
    }
    network, own = imported(model_of(nodes, constants, ("n", 8, 10, 2)), (2, 8, 10), turned=True)
    assert network.layers == (
        *(Convolution(4, 3, (0, 1, 0, 1), 2), Relu(6), Depthwise((3, 2), (1, 1, 0, 1)), Relu(), AveragePool((4, 5))),
        *(Flatten(), Linear(3)),
    )
    assert own.titles[0] == "my_Conv"


FORMS = {
    "stride and pads": (
        [node("Conv", "x w b", "v", strides=[2, 1], pads=[0, 1, 2, 0])],
        Convolution(4, 3, (0, 2, 1, 0), (2, 1)),
    ),
    "lower": ([node("Conv", "x w b", "v", auto_pad="SAME_LOWER", strides=[2, 2])], Convolution(4, 3, (1, 0, 1, 0), 2)),
    "valid": ([node("Conv", "x w b", "v", auto_pad="VALID")], Convolution(4, 3)),
    "zeros around": (
        [node("Pad", "x pads", "p"), node("Conv", "p w b", "v", pads=[1, 1, 1, 1])],
        Convolution(4, 3, (1, 2, 2, 1)),
    ),
    "max": (
        [node("Conv", "x w b", "c"), node("MaxPool", "c", "v", kernel_shape=[3, 2], strides=[2, 2])],
        MaxPool((3, 2), 2),
    ),
    "beyond the map": (
        [node("Conv", "x w b", "c"), node("MaxPool", "c", "v", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])],
        MaxPool((3, 2), (2, 1), (1, 1, 0, 1)),
    ),
    "rounded up": (
        [node("Conv", "x w b", "c"), node("MaxPool", "c", "v", kernel_shape=[3, 4], strides=[2, 4], ceil_mode=1)],
        MaxPool((3, 4), (2, 4), (0, 1, 0, 2)),
    ),
    "average": (
        [node("Conv", "x w b", "c"), node("AveragePool", "c", "v", kernel_shape=[2, 2], strides=[2, 2])],
        AveragePool(2),
    ),
    "mean": ([node("Conv", "x w b", "c"), node("ReduceMean", "c map", "v", keepdims=0)], AveragePool(6)),
    "norm": ([node("Conv", "x w b", "c"), node("BatchNormalization", "c s b m r", "v", epsilon=0.01)], BatchNorm()),
    "norm of the sample": (
        [node("BatchNormalization", "x s2 b2 m2 r2", "n"), node("Conv", "n w b", "v")],
        Depthwise(1),
    ),
    "identity and dropout": (
        [node("Identity", "x", "i"), node("Conv", "i w b", "c"), node("Dropout", "c half", "v")],
        Convolution(4, 3),
    ),
    "a constant": (
        [node("Constant", "", "k", value=numpy_helper.from_array(array(4, 2, 3, 3))), node("Conv", "x k b", "v")],
        Convolution(4, 3),
    ),
    "clip without an end": ([node("Conv", "x w b", "c"), node("Clip", "c zero", "v")], Relu()),
    "a slope": ([node("Conv", "x w b", "c"), node("LeakyRelu", "c", "v", alpha=0.1)], Relu(slope=0.1)),
    "hard-swish": ([node("Conv", "x w b", "c"), node("HardSwish", "c", "v")], HardSwish()),
    "the usual slope": ([node("Conv", "x w b", "c"), node("LeakyRelu", "c", "v")], Relu(slope=0.01)),
}
CONSTANTS = {
    "w": array(4, 2, 3, 3),
    "b": array(4),
    "pads": np.array([0, 0, 0, 1, 0, 0, 1, 0]),
    "map": np.array([2, 3]),
    "s": array(4),
    "m": array(4),
    "r": np.abs(array(4)) + 1,
    "half": np.float32(0.5),
    "zero": np.float32(0),
    "s2": array(2),
    "b2": array(2),
    "m2": array(2),
    "r2": np.abs(array(2)) + 1,
}


@pytest.mark.parametrize(("nodes", "layer"), FORMS.values(), ids=FORMS)
def test_a_node_is_a_layer(nodes, layer, imported):
    with_shapes = onnx.shape_inference.infer_shapes(model_of(nodes, CONSTANTS, outputs=("v",)))
    features = int(np.prod([one.dim_value for one in with_shapes.graph.output[0].type.tensor_type.shape.dim][1:]))
    tail, constants = head(features)
    network, _ = imported(model_of([*nodes, *tail], CONSTANTS | constants))
    assert layer in network.layers


def test_a_file_in_another_order_is_read(tmp_path):
    tail, constants = head(144)
    nodes, found = [node("Conv", "x w b", "c"), node("Relu", "c", "v"), *tail], []
    for order in (nodes, nodes[::-1]):
        (tmp_path / "model.onnx").write_bytes(model_of(order, CONSTANTS | constants).SerializeToString())
        found.append(onnx_network(tmp_path / "model.onnx"))
    (network, module), (other, turned) = found
    x = torch.randn(2, 2, 8, 8)
    assert network == other
    assert torch.equal(module(x), turned(x))


RESHAPES = {
    "rest": ([node("Reshape", "x to", "v")], {"to": np.array([0, -1])}),
    "all features": ([node("Reshape", "x to", "v")], {"to": np.array([-1, 128])}),
    "twice": ([node("Flatten", "x", "u"), node("Reshape", "u to", "v")], {"to": np.array([-1, 128])}),
    "computed": (
        [
            *(node("Shape", "x", "s"), node("Gather", "s at", "n"), node("Unsqueeze", "n ax", "n1")),
            *(node("Concat", "n1 rest", "to", axis=0), node("Reshape", "x to", "v")),
        ],
        {"at": np.array(0), "ax": np.array([0]), "rest": np.array([-1])},
    ),
}


@pytest.mark.parametrize(("nodes", "constants"), RESHAPES.values(), ids=RESHAPES)
def test_reshapes_that_flatten(nodes, constants, imported):
    tail = [node("Gemm", "v w b", "y", alpha=0.5, beta=2.0)]
    network, _ = imported(model_of([*nodes, *tail], constants | {"w": array(128, 3), "b": array(1, 3)}))
    assert {*network.layers} == {Flatten(), Linear(3)}


def test_a_vector_through_matrices(imported):
    nodes = [node("MatMul", "x w1", "m"), node("Add", "b1 m", "a"), node("Relu", "a", "r"), node("MatMul", "r w2", "y")]
    constants = {"w1": array(6, 5), "b1": array(5), "w2": array(5, 3)}
    network, own = imported(model_of(nodes, constants, ("n", 6)), (6,))
    assert network.layers == (Linear(5), Relu(), Linear(3))
    assert own[0].bias is not None
    assert own[2].bias is None


@pytest.mark.parametrize("opset", [OPSETS[0], 11, 13, OPSETS[-1]])
def test_opsets_that_are_read(opset, imported):
    tail, constants = head(144)
    imported(model_of([node("Conv", "x w b", "v"), *tail], CONSTANTS | constants, opset=opset))


CONV, RELU = node("Conv", "x w b", "c"), node("Relu", "c", "v")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([CONV, node("Sigmoid", "c", "v")], "node 'my_Sigmoid' (Sigmoid): has no hardware; supported: convolution"),
        ([CONV, node("LeakyRelu", "c", "v", alpha=1.0)], "a slope is 0 or 2**-16 to less than 1, not 1.0"),
        ([CONV, node("Elu", "c", "v")], "node 'my_Elu' (Elu): has no hardware"),
        ([CONV, node("Softmax", "c", "v")], "of (4, 6, 6) over the axis -1 has no hardware"),
        ([CONV, node("Clip", "c half zero", "v")], "clips from 0.5 to 0.0, not from 0"),
        (
            [CONV, node("AveragePool", "c", "v", kernel_shape=[2, 2], pads=[1, 0, 0, 0])],
            "has a padding of (1, 0, 0, 0)",
        ),
        ([CONV, node("AveragePool", "c", "v", kernel_shape=[4, 4], strides=[4, 4], ceil_mode=1)], "has ceil_mode"),
        ([CONV, node("AveragePool", "c", "v", kernel_shape=[2, 2])], "has a stride of (1, 1), not that of its size"),
        ([CONV, node("ReduceMean", "c half2", "v")], "is over [1], not over a map's height and width"),
        ([CONV, node("Flatten", "c", "v", axis=2)], "has the axis 2, not 1"),
        ([CONV, node("Transpose", "c", "v", perm=[1, 0, 2, 3])], "by [1, 0, 2, 3] of (4, 6, 6) has no hardware"),
        ([CONV, node("Reshape", "c to", "v")], "from (4, 6, 6) to -1 x 36 does not keep each sample for itself"),
        ([node("Conv", "x w b", "v", dilations=[2, 2])], "has dilations of [2, 2], not 1"),
        ([node("Conv", "x w b", "v", pads=[-1, 0, 0, 0])], "has a negative padding, -1, 0, 0, 0"),
        ([node("Conv", "x w b", "v", strides=[0, 1])], "has a kernel of (3, 3) and a stride of (0, 1)"),
        ([node("Conv", "x w b", "v", strides=[1])], "has strides of [1] for 2 axes"),
        ([node("Conv", "x w b", "v", group=2)], "has a weight of (4, 2, 3, 3) and 2 groups for 2 channels"),
        ([node("Conv", "x x b", "v")], "has a weight that is computed from the samples"),
        ([node("Conv", "x half3 b", "v")], "has weights 'half3' of float16, not float32"),
        ([node("Conv", "x nan b", "v")], "nan has NaN or infinity"),
        ([CONV, node("Conv", "c2 w3 b", "d"), node("Relu", "d", "c2"), RELU], "or there is a cycle"),
        ([node("Conv", "gone w b", "v")], "reads 'gone', which is missing"),
        ([CONV, RELU, node("Add", "v half", "d")], "adds half to what no layer with weights gives"),
        ([CONV, node("Conv", "x w b", "d"), node("Add", "c d", "v")], "w is shared with"),
        (
            [CONV, node("MaxPool", "c", "d", kernel_shape=[3, 3]), node("Add", "c d", "v")],
            "adds (4, 4, 4) to (4, 6, 6)",
        ),
        ([CONV, RELU, node("Relu", "x", "extra")], "a ReLU must follow a layer with weights"),
        (
            [node("Pad", "x minus", "p"), node("Conv", "p w b", "v")],
            "has a negative padding, [0, 0, 0, -1, 0, 0, 0, 0]",
        ),
        (
            [node("Pad", "x pads", "p"), node("Flatten", "p", "v")],
            "node 'my_Pad' (Pad): has hardware before a convolution only",
        ),
        ([node("BatchNormalization", "x s b m r", "v")], "has no four constants of 2 channels"),
        (
            [helper.make_node("Conv", ["x", "w", "b"], ["v"], name="theirs", domain="com.microsoft")],
            "of the domain com.mic",
        ),
        ([CONV, node("MaxPool", "c", "v i", kernel_shape=[2, 2]), node("Relu", "i", "z")], "gives 'i' as well"),
    ],
)
def test_nodes_without_hardware_are_refused_by_name(nodes, message, tmp_path):
    more = {
        "half2": np.array([1]),
        "to": np.array([-1, 36]),
        "half3": array(4, 2, 3, 3).astype(np.float16),
        "nan": array(4, 2, 3, 3) * np.nan,
        "w3": array(4, 4, 1, 1),
        "minus": np.array([0, 0, 0, -1, 0, 0, 0, 0]),
    }
    tail, constants = head(144)
    path = tmp_path / "model.onnx"
    model = model_of([*nodes, *tail], CONSTANTS | constants | more, domains=("com.microsoft",))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=re.escape(message)) as mistake:
        onnx_network(path)
    assert str(mistake.value).startswith(str(path))
    assert "\n" not in str(mistake.value)


def simple(**settings):
    tail, constants = head(144)
    return model_of([node("Conv", "x w b", "v"), *tail], CONSTANTS | constants, **settings)


def second_input(model):
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 2)))


def second_output(model):
    model.graph.output.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, None))


def other_output(model):
    model.graph.output[0].name = "w"


def earlier_output(model):
    model.graph.output[0].name = "v"


def other_type(model):
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def no_nodes(model):
    del model.graph.node[:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (second_input, "takes 2 inputs (x, z): a network here has one"),
        (second_output, "gives 2 outputs (y, v): a network here has one"),
        (other_output, "its output w does not depend on the sample"),
        (earlier_output, "gives the outputs of a layer that is not the last one"),
        (other_type, "the input x is no tensor of float32"),
        (no_nodes, "has no node: it is not an ONNX file, or empty"),
    ],
)
def test_models_of_another_kind_are_refused(change, message, tmp_path):
    model, path = simple(), tmp_path / "model.onnx"
    change(model)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=re.escape(f"{path}")) as mistake:
        onnx_network(path)
    assert message in str(mistake.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": ("n", 2, "height", 8)}, "a sample of x is of 2 x height x 8 shape: give fixed sizes"),
        ({"shape": ("n",)}, "a sample of x is of no shape: give fixed sizes"),
        ({"shape": None}, "a sample of x is of no shape"),
        ({"opset": OPSETS[0] - 1}, f"has opset {OPSETS[0] - 1}; {OPSETS[0]} to {OPSETS[-1]} are read"),
        ({"opset": OPSETS[-1] + 1}, f"has opset {OPSETS[-1] + 1}; {OPSETS[0]} to"),
    ],
)
def test_models_of_another_shape_or_version_are_refused(settings, message, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(simple(**settings).SerializeToString())
    with pytest.raises(UserError, match=re.escape(message)):
        onnx_network(path)


def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(UserError, match=f"has {2 << 30} bytes, more than the limit of {LARGEST_FILE}"):
        onnx_network(path)


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.1, 0.0])
def test_a_truncated_file_is_refused(kept, tmp_path):
    data, path = simple().SerializeToString(), tmp_path / "model.onnx"
    path.write_bytes(data[: int(kept * len(data))])
    with pytest.raises(UserError, match=re.escape(str(path))):
        onnx_network(path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_are_refused_or_read(seed, tmp_path):
    data, rng = bytearray(simple().SerializeToString()), np.random.default_rng(seed)
    for at in rng.integers(0, len(data), 4):
        data[at] = rng.integers(256)
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(data))
    try:
        onnx_network(path)
    except UserError as mistake:
        assert len(str(mistake).splitlines()) == 1  # noqa: PT017 - most are refused, some have another weight


def test_tensors_outside_are_read_from_the_models_folder(imported, tmp_path):
    onnx.save_model(
        simple(), tmp_path / "model.onnx", save_as_external_data=True, location="data.bin", size_threshold=0
    )
    assert (tmp_path / "data.bin").stat().st_size > 0
    imported(None)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../secret.bin"}, "tensor w is in '../secret.bin', which is no file of the model's folder"),
        ({"location": "/etc/hostname"}, "which is no file of the model's folder"),
        ({"location": "link.bin"}, "which is no file of the model's folder"),
        ({"location": "gone.bin"}, "which is no file of the model's folder"),
        ({}, "which is no file of the model's folder"),
        ({"location": "data.bin", "length": "100"}, "tensor w is beyond the end of data.bin"),
        ({"location": "data.bin", "offset": "-4"}, "tensor w is beyond the end of data.bin"),
        ({"location": "data.bin"}, "tensor w is damaged"),
    ],
)
def test_tensors_elsewhere_are_refused(entries, message, tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"\0" * 288)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "data.bin").write_bytes(b"\0" * 8)
    model = simple()
    (tensor,) = (one for one in model.graph.initializer if one.name == "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=re.escape(message)):
        onnx_network(folder / "model.onnx")


def test_without_the_package_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fabtune.golden.importers.onnx_file.find_spec", lambda name: None)
    with pytest.raises(UserError, match=re.escape("needs the package onnx: pip install 'fabtune[onnx]'")):
        onnx_network(tmp_path / "model.onnx")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        onnx_network(tmp_path / "gone.onnx")
    with pytest.raises(UserError, match="is not a file"):
        onnx_network(tmp_path)
