"""`fabtune import`: resulting network, fitting cores, saturation, and one-line mistakes."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

from fabtune.boards.board import BOARDS
from fabtune.boards.fit import BoardFit
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset
from fabtune.golden.settings import build

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.body = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(self.body(x) + x)
        return self.head(nn.functional.avg_pool2d(x, 2).flatten(1))

def build():
    torch.manual_seed(0)
    return Net()

def large():
    module = build()
    nn.init.constant_(module.stem.weight, 9)
    nn.init.constant_(module.body.weight, 7)
    return module

def chain():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

def autoencoder():
    return nn.Sequential(nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 6))

def wide():
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 24 * 24, 10))

def single():
    return nn.Sequential(nn.Linear(6, 40))

def sigmoid():
    return nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 3))

def half():
    return build().half()

class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.body, self.head = nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x):
        maps = self.stem(x)
        return self.head(self.body(maps) + maps)
"""


@pytest.fixture(autouse=True)
def _folder(fabtune, tmp_path):
    """A folder with a user's models and samples."""
    (tmp_path / "mine.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    np.savez("maps.npz", x_test=rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8))
    np.savez("vectors.npz", x_tune=rng.normal(0, 60, (30, 6)).astype(np.float32))
    np.savez("other.npz", y_test=np.zeros(3, np.int64))
    Path("maps.onnx").write_bytes(Path("maps.npz").read_bytes())


def imported(fabtune, *arguments):
    status, out, err = fabtune("import", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_a_preset_is_described_as_its_cores_have_it(fabtune):
    result = imported(fabtune, "lenet5-mnist")
    assert (result["parameters"], result["macs"], result["input"]) == (61706, 416520, [1, 28, 28])
    assert result["formats"] == {"activations": "Q8.16", "parameters": "Q4.12"}
    assert [stage["layer"] for stage in result["stages"]] == ["Convolution"] * 2 + ["Linear"] * 3
    assert result["stages"][0]["behind"] == "ReLU, max 2 x 2"
    assert [stage["source"] for stage in result["stages"]] == [-1, 0, 1, 2, 3]
    found = {(core["core"], core["preset"]): core for core in result["cores"]}
    assert set(found) == {(kind.name, name) for kind in (InstantftSpec, ZotrainSpec) for name in kind.presets}
    spec = InstantftSpec(**InstantftSpec.presets["small"])
    small = found["instantft", "small"]
    assert small["cycles"] == sum(stage.cycles for stage in spec.mapping.forward.stages) == 4051
    assert small["ideal_cycles"] == -(-416520 // 128)
    for name, board in BOARDS.items():
        blocks = spec.memory_plan(board.fabric).blocks
        assert small["needs"][name] == {"bram36": blocks.bram36, "uram": blocks.uram, "dsp": spec.dsps}
    assert (small["lacks"], small["remedies"]) == ({}, {})
    assert result["advice"] == []


def test_what_does_not_fit_is_named_with_settings_that_do(fabtune):
    result = imported(fabtune, "mine.py:wide", "--input", "3x24x24")
    (core,) = (one for one in result["cores"] if (one["core"], one["preset"]) == ("instantft", "small"))
    assert core["needs"]["kv260"]["uram"] > 64
    (advice,) = (
        one for one in result["advice"] if one.startswith("instantft small does not fit on the kv260: it needs")
    )
    remedies = core["remedies"]["kv260"]
    assert any("batch" in changes for changes in remedies)
    for changes in remedies:
        assert " ".join(f"--set {name}={str(value).lower()}" for name, value in changes.items()) in advice
        spec = InstantftSpec(**{"network": result["text"], "columns": 4} | changes)
        assert BoardFit(spec, BOARDS["kv260"]).lacks == {}


def test_a_users_module_is_described_by_its_own_names(fabtune):
    result = imported(fabtune, "mine.py:build", "--input", "1x8x8", "--samples", "maps.npz")
    assert [stage["name"] for stage in result["stages"]] == ["stem", "body", "head"]
    assert [stage["residual"] for stage in result["stages"]] == [None, 0, None]
    assert result["stages"][1]["behind"] == "+ 0, ReLU, average 2 x 2"
    assert all(stage["sums"] and not stage["saturated"] for stage in result["stages"])
    assert result["stages"][1]["least"] >= 0 > result["stages"][2]["least"]
    assert [core["preset"] for core in result["cores"] if "cycles" not in core] == ["large"]
    assert [one.partition(":")[0] for one in result["advice"]] == ["not on zotrain large"]


def test_what_the_array_does_not_map_is_said_of_all_cores(fabtune):
    result = imported(fabtune, "mine.py:Flattened", "--input", "1x8x8")
    assert not any("cycles" in core for core in result["cores"])
    assert result["advice"] == [
        "not on any core: mine.py:Flattened, stage 1 (Linear) has flattened maps (2, 4, 4) as its residual, "
        "which the array does not map yet"
    ]


def test_what_saturates_is_counted_and_what_to_change_is_said(fabtune):
    result = imported(fabtune, "mine.py:large", "--input", "1x8x8", "--samples", "maps.npz")
    stem, body, _ = result["stages"]
    assert (stem["weight"], stem["parameters_clipped"], stem["saturated"]) == (9.0, 36, 0)
    assert 0.5 * body["sums"] < body["saturated"] <= body["sums"]
    assert body["most"] > 128
    advice = "\n".join(result["advice"])
    assert "stage 0 (stem): 36 of 40 parameters are outside Q4.12, -8 to 8 (up to 9): train with weight decay" in advice
    assert "stage 1 (body): " in advice
    assert "% of the sums saturate in Q8.16" in advice


def test_samples_outside_the_format_are_counted(fabtune):
    result = imported(fabtune, "mine.py:chain", "--input", "6", "--samples", "vectors.npz")
    beyond = int((np.abs(np.load("vectors.npz")["x_tune"]) > 128).sum())
    assert result["inputs_clipped"] == beyond > 0
    assert result["advice"][0].startswith(f"{beyond} values of the samples are outside Q8.16")


def test_weights_of_a_file_are_taken(fabtune):
    torch.save({name: one * 0 + 0.5 for name, one in module_of(preset("digits")).state_dict().items()}, "digits.pt")
    result = imported(fabtune, "digits", "--weights", "digits.pt")
    assert {stage["weight"] for stage in result["stages"]} == {0.5}


def test_an_autoencoder_gets_cores_with_its_loss(fabtune):
    result = imported(fabtune, "mine.py:autoencoder", "--input", "6")
    assert "as many outputs as inputs, 6: on cores with loss=mse" in result["advice"][0]
    assert [one["preset"] for one in result["cores"] if one["refusal"]] == ["large"]


def test_a_preset_that_does_not_fit_is_named(fabtune):
    result = imported(fabtune, "mine.py:single", "--input", "6")
    assert any("has one stage and is not cut" in one for one in result["advice"])
    assert [one["preset"] for one in result["cores"] if not one["refusal"]] == ["tiny", "small", "fast", "chip", "wide"]


@pytest.fixture
def onnx_file():
    """A file with two layers in series."""
    names = ("w1", "b1", "w2", "b2")
    arrays = {name: np.full(shape, 0.25, np.float32) for name, shape in zip(names, ((8, 6), 8, (3, 8), 3), strict=True)}
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="hidden", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="act"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="out", transB=1),
    ]
    ends = [helper.make_tensor_value_info(*one) for one in (("x", 1, ("n", 6)), ("y", 1, ("n", 3)))]
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    opsets = [helper.make_opsetid("", 20)]
    Path("net.onnx").write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())


