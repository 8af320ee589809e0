"""`fabtune images` and `package` with a user's weights and samples: three networks, golden results, mistakes."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.boards.host.driver import Core
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.user_module import user_module
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import NETWORKS
from fabtune.golden.nn.array.images import frozen_image
from fabtune.golden.registry import CORES
from fabtune.golden.settings import restored
from fabtune.golden.train.conversion import Converter
from fabtune.scripts.own_network import OwnNetwork
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice

MODELS = """
import torch
from torch import nn

class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.second(x)), 2)
        return self.head(x.flatten(1))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm_a = nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6)
        self.b, self.norm_b = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.short, self.norm = nn.Conv2d(4, 6, 1, stride=2, bias=False), nn.BatchNorm2d(6)

    def forward(self, x):
        y = self.norm_b(self.b(torch.relu(self.norm_a(self.a(x)))))
        return torch.relu(y + self.norm(self.short(x)))

def cnn():
    return Cnn()

def resnet():
    stem = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return nn.Sequential(stem, Block(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(6, 3))

def keyword():
    maps = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 6, 2), nn.ReLU())
    return nn.Sequential(maps, nn.Flatten(), nn.Linear(24, 5), nn.ReLU(), nn.Linear(5, 3))
"""
SHAPES = {"cnn": (1, 8, 8), "resnet": (2, 8, 8), "keyword": (1, 6, 7)}
CLASSES = {"cnn": 4, "resnet": 3, "keyword": 3}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Folder with networks, weights and samples: pixels, or floats for the ResNet."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(MODELS)
    rng = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        torch.manual_seed(1)
        module = user_module(f"{folder / 'own.py'}:{name}")
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d):
                nn.init.uniform_(layer.running_mean, -0.2, 0.2)
                nn.init.uniform_(layer.running_var, 0.5, 2)
        torch.save(module.state_dict(), folder / f"{name}.pt")
        arrays = {}
        for part, count in (("tune", 18), ("test", 25)):
            labels = rng.integers(0, CLASSES[name], count)
            inputs = rng.normal(0, 0.2, (count, *shape)) + 0.2 * labels[:, None, None, None]
            arrays |= {f"x_{part}": inputs if name == "resnet" else (255 * inputs).clip(0, 255).astype(np.uint8)}
            arrays[f"y_{part}"] = labels
        np.savez(folder / f"{name}.npz", **arrays)
    digits = module_of(NETWORKS["digits"])
    torch.save(digits.state_dict(), folder / "digits.pt")
    with np.load(folder / "cnn.npz") as arrays:
        np.savez(folder / "digits.npz", **arrays)
    return folder


@pytest.fixture(autouse=True)
def _folder(fabtune, made, tmp_path):
    for path in made.iterdir():
        shutil.copy(path, tmp_path)


def named(name):
    """Options of a network with its weights and samples."""
    return "--model", f"own.py:{name}", "--weights", f"{name}.pt", "--data", f"npz:{name}.npz"


def images(fabtune, core, name, *more):
    """Images of a network's job: command output and ``job.json``."""
    status, out, err = fabtune("images", core, *named(name), *more, "-o", "images", "--force", "--json")
    assert status == 0, err
    return json.loads(out), json.loads(Path("images/job.json").read_text())


GRADIENTS = ("--epochs", "2", "--rate", "0.1")
STEPS = ("--steps", "4", "--batch", "6")


@pytest.mark.parametrize(
    ("core", "name", "job", "method"),
    [
        ("instantft", "cnn", GRADIENTS, ()),
        ("zotrain", "resnet", STEPS, ("--method", "pezo-otf", "--engine", "golden", "--core", "tiny")),
    ],
)
def test_golden_s_accuracies_are_those_of_tune(fabtune, core, name, job, method):
    said, found = images(fabtune, core, name, "--preset", "tiny", *job)
    status, out, _ = fabtune("tune", *named(name), *job, *method, "--json")
    assert status == 0
    tuned = json.loads(out)
    for when in ("before", "after"):
        assert said[f"accuracy_{when}"] == tuned[f"accuracy_{when}"] == found["accuracy"][when] / 25
    assert found["parameters"]["byte_inputs"] is (name != "resnet")
    assert said["selftest"] == found["data"]["name"] == f"npz:{name}.npz"


