"""Random ONNX graphs: equal to onnxruntime, or refused."""

from collections import Counter

import numpy as np
import pytest
import torch
from onnx import numpy_helper

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import onnx_network
from fabtune.golden.importers.layers.own_tensors import own_state
from fabtune.golden.train.conversion import Converter

from ....onnx_models import model_of, node, outputs_of
from .test_random_graphs import bound

BATCH = 3
# distinct sizes: a sample's shape then identifies its axes
SAMPLES = {
    "map": (2, 5, 4),
    "last": (5, 4, 2),
    "signal": (2, 6),
    "signal, last": (6, 2),
    "one": (5, 4, 1),
    "vector": (6,),
}


class Graph:
    """Nodes one by one, mostly reading the last tensor, with sample shapes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.shapes = [], {}, {}
        self.kind = self.one(["map"] * 4 + list(SAMPLES))
        self.opset = self.one([9, 11, 13, 18, 20])
        self.batch = self.one(["n", "n", BATCH])
        self.weights = []
        self.last = "x"
        self.shapes["x"] = SAMPLES[self.kind]

    def one(self, choices):
        return choices[self.rng.integers(len(choices))]

    def chance(self, share):
        return self.rng.random() < share

    def constant(self, values):
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def floats(self, *shape):
        return self.constant(self.rng.normal(0, 0.5, shape).astype(np.float32))

    def weight(self, *shape):
        """A new weight, or sometimes another layer's, directly or through a node."""
        same = [name for name in self.weights if self.constants[name].shape == shape]
        name = self.one(same) if same and self.chance(0.1) else self.floats(*shape)
        self.weights.append(name)
        if self.chance(0.1):
            return self.put(self.one(["Identity", "Cast"]), [name], None, to=1)
        return name

    def put(self, kind, inputs, shape, outputs=1, **attributes):
        """Add a node; with a shape it becomes the last tensor."""
        if kind != "Cast":
            attributes.pop("to", None)
        names = [f"t{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(node(kind, " ".join(inputs), " ".join(names), **attributes))
        self.nodes[-1].name = names[0]
        if shape is not None:
            self.shapes[names[0]], self.last = tuple(shape), names[0]
        return names[0]

    def ints(self, kind, source, values, shape, name="axes", since=13, **attributes):
        """Add a node whose integers are an attribute in older opsets, and an input in newer ones."""
        values = [int(one) for one in values]
        if self.opset < since:
            return self.put(kind, [source], shape, **{name: values}, **attributes)
        return self.put(kind, [source, self.constant(np.array(values, np.int64))], shape, **attributes)

    def step(self):
        source = self.last if self.chance(0.8) else self.one(list(self.shapes))
        shape = self.shapes[source]
        kinds = ["activation", "activation", "alias", "alias", "add", "add", "concat", "constant_sum", "norm"]
        if len(shape) == 1:
            kinds += ["linear", "linear", "linear", "unsqueezed"]
        else:
            kinds += ["conv"] * 6 + ["pool", "pool", "pad", "turn", "mean", "flat"]
        padded = len(shape) > 1 and self.nodes and self.nodes[-1].op_type == "Pad"
        getattr(self, "conv" if padded and self.chance(0.8) else self.one(kinds))(source, shape)

    def conv(self, source, shape):
        channels, *sides = shape
        out, groups = (channels, channels) if self.chance(0.3) else (self.one([2, 3]), 1)
        if channels % 2 == 0 and self.chance(0.2):
            out, groups = self.one([2, 4, 6]), 2
        kernel = [self.one([1, 2, 3]) for _ in sides]
        stride = [self.one([1, 1, 2]) for _ in sides]
        settings, pads = {"strides": stride, "group": groups}, [0] * 2 * len(sides)
        kind = self.one(["pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if kind == "pads":
            pads = [self.one([0, 1]) for _ in pads]
            settings["pads"] = pads
        else:
            settings["auto_pad"] = kind
        total = [side + pads[at] + pads[at + len(sides)] for at, side in enumerate(sides)]
        if kind.startswith("SAME"):
            after = [-(-side // step) for side, step in zip(sides, stride, strict=True)]
        else:
            after = [(side - size) // step + 1 for side, size, step in zip(total, kernel, stride, strict=True)]
        if min(after) < 1:
            return
        inputs = [source, self.weight(out, channels // groups, *kernel)]
        if self.chance(0.5):
            inputs.append(self.floats(out))
        self.put("Conv", inputs, (out, *after), **settings)

    def pad(self, source, shape):
        rank = len(shape) + 1
        ends = [0] * 2 * rank
        for at in range(2, rank):
            ends[at], ends[at + rank] = self.one([0, 1]), self.one([0, 0, 1])
        if self.chance(0.05):
            ends[1] = 1
        after = [side + ends[at + 1] + ends[at + 1 + rank] for at, side in enumerate(shape)]
        if self.opset < 11:
            self.put("Pad", [source], after, pads=ends)
        elif self.opset >= 18 and self.chance(0.5):
            axes = list(range(1, rank))[::-1]
            some = [ends[at] for at in axes] + [ends[at + rank] for at in axes]
            given = [self.constant(np.array(one, np.int64)) for one in (some, [at - rank for at in axes])]
            self.put("Pad", [source, given[0], self.constant(np.float32(0)), given[1]], after)
        else:
            self.put("Pad", [source, self.constant(np.array(ends, np.int64))], after)

    def activation(self, source, shape):
        kind = self.one(["Relu", "Relu", "LeakyRelu", "six", "all"])
        if kind in ("Relu", "LeakyRelu"):
            self.put(kind, [source], shape)
            return
        ends = [0.0, 6.0 if kind == "six" else 3.4e38]
        if self.opset < 11:
            self.put("Clip", [source], shape, min=ends[0], max=ends[1])
        else:
            self.put("Clip", [source, *(self.constant(np.float32(one)) for one in ends)], shape)

    def alias(self, source, shape):
        kind = self.one(["Identity", "Dropout", "same", "pool"])
        if kind == "pool" and len(shape) > 1:
            self.put("MaxPool", [source], shape, kernel_shape=[1] * (len(shape) - 1))
        elif kind == "same":
            self.put("Reshape", [source, self.constant(np.array([0, *shape]))], shape)
        else:
            self.put("Dropout" if kind == "Dropout" else "Identity", [source], shape)

    def constants_of(self, shape):
        """Shape of a constant: per channel, scalar, row, column, or full."""
        ones = (1,) * (len(shape) - 1)
        usual = [(shape[0], *ones), (1, shape[0], *ones)]
        forms = [(), (1,), shape, shape[-1:], (1, *shape), (*ones, shape[-1]), (BATCH, *(1,) * len(shape))]
        return self.one(usual if self.chance(0.7) else forms)

    def constant_sum(self, source, shape):
        wanted = self.constants_of(shape)
        after = np.broadcast_shapes((BATCH, *shape), wanted) if fits((BATCH, *shape), wanted) else None
        if after is not None and len(after) == len(shape) + 1:
            pair = [source, self.floats(*wanted)]
            self.put(self.one(["Add", "Sum"]), pair[:: self.one([1, -1])], after[1:])

    def add(self, source, shape):
        others = [name for name, own in self.shapes.items() if name != source and fits((BATCH, *shape), (BATCH, *own))]
        same = [name for name in others if self.shapes[name] == shape]
        if others:
            other = self.one(same if same and self.chance(0.9) else others)
            after = np.broadcast_shapes((BATCH, *shape), (BATCH, *self.shapes[other]))
            self.put(self.one(["Add", "Add", "Sum"]), [source, other], after[1:])

    def concat(self, source, shape):
        at = self.one([0] * 4 + list(range(len(shape))))
        rest = [*shape[:at], *shape[at + 1 :]]
        others = [
            name
            for name, own in self.shapes.items()
            if len(own) == len(shape) and [*own[:at], *own[at + 1 :]] == rest and name != source
        ]
        if others:
            names = [source, *(self.one(others) for _ in range(self.one([1, 1, 2])))]
            after = [*shape[:at], sum(self.shapes[name][at] for name in names), *shape[at + 1 :]]
            self.put("Concat", names, after, axis=self.one([at + 1, at - len(shape)]))

    def norm(self, source, shape):
        channels = shape[0]
        inputs = [source, *(self.floats(channels) for _ in range(3))]
        inputs.append(self.constant(self.rng.uniform(0.5, 2, channels).astype(np.float32)))
        trains = self.chance(0.1)
        settings = {"training_mode": 1} if trains and self.opset >= 14 else {}
        outputs = (3 if self.opset >= 14 else 5) if trains else 1
        self.put("BatchNormalization", inputs, shape, outputs=outputs, **settings)

    def pool(self, source, shape):
        channels, *sides = shape
        size = [self.one([1, 2, 3]) for _ in sides]
        if min(side - own for side, own in zip(sides, size, strict=True)) < 0:
            return
        if self.chance(0.3):
            self.put(self.one(["GlobalAveragePool", "GlobalMaxPool"]), [source], (channels, *[1] * len(sides)))
        elif self.chance(0.4):
            after = [side // own for side, own in zip(sides, size, strict=True)]
            self.put("AveragePool", [source], (channels, *after), kernel_shape=size, strides=size)
        else:
            stride = [self.one([1, 2]) for _ in sides]
            behind = [self.one([0, own - 1]) for own in size]
            after = [
                (side + more - own) // step + 1
                for side, own, step, more in zip(sides, size, stride, behind, strict=True)
            ]
            pads = [0] * len(sides) + behind
            self.put("MaxPool", [source], (channels, *after), kernel_shape=size, strides=stride, pads=pads)

    def mean(self, source, shape):
        dims = {*self.one([range(2, len(shape) + 1)] * 4 + [range(1, len(shape)), range(3, len(shape) + 1)])}
        keep = self.one([0, 1])
        after = [1 if at in dims else one for at, one in enumerate(shape, 1) if keep or at not in dims]
        if len(after) and dims:
            self.ints("ReduceMean", source, sorted(dims), after, since=18, keepdims=keep)

    def turn(self, source, shape):
        rank = len(shape) + 1
        last, first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
        order = self.one([last, last, first, [0, *map(int, 1 + self.rng.permutation(rank - 1))]])
        self.put("Transpose", [source], [shape[at - 1] for at in order[1:]], perm=order)

    def flat(self, source, shape):
        size = int(np.prod(shape))
        if self.chance(0.4):
            self.put("Flatten", [source], (size,))
            return
        if self.chance(0.3):
            whole = self.put("Shape", [source], None)
            first = self.put("Gather", [whole, self.constant(np.array([0]))], None)
            target = self.put("Concat", [first, self.constant(np.array([size]))], None, axis=0)
        else:
            target = self.constant(np.array(self.one([[0, -1], [-1, size], [0, size]])))
        self.put("Reshape", [source, target], (size,))

    def unsqueezed(self, source, shape):
        if self.chance(0.5) and len(shape) == 1:
            self.ints("Unsqueeze", source, [2], (*shape, 1))
            return
        maps = [own for own in self.shapes.values() if len(own) == 3 and np.prod(own) == np.prod(shape)]
        if maps:
            after = self.one(maps)
            self.put("Reshape", [source, self.constant(np.array([0, *after]))], after)

    def linear(self, source, shape):
        out = self.one([3, 4, 6])
        if self.chance(0.4):
            self.put("MatMul", [source, self.weight(*shape, out)], (out,))
            return
        turned = self.one([0, 1, 1])
        inputs = [source, self.weight(*((out, *shape) if turned else (*shape, out)))]
        settings = {"transB": turned}
        if self.chance(0.2):
            settings |= {"alpha": 0.5, "beta": 2.0}
        if self.chance(0.6) or self.opset < 11:
            inputs.append(
                self.floats(*self.one([(out,)] * 8 + [(1, out), (1, out), (BATCH, 1), (1,), (), (BATCH, out)]))
            )
        self.put("Gemm", inputs, (out,), **settings)

    def begin(self):
        shape = self.shapes["x"]
        if self.kind in ("last", "signal, last") and self.chance(0.9):
            rank = len(shape) + 1
            self.put("Transpose", ["x"], (shape[-1], *shape[:-1]), perm=[0, rank - 1, *range(1, rank - 1)])
        if self.kind == "one" and self.chance(0.8):
            self.put("Reshape", ["x", self.constant(np.array([-1, 1, *shape[:2]]))], (1, *shape[:2]))
        if self.kind == "signal" and self.chance(0.3):
            self.ints("Unsqueeze", "x", [2], (shape[0], 1, shape[1]))
        if self.kind == "signal" and self.chance(0.3) and len(self.shapes[self.last]) == 2:
            self.conv(self.last, self.shapes[self.last])
            own = self.shapes[self.last]
            self.ints("Unsqueeze", self.last, [3], (*own, 1))
            self.pool(self.last, self.shapes[self.last])
        if len(shape) > 1 and self.chance(0.8):
            self.conv(self.last, self.shapes[self.last])

    def model(self):
        self.begin()
        for _ in range(self.rng.integers(1, 9)):
            self.step()
        if len(self.shapes[self.last]) > 1:
            if self.chance(0.3):
                self.turn(self.last, self.shapes[self.last])
            self.flat(self.last, self.shapes[self.last])
        self.linear(self.last, self.shapes[self.last])
        if self.chance(0.4):
            self.constant_sum(self.last, self.shapes[self.last])
        if self.chance(0.1):
            self.put(self.one(["Softmax", "LogSoftmax"]), [self.last], self.shapes[self.last], axis=self.one([1, -1]))
        output = self.last if self.chance(0.98) else self.one(list(self.shapes))
        shape = (self.batch, *self.shapes["x"])
        return model_of(self.nodes, self.constants, shape, self.opset, outputs=(output,))


def fits(one, other):
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def compared(seed, path):
    """Outcome of a graph: the refusal, or "equal" after comparison with onnxruntime."""
    graph = Graph(seed)
    model = graph.model()
    path.write_bytes(model.SerializeToString())
    try:
        network, module = onnx_network(path)
    except UserError as refusal:
        return str(refusal).removeprefix(str(path))
    given = np.random.default_rng(seed).normal(0, 1, (BATCH, *graph.shapes["x"])).astype(np.float32)
    (expected,) = outputs_of(model, given)
    shape = graph.shapes["x"]
    turned = len(shape) > 1 and network.input_shape[0] == shape[-1] != shape[0]
    x = np.moveaxis(given, -1, 1) if turned else given
    # contiguous: PyTorch's convolutions fail for strides of axes of size 1
    x = torch.from_numpy(x.flatten()).reshape(BATCH, *network.input_shape)
    with torch.no_grad():
        found = module(x)
        for what in module.left_to_host:
            found = getattr(torch, what)(found, 1)
    close = 1e-4 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=close)
    if not module.left_to_host:
        parameters = folded(network, module)
        stages, _ = bound(network, parameters, Converter().stages(parameters), x.double().numpy())
        np.testing.assert_allclose(stages, expected, rtol=0, atol=close)
    state = own_state(module)
    for tensor in model.graph.initializer:
        if tensor.name in state:
            np.testing.assert_array_equal(state[tensor.name].numpy(), numpy_helper.to_array(tensor), tensor.name)
    return "equal"


def test_random_files(tmp_path):
    results = Counter(compared(seed, tmp_path / "model.onnx") for seed in range(150))
    assert results["equal"] > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_files(part, tmp_path):
    results = Counter(compared(1000 * part + seed, tmp_path / "model.onnx") for seed in range(1000))
    assert results["equal"] > 200
