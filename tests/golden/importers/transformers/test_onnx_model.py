"""Transformers from ONNX files compared with ONNX Runtime: equal, or refused by node; never wrong."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.own_model import onnx_transformer
from fabtune.golden.transformer.blocks import Activation

from .... import own_transformer_modules as own
from .test_exported import drawn, randomised

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper = onnx.helper


def exported(module, shape, path, dynamo=False, opset=None):
    """Export a module with an open batch."""
    version = {"opset_version": opset} if opset else {}
    batch = {"dynamic_axes": {"x": {0: "n"}}}
    if dynamo:
        batch = {"dynamic_shapes": ({0: torch.export.Dim("n", min=2)},), "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.randn(2, *shape),), path, dynamo=dynamo, input_names=["x"], **batch, **version)


def compare(path, shape):
    """Import a file and compare outputs of two samples."""
    found = onnx_transformer(path)
    samples = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    (expected,) = runtime.InferenceSession(path).run(None, {"x": samples})
    outputs = own.outputs_of(found, samples).reshape(expected.shape)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)
    return found, found.builder.finish()[0]


def test_a_vision_transformer_of_the_older_exporter(tmp_path):
    block = own.Block(16, "module")
    exported(randomised(own.Vision(block, pooling="mean")), (2, 8, 8), tmp_path / "own.onnx")
    found, _ = compare(tmp_path / "own.onnx", (2, 8, 8))
    assert "norm.weight" in found.tensor_names.values()


@pytest.mark.slow
@pytest.mark.parametrize(("dynamo", "opset"), [(False, None), (False, 14), (True, None), (True, 23)])
@pytest.mark.parametrize("seed", range(8))
def test_random_modules(tmp_path, seed, dynamo, opset):
    module, shape = drawn(seed)
    if not dynamo and isinstance(module.block.norm1, nn.RMSNorm):
        pytest.skip("PyTorch's older exporter has no RMS norm")
    exported(module, shape, tmp_path / "own.onnx", dynamo, opset)
    compare(tmp_path / "own.onnx", shape)


@pytest.mark.slow
@pytest.mark.parametrize(("dynamo", "opset"), [(False, 14), (False, 16), (False, 18), (True, 18), (True, 20)])
@pytest.mark.parametrize("kind", ["gelu", "tanh", "silu"])
def test_functions_as_the_exporters_write_them(tmp_path, kind, dynamo, opset):
    module = randomised(own.Rows(own.Block(16, "split", kind=kind)))
    exported(module, (5, 16), tmp_path / "own.onnx", dynamo, opset)
    _, network = compare(tmp_path / "own.onnx", (5, 16))
    kinds = {"gelu": "gelu", "tanh": "gelu-tanh", "silu": "silu"}
    assert [one.kind for one in network.operations if isinstance(one, Activation)] == [kinds[kind]]


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True])
def test_an_encoder_of_pytorch(tmp_path, dynamo):
    layer = nn.TransformerEncoderLayer(16, 4, 24, activation="gelu", batch_first=True)
    exported(randomised(nn.TransformerEncoder(layer, 2)), (5, 16), tmp_path / "own.onnx", dynamo)
    found, network = compare(tmp_path / "own.onnx", (5, 16))
    assert not found.pooled
    assert len(network.operations) == 24


def written(tmp_path, nodes, outputs=(None, 4, 4), batch="n", opset=17, **tensors):
    """A file of nodes from x (n, 4, 4) to y."""
    given = {"w": np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32), "two": np.float32(2), **tensors}
    graph = helper.make_graph(
        [*nodes],
        "own",
        [helper.make_tensor_value_info("x", 1, [batch, 4, 4])],
        [helper.make_tensor_value_info("y", 1, outputs)],
        [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in given.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, tmp_path / "own.onnx")
    return tmp_path / "own.onnx"


def node(kind, read, gives="y", **settings):
    return helper.make_node(kind, read.split(), [gives], "one" if gives == "y" else gives, **settings)


LINEAR = [node("MatMul", "x w", "q"), node("MatMul", "x w", "v"), node("Transpose", "q", "k", perm=[0, 2, 1])]
SCORES = [*LINEAR, node("MatMul", "q k", "s")]
SIZE = [node("Shape", "x", "sizes"), node("Gather", "sizes none", "n", axis=0)]
WRONG = {
    "over queries": ([*SCORES, node("Softmax", "s", "p", axis=1), node("MatMul", "p v")], "over another axis"),
    "not transposed": (
        [*LINEAR, node("MatMul", "q v", "s"), node("Softmax", "s", "p"), node("MatMul", "p v")],
        "last two axes are not the tokens",
    ),
    "no softmax": ([*SCORES, node("MatMul", "s v"), node("Erf", "x", "e")], "scores without a softmax"),
    "scaled weights": (
        [*SCORES, node("Softmax", "s", "p"), node("Mul", "p two", "t"), node("MatMul", "t v")],
        "multiplies the softmax by a number",
    ),
    "mask": ([*SCORES, node("Add", "s w", "t"), node("Softmax", "t", "p"), node("MatMul", "p v")], "neither none nor"),
    "replaced by 0": (
        [*SCORES, node("Where", "m s zero", "t"), node("Softmax", "t", "p"), node("MatMul", "p v")],
        "replaces scores by 0: only -10000 and below",
    ),
    "logarithm": ([*SCORES, node("LogSoftmax", "s", "p"), node("MatMul", "p v")], "logarithm of the softmax of scores"),
    "divided by the batch": (
        [
            node("MatMul", "x w", "q"),
            *SIZE,
            node("Cast", "n", "f", to=1),
            node("Div", "q f", "h"),
            node("MatMul", "h w"),
        ],
        "own.onnx: q is another one for 3 samples than for 2",
    ),
    "mask by the batch": (
        [
            *SCORES,
            *SIZE,
            node("Cast", "n", "f", to=1),
            node("Sub", "f two", "g"),
            node("Mul", "w g", "o"),
            node("Add", "s o", "t"),
            node("Softmax", "t", "p"),
            node("MatMul", "p v"),
        ],
        r"neither none nor .*: so it is with 3 samples, and not with 2",
    ),
    "two samples": (
        [node("Reshape", "x eight", "r"), node("MatMul", "r w")],
        "so it is with 3 samples, and not with 2",
    ),
    "mean of everything": (
        [node("MatMul", "x w", "q"), node("ReduceMean", "q", "mean"), node("Add", "q mean")],
        "a mean over",
    ),
    "unknown": ([node("MatMul", "x w", "q"), node("Sinh", "q"), node("Erf", "x", "e")], r"\(Sinh\): has no place"),
    "tokens": ([*LINEAR, node("Add", "x k"), node("Erf", "x", "e")], "not the same tokens and features"),
    "erf": ([node("MatMul", "x w", "q"), node("Erf", "q", "e"), node("MatMul", "e w")], "reads a function of values"),
    "norm over tokens": (
        [node("MatMul", "x w", "q"), node("LayerNormalization", "q b", axis=1)],
        "over the last 2 axes",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_is_no_transformer_is_refused_by_node(tmp_path, which):
    nodes, reason = WRONG[which]
    with pytest.raises(UserError, match=rf"own\.onnx: node '\w+' .*{reason}|{reason}"):
        onnx_transformer(
            written(
                tmp_path,
                [*nodes, node("Erf", "x", "sign")],
                b=np.ones((4, 4), np.float32),
                m=np.tri(4, dtype=bool),
                zero=np.float32(0),
                none=np.int64(0),
                eight=np.array([2, 4, 4]),
            )
        )


IGNORED = {
    "Swish": ("x", {"alpha": 1.702}, 24),
    "LayerNormalization": ("x b", {"stash_type": 16}, 17),
    "Conv": ("i c", {"kernel_shape": [2, 2]}, 17),
    "Gemm": ("f w", {"alpha": 2.0}, 17),
    "Attention": ("q q q", {"q_num_heads": 1, "kv_num_heads": 1, "softcap": 3.0}, 23),
}


@pytest.mark.parametrize("kind", IGNORED)
def test_attributes_that_nobody_reads_have_their_default(tmp_path, kind):
    read, settings, opset = IGNORED[kind]
    nodes = [
        node("MatMul", "x w", "q"),
        node("Reshape", "x image", "i"),
        node("ReduceMean", "x", "f", axes=[1], keepdims=0) if opset < 18 else node("Identity", "x", "f"),
        node(kind, read, **settings),
        node("Erf", "x", "sign"),
    ]
    tensors = {
        "b": np.ones(4, np.float32),
        "c": np.ones((4, 1, 1, 1), np.float32),
        "image": np.array([-1, 1, 4, 4]),
    }
    name = next(one for one in settings if "heads" not in one)
    with pytest.raises(UserError, match=rf"node 'one' \({kind}\): has (a )?{name} "):
        onnx_transformer(written(tmp_path, nodes, opset=opset, **tensors))


def test_files_that_are_refused(tmp_path):
    erf = node("Erf", "x", "e")
    with pytest.raises(UserError, match="a batch of x has 3 samples: export it with the batch as its only"):
        onnx_transformer(written(tmp_path, [node("MatMul", "x w"), erf], batch=3))
    huge = [node("ConstantOfShape", "sizes", "c"), node("Add", "x c"), erf]
    with pytest.raises(UserError, match="computes constants of more than the limit"):
        onnx_transformer(written(tmp_path, huge, sizes=np.array([1 << 20, 1 << 20])))
    with pytest.raises(UserError, match=r"w has NaN or infinity"):
        onnx_transformer(written(tmp_path, [node("MatMul", "x w"), erf], w=np.full((4, 4), np.nan, np.float32)))
    assert onnx_transformer(written(tmp_path, [node("Relu", "x")])) is None


def test_attention_is_one_node_of_opset_23(tmp_path):
    nodes = [
        *(node("MatMul", f"x {one}", one.upper()) for one in "qkv"),
        node("Attention", "Q K V", is_causal=1, q_num_heads=4, kv_num_heads=2),
    ]
    random = np.random.default_rng(2)
    weights = {one: random.normal(size=(4, 8 if one == "q" else 4)).astype(np.float32) for one in "qkv"}
    path = written(tmp_path, nodes, (None, 4, 8), opset=23, **weights)
    _, network = compare(path, (4, 4))
    (attention,) = network.operations[-1:]
    assert (attention.heads, attention.key_heads, attention.causal) == (4, 2, True)
