"""Random names and computed or shared weights: imports are correct, and exports use distinct names.

`pytest -m slow` on this file compares with onnxruntime and PyTorch.
"""

import copy
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import imported, onnx_network
from fabtune.golden.models.names import TUNED_KINDS
from fabtune.golden.train.tuned.export import export, program_of
from fabtune.golden.train.tuned.network import TunedNetwork

from ....onnx_models import model_of, outputs_of

pytestmark = pytest.mark.slow

SIZE = 4
PARTS = (
    "a",
    "b",
    "linear",
    "linear_2",
    "weight",
    "bias",
    "layer_0",
    "layer_1",
    "input",
    "logits",
    "forward",
    "training",
)
JOINTS = ("", ".", "/", "//", "_", "::", " ")


def title(rng):
    """Name of up to three possibly empty parts."""
    found = "".join(str(rng.choice(PARTS)) + str(rng.choice(JOINTS)) for _ in range(rng.integers(1, 4)))
    return found + str(rng.choice(["", ".weight", ".bias", ".lora_a"]))


class Chain:
    """Vector products in series, with weights computed in several ways; some values are used twice.

    Attributes
    ----------
    shared : bool
        True if two products share a value of the file.
    """

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.numbers, self.taken = [], {}, {}, {"x", "y"}
        self.used, self.shared = set(), False
        source = "x"
        for _ in range(self.rng.integers(2, 6)):
            source = self.product(source)
            if self.rng.random() < 0.7:
                source = self.node("Relu", [source])
        self.node("Gemm", [source, self.weight()], "y", transB=1)

    def name(self):
        while (found := title(self.rng)) in self.taken:
            pass
        self.taken.add(found)
        return found

    def node(self, kind, inputs, output=None, **attributes):
        output = output or self.name()
        self.nodes.append(helper.make_node(kind, inputs, [output], title(self.rng), **attributes))
        return output

    def constant(self, values):
        self.constants[name := self.name()] = values
        return name

    def floats(self, *shape):
        name = self.constant(self.rng.normal(0, 0.6, shape).astype(np.float32))
        size = int(np.prod(shape))
        self.numbers[name] = 10_000 * len(self.numbers) + np.arange(size).reshape(shape)
        return name

    def product(self, source):
        weight, settings = self.weight(), {"alpha": 0.5} if self.rng.random() < 0.2 else {}
        found = self.node("Gemm", [source, weight], transB=1, **settings)
        if self.rng.random() < 0.4:
            added = self.node("Add", [found, self.floats(SIZE)])
            if self.rng.random() < 0.1:  # both are read: two layers of one weight
                self.shared = True
                return self.node("Add", [self.node("Relu", [added]), found])
            return added
        return found

    def weight(self):
        """A square matrix computed from tensors of the file."""
        whole = [
            name for name in self.numbers if name in self.constants and self.numbers[name].shape == (2 * SIZE, SIZE)
        ]
        first = str(self.rng.choice(whole)) if whole and self.rng.random() < 0.2 else self.floats(2 * SIZE, SIZE)
        start = int(self.rng.integers(0, SIZE + 1)) if self.rng.random() < 0.1 else int(self.rng.choice([0, SIZE]))
        ends = [self.constant(np.array([at])) for at in (start, start + SIZE)]
        name, numbers = self.node("Slice", [first, *ends]), self.numbers[first][start : start + SIZE]
        for _ in range(self.rng.integers(0, 3)):
            kind = str(self.rng.choice(["Identity", "Transpose", "Reshape", "Cast", "Concat"]))
            if kind == "Transpose":
                name, numbers = self.node(kind, [name], perm=[1, 0]), numbers.T
            elif kind == "Reshape":
                name = self.node(kind, [name, self.constant(np.array([SIZE, SIZE]))])
            elif kind == "Cast":
                name = self.node(kind, [self.node(kind, [name], to=TensorProto.DOUBLE)], to=TensorProto.FLOAT)
            elif kind == "Identity":
                name = self.node(kind, [name])
            else:
                name = self.node("Concat", [name], axis=0)
        self.shared |= not self.used.isdisjoint(numbers.flat)
        self.used.update(numbers.flat)
        return name


def changed(tuned, rng):
    """A network with other parameters."""

    def moved_by(values):
        return values + rng.normal(0, 0.1, values.shape)

    moved = [replace(one, weight=moved_by(one.weight), bias=moved_by(one.bias)) for one in tuned.parameters]
    return replace(tuned, parameters=tuple(moved))