def test_an_onnx_file_is_described_by_its_own_names(fabtune, onnx_file):
    result = imported(fabtune, "net.onnx", "--samples", "vectors.npz")
    assert (result["input"], result["text"]) == ([6], "6 fc8 relu fc3")
    assert [stage["name"] for stage in result["stages"]] == ["hidden", "out"]
    assert [stage["weight"] for stage in result["stages"]] == [0.25, 0.25]
    assert any(core["core"] == "instantft" and not core["refusal"] for core in result["cores"])


def test_an_onnx_file_is_tuned(fabtune, onnx_file, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"x_{part}": rng.normal(0, 1, (40, 6)).astype(np.float32) for part in ("tune", "test")}
    arrays |= {f"y_{part}": np.arange(40) % 3 for part in ("tune", "test")}
    np.savez("task.npz", **arrays)
    asked = ("--data", "npz:task.npz", "--model", "net.onnx", "--epochs", "2", "--json")
    status, out, err = fabtune("tune", *asked)
    assert (status, err.count("Traceback")) == (0, 0)
    report = json.loads(out)
    assert (report["network"], report["start"]) == ("net.onnx", "net.onnx")
    assert report["trained_parameters"] == 4 * (6 + 3) + 4 * (8 + 3)


@pytest.mark.slow
def test_a_core_is_estimated_on_both_boards(fabtune):
    result = imported(fabtune, "digits", "--estimate", "instantft:tiny")
    (core,) = (one for one in result["cores"] if "utilisation" in one)
    assert (core["core"], core["preset"], set(core["utilisation"])) == ("instantft", "tiny", {"zcu102", "kv260"})
    for shares in core["utilisation"].values():
        assert 0 < shares["lut"] < 100
        assert 0 < shares["dsp"] < 100
    for board, shares in core["utilisation"].items():
        for name, count in core["needs"][board].items():
            assert shares[name] == pytest.approx(100 * count / BOARDS[board].resources[name] if count else 0)


