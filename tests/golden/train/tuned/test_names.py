"""Layer and tensor names: a run is read and exported under any names."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import helper
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.importers.layers.network import imported, onnx_network
from fabtune.golden.models.checkpoint import load_saved
from fabtune.golden.train.conversion import Converter
from fabtune.golden.train.tuned.export import export
from fabtune.golden.train.tuned.network import LowRankAdapter, TunedNetwork

from ....onnx_models import array, model_of
from .test_network import TASKS, logits_of, tuned_by


class Called(nn.Module):
    """Functions next to equally named children, one of them unused."""

    def __init__(self):
        super().__init__()
        self.w, self.linear = nn.Parameter(torch.randn(8, 64) / 8), nn.Linear(8, 8)
        self.linear_2, self.v = nn.Linear(8, 8), nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        x = torch.relu(self.linear(torch.relu(functional.linear(x, self.w))))
        return functional.linear(x, self.v)


def test_functions_and_children_of_one_name():
    _, own = imported(Called().eval(), (64,), "mine.py:build")
    assert own.titles == ["linear_3", "relu", "linear", "relu_1", "linear_2_2"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["instantft", "pezo-otf"])
def test_a_run_of_functions_and_children_of_one_name(tmp_path, method):
    torch.manual_seed(0)
    tuned, tuning = tuned_by(tmp_path, Called().eval(), (64,), method, "golden")
    assert [one.title for one in tuned.stages] == ["linear_3", "linear", "linear_2_2"]
    samples = TASKS[64,].test
    found = Q8_16.to_float(tuned.job().logits(Converter().samples(samples))).astype(np.float32)
    np.testing.assert_array_equal(found, logits_of(tuning, samples))


TITLES = (
    *("a//b", "a.", "/", "training", "forward", "a/b", "a", "a.weight", "b", "weight", "_layers", "state_dict", "x y"),
    *("..", "None", "\N{MICRO SIGN}", "a/training"),
)
WEIGHTS = (
    *("layer_0", "logits", "input", "b.bias", "a/b.weight", "file", "formats", "allow_pickle", "adapter_1", "w9"),
    *("layer_0_2", "training.weight", "args", "shape_0", "adapter_1_input", "onnx::MatMul_7", "layer_3"),
)


def chain_of(path, titles, weights):
    """A file of linear layers with these names, and ReLUs."""
    nodes, constants, source = [], {}, "x"
    for number, (title, weight) in enumerate(zip(titles, weights, strict=True)):
        constants |= {weight: array(4, 4, scale=0.6), f"bias of {number}": array(4)}
        nodes.append(helper.make_node("Gemm", [source, weight, f"bias of {number}"], [f"g{number}"], title, transB=1))
        nodes.append(helper.make_node("Relu", [f"g{number}"], [source := f"r{number}"], f"relu {number}"))
    nodes[-2].output[0] = "y"
    path.write_bytes(model_of(nodes[:-1], constants, ("n", 4)).SerializeToString())
    return path


def test_any_names_leave_in_every_file(tmp_path):
    """Names reserved or invalid in module, ONNX or NPZ."""
    network, module = onnx_network(chain_of(tmp_path / "mine.onnx", TITLES, WEIGHTS))
    rng = np.random.default_rng(0)
    adapters = [
        LowRankAdapter(number, rng.normal(0, 1, (2, 4)), rng.normal(0, 1, (4, 2)), True)
        for number in range(len(TITLES))
    ]
    tuned = replace(TunedNetwork.of(network, module), adapters=tuple(adapters), integers=True)
    x = rng.normal(0, 1, (3, 4)).astype(np.float32)
    with torch.no_grad():
        expected = tuned.module()(torch.from_numpy(x)).numpy()
        assert np.abs(expected - module(torch.from_numpy(x)).numpy()).max() > 1
    export(tuned, "onnx", tmp_path / "tuned.onnx")
    (found,) = onnxruntime.InferenceSession(str(tmp_path / "tuned.onnx")).run(None, {"input": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    export(tuned, "pytorch", tmp_path / "tuned.pt2")
    program = torch.export.load(tmp_path / "tuned.pt2")
    np.testing.assert_array_equal(program.module()(torch.from_numpy(x)).detach().numpy(), expected)
    export(tuned, "npz", tmp_path / "tuned.npz")
    with np.load(tmp_path / "tuned.npz") as file:
        assert len(file.files) == 4 * len(TITLES) + 2
    plain = replace(tuned, adapters=())
    export(plain, "pytorch", tmp_path / "tuned.safetensors")
    assert load_saved(tmp_path / "tuned.safetensors")[0].keys() == plain.state.keys()
    assert {"layer_0", "logits", "b.bias"} < plain.state.keys()


def test_a_tensor_called_as_no_file_may_is_refused(tmp_path):
    path = chain_of(tmp_path / "mine.onnx", ["fc", "head"], ["__metadata__", "w"])
    with pytest.raises(UserError, match=r"mine\.onnx: a tensor is called __metadata__, as no file of safetensors may"):
        onnx_network(path)