def assert_names_of_its_own(tuned):
    """No two stages share a tensor name, including tensors that the user lacks."""
    names = [{*one.names, *(f"{one.title}.{kind}" for kind in TUNED_KINDS)} for one in tuned.stages]
    assert len(set.union(*names)) == sum(map(len, names))
    for own, stage in zip(names, tuned.stages, strict=True):
        assert not (own - {*stage.names}) & {*tuned.state} - {stage.weight_name, stage.bias_name}


@pytest.mark.parametrize("block", range(4))
def test_files(tmp_path, block):
    counts = {"right": 0, "shared": 0}
    for seed in range(100 * block, 100 * block + 100):
        chain = Chain(seed)
        model = model_of(chain.nodes, chain.constants, ("n", SIZE))
        (tmp_path / "mine.onnx").write_bytes(model.SerializeToString())
        if chain.shared:
            with pytest.raises(UserError, match="is shared with"):
                onnx_network(tmp_path / "mine.onnx")
            counts["shared"] += 1
            continue
        network, module = onnx_network(tmp_path / "mine.onnx")
        counts["right"] += 1
        x = chain.rng.normal(0, 1, (3, SIZE)).astype(np.float32)
        with torch.no_grad():
            np.testing.assert_allclose(
                module(torch.from_numpy(x)).numpy(), outputs_of(model, x)[0], rtol=1e-4, atol=1e-5
            )
        tuned = changed(TunedNetwork.of(network, module), chain.rng)
        assert_names_of_its_own(tuned)
        with torch.no_grad():
            expected = tuned.module()(torch.from_numpy(x)).numpy()
        export(tuned, "onnx", tmp_path / "tuned.onnx")
        (found,) = onnxruntime.InferenceSession(str(tmp_path / "tuned.onnx")).run(None, {"input": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        if seed % 20 == 0:
            again = program_of(tuned).module()(torch.from_numpy(x)).detach().numpy()
            np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-6)
    assert min(counts.values()) > 20, counts


class Mixed(nn.Module):
    """Children and tensors with random names; each step calls a child, or a function on tensors."""

    def __init__(self, seed):
        super().__init__()
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.steps = []
        names = list(rng.permutation(["linear", "linear_1", "linear_2", "relu", "conv", "add", "w", "v", "u", "bias"]))
        for _ in range(rng.integers(2, 5)):
            name, bias = str(names.pop()), bool(rng.random() < 0.5)
            if rng.random() < 0.5:
                self.add_module(name, nn.Linear(SIZE, SIZE, bias=bias))
                called = rng.random() < 0.7
                self.steps.append((name, None) if called else (f"{name}.weight", None))
            else:
                self.register_parameter(name, nn.Parameter(torch.randn(SIZE, SIZE) / 2))
                other = str(names.pop())
                self.register_parameter(other, nn.Parameter(torch.randn(SIZE)))
                self.steps.append((name, other if bias else None))

    def forward(self, x):
        for number, (name, bias) in enumerate(self.steps):
            x = torch.relu(x) if number else x
            if name in self._modules:
                x = self._modules[name](x)
            else:
                x = functional.linear(x, self.get_parameter(name), None if bias is None else self.get_parameter(bias))
        return x


@pytest.mark.parametrize("seed", range(40))
def test_modules(seed):
    module = Mixed(seed).eval()
    network, own = imported(module, (SIZE,), "mine.py:build")
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(0, 1, (3, SIZE)).astype(np.float32))
    with torch.no_grad():
        torch.testing.assert_close(own(x), module(x), rtol=1e-5, atol=1e-6)
    tuned = changed(TunedNetwork.of(network, module), rng)
    assert_names_of_its_own(tuned)
    with torch.no_grad():
        expected = tuned.module()(x)
        if all(one.bias for one in tuned.stages):
            theirs = copy.deepcopy(module)
            theirs.load_state_dict({name: torch.from_numpy(np.array(one)) for name, one in tuned.tensors().items()})
            torch.testing.assert_close(theirs(x), expected, rtol=1e-4, atol=1e-5)
        else:
            with pytest.raises(UserError, match=r"your network has no .*\.bias, and the tuned one is not 0"):
                tuned.tensors()