def test_tables_for_people(fabtune):
    status, out, err = fabtune("import", "mine.py:build", "--input", "1x8x8", "--samples", "maps.npz")
    assert (status, err) == (0, "")
    for text in ("stem", "+ 0, ReLU, average 2 x 2", "saturated", "refused, see below", "not on zotrain large: "):
        assert text in out


def test_the_line_that_it_prints_is_the_network_for_set(fabtune):
    status, out, err = fabtune("import", "--model", "mine.py:build", "--input", "1x8x8")
    assert (status, err) == (0, "")
    (line,) = (one for one in out.splitlines() if "--set" in one)
    _, setting = shlex.split(line.partition(": ")[2])
    spec = build(ZotrainSpec, [setting], "tiny")
    assert spec.network == "1x8x8 conv4k3p1 relu conv4k3p1 add@2,1 relu avg2 flatten fc3"


MISTAKES = {
    "import": "name the network: fabtune import FILE.py:BUILD, FILE.onnx, FILE.pt2, FOLDER or a preset",
    "import digits --model digits": "digits and --model digits both name the network: give one of them",
    "import lenet6": "lenet6 is neither file.py:build, file.onnx, file.pt2, one line, nor a preset: lenet5-mnist",
    "import mine.py:build": "mine.py:build does not say which samples it takes: give --input, such as 3x32x32 or 640",
    "import mine.py:build --input 8x8x8x8": "--input '8x8x8x8' is not CHANNELSxHEIGHTxWIDTH, CHANNELSxLENGTH or FEATUR",
    "import mine.py:build --input 0x8x8": "--input '0x8x8' is not",
    "import mine.py:build --input 3x8x8": "mine.py:13: fails on samples of 3 x 8 x 8",
    "import digits --estimate instantft:huge": "instantft:huge: there is no such core; there are: instantft:tiny",
    "import gone.onnx": "there is no file gone.onnx",
    "import gone.pt2": "there is no file gone.pt2",
    "import gone.pt2 --input 1x8x8": "--input has no meaning with gone.pt2, which says it itself: leave it out",
    "import maps.onnx": "maps.onnx is not an ONNX file, or is damaged",
    "import maps.onnx --input 1x8x8": "--input has no meaning with maps.onnx, which says it itself: leave it out",
    "import lenet5-mnist --input 1x28x28": "--input has no meaning with the preset lenet5-mnist",
    "import mine.py:sigmoid --input 6": "mine.py:sigmoid, layer 1: aten.sigmoid has no hardware; supported: ",
    "import mine.py:half --input 1x8x8": "mine.py:half: stem.weight is float16: convert the module with .float()",
    "import gone.py:build --input 6": "gone.py is not a file",
    "import mine.py:gone --input 6": "has no function gone",
    "import digits --samples vectors.npz": "digits takes samples of (1, 8, 8), vectors.npz has (6,)",
    "import digits --samples other.npz": "other.npz: no array x_test, x_tune or x_train",
    "import digits --samples gone.npz": "gone.npz",
    "import digits --weights gone.pt": "there is no file gone.pt",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