@pytest.mark.parametrize(
    ("core", "name"), [pytest.param("instantft", "resnet", marks=pytest.mark.slow), ("zotrain", "cnn")]
)
def test_the_regions_are_files_with_digests(fabtune, core, name):
    said, found = images(fabtune, core, name, "--preset", "tiny", *(GRADIENTS if core == "instantft" else STEPS))
    regions = {one["name"]: one for one in found["memory"]["regions"]}
    assert (
        said["memory"]["together"]
        == found["memory"]["size"]
        == max(-(-(one["offset"] + one["size"]) // 4096) * 4096 for one in regions.values())
    )
    assert set(said["files"]) == {"job.json", *(one["file"] for one in regions.values() if one["file"])}
    for one in regions.values():
        if one["file"]:
            content = Path("images", one["file"]).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (one["size"], one["sha256"])
    assert {name for name, one in regions.items() if not one["file"]} == {
        "instantft": {"cache", "scratch", "logits", "tuned"},
        "zotrain": {"records", "logits", "tuned"},
    }[core]

    spec = restored(CORES[core], found["parameters"])
    network, module = OwnNetwork(f"own.py:{name}", Path(f"{name}.pt"), SHAPES[name]).load()
    expected = frozen_image(spec.forward, Converter().stages(folded(network, module)))
    assert Path("images/parameters.bin").read_bytes() == expected.tobytes()
    test = np.load(f"{name}.npz")
    assert Path("images/labels.bin").read_bytes() == test["y_test"].astype(np.uint8).tobytes()
    width = 1 if spec.byte_inputs else 4
    sample = -(-np.prod(SHAPES[name]) * width // 16) * 16
    first = Path("images/test_samples.bin").read_bytes()[: np.prod(SHAPES[name]) * width]
    assert regions["test_samples"]["size"] == 25 * sample
    if spec.byte_inputs:
        assert first == test["x_test"][0].tobytes()
    else:
        assert first == np.rint(test["x_test"][0].astype(np.float32) * 65536).astype("<i4").tobytes()
    if core == "zotrain":
        return
    # the same bytes for the same input
    before = {path.name: path.read_bytes() for path in Path("images").iterdir()}
    images(fabtune, core, name, "--preset", "tiny", *(GRADIENTS if core == "instantft" else STEPS))
    assert before == {path.name: path.read_bytes() for path in Path("images").iterdir()}


SMALL = ("--set", "lanes=16", "--set", "cut_rows=72")
TINY = ("--preset", "tiny")
JOBS = [
    ("zotrain", "keyword", (*SMALL, *STEPS)),
    *(
        pytest.param(core, name, (*TINY, *job), marks=pytest.mark.slow)
        for core, job in (("instantft", GRADIENTS), ("zotrain", STEPS))
        for name in ("cnn", "resnet")
    ),
]
"""A core shared with other tests, and slow ones."""


@pytest.mark.parametrize(("core", "name", "options"), JOBS)
def test_a_host_program_needs_job_json_alone(fabtune, core, name, options):
    _, found = images(fabtune, core, name, *options)
    spec = restored(CORES[core], found["parameters"])
    device = SimulatedDevice(compiled_core(spec))
    driver = Core.on(spec, device)
    buffer = driver.allocate(found["memory"]["size"])
    regions = {one["name"]: one for one in found["memory"]["regions"]}
    for one in regions.values():
        if one["file"]:
            content = np.fromfile(Path("images", one["file"]), np.uint8)
            buffer.array[one["offset"] : one["offset"] + one["size"]] = content
    right = []
    for one in found["commands"]:
        addresses = one["addresses"].items()
        places = {register: buffer.device_address + regions[region]["offset"] for register, region in addresses}
        buffer.flush()
        finished = driver.run(one["command"]["code"], **places, **one["settings"])
        buffer.invalidate()
        assert {counter: finished.counts[counter] for counter in one["counters"]} == one["counters"]
        for expected in one["expected"]:
            start = regions[expected["region"]]["offset"]
            written = buffer.array[start : start + expected["size"]]
            assert hashlib.sha256(written.tobytes()).hexdigest() == expected["sha256"]
            if expected["region"] == "logits":
                logits = written.view("<i4").reshape(25, found["accuracy"]["stride"])[:, : found["accuracy"]["classes"]]
                right.append(int((logits.argmax(axis=1) == np.load(f"{name}.npz")["y_test"]).sum()))
    assert right == [found["accuracy"]["before"], found["accuracy"]["after"]]


def test_a_package_is_of_the_users_samples(fabtune, tmp_path):
    targets = ("--board", "kv260", "--for", "linux", "--for", "simulation")
    asked = ("package", "zotrain", *named("keyword"), *STEPS, *SMALL, *targets, "--json")
    status, out, err = fabtune(*asked)
    assert status == 0, err
    said, folder = json.loads(out), tmp_path / "build/packages/zotrain-kv260"
    page = (folder / "README.md").read_text()
    golden = " ".join(f"{100 * said[f'accuracy_{when}']:.1f} % {when}," for when in ("before", "after"))
    assert f"Golden says {golden[:-1]}." in " ".join(page.split())
    assert "your weights, and the first samples of npz:keyword.npz" in page
    assert json.loads((folder / "spec.json").read_text())["data"]["name"] == "npz:keyword.npz"
    assert {"example/example.bin", "tb/example/expected.hex", "tb/data/selftest.json"} <= {*said["files"]}
    _, found = images(fabtune, "zotrain", "keyword", *STEPS, *SMALL)
    assert found["accuracy"]["after"] == round(25 * said["accuracy_after"])
    parameters = (tmp_path / "images/parameters.bin").read_bytes()
    for image in ("example/example.bin", "selftest/selftest.bin"):
        assert (folder / image).read_bytes().startswith(parameters)
    # other samples make another package: files of the earlier one are removed
    status, _, err = fabtune(*asked, "--seed", "1")
    assert "had a package of other settings" in err


DIGITS = "--preset tiny --set network=digits --weights digits.pt --data npz:digits.npz"
MISTAKES = {
    "images zotrain --preset tiny -o x": "the images are of your samples: give --data npz:FILE, with --weights or",
    "images zotrain --preset tiny --data npz:cnn.npz -o x": "digits has no weights of its own: give --weights FILE, or",
    "images zotrain --weights cnn.pt -o x": "--weights without --data: the jobs need samples, give --data npz:FILE",
    "images zotrain --rate 0.1 -o x": "--rate has no meaning with no --data: leave it out",
    "images urng --data npz:cnn.npz -o x": "urng has no network: leave --data out",
    f"images zotrain {DIGITS} --steps 2 --epochs 3 -o x": "--epochs 3: zotrain counts steps: give --steps",
    f"images instantft {DIGITS} --steps 2 -o x": "--steps 2: instantft counts epochs: give --epochs",
    f"images zotrain {DIGITS} --batch 300 -o x": "--batch 300: a step of the core has at most 256 samples",
    f"images instantft {DIGITS} --batch 33 -o x": "--batch 33: the core takes at most 20: --set batch=33",
    f"images instantft {DIGITS} --set cache_entries=16 -o x": "18 samples to tune on, and the core's cache has 16 "
    "entries: --set cache_entries=32, or fewer samples",
    "images zotrain RESNET --set byte_inputs=true -o x": "the samples are floats, and the core reads bytes: --set",
    "images zotrain CNN --set network=digits -o x": "--set network= and --model own.py:cnn both name the network",
    "images zotrain --model own.py:cnn --data npz:resnet.npz -o x": "own.py:12: fails on samples of 2 x 8 x 8",
    "package zotrain --model own.py:cnn --weights resnet.pt --data npz:cnn.npz --board kv260": "resnet.pt lacks first.",
    "package zotrain --model own.py:cnn --input 1x8x8 --data npz:keyword.npz --board kv260": "own.py:cnn takes samples",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(fabtune, tmp_path, mistake):
    words = mistake
    for name in SHAPES:
        words = words.replace(name.upper(), " ".join(named(name)))
    before = sorted(tmp_path.iterdir())
    status, out, err = fabtune(*words.split())
    assert (status, out) == (2, "")
    assert MISTAKES[mistake] in err.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == before
