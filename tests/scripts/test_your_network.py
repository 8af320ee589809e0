"""docs/your-network.md, executed: a user's network to the board and back, with every number on the page.

`make test` runs the page's class without compiled RTL; the slow tests run three networks completely.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.board import board
from fabtune.boards.fit import BoardFit
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.datasets.npz import npz
from fabtune.golden.importers.layers.network import user_network
from fabtune.golden.models.checkpoint import load_into
from fabtune.golden.train.adapters.methods import adapter_defaults
from fabtune.golden.train.adapters.tune import AdapterSettings, AdapterTuning
from fabtune.sim.tool_folder import shell_lines

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-network.md").read_text()
FOLDER = Path(__file__).parent / "your_networks"
CLASS, PREPARE, CHECK = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LINES = re.findall(r"^    (\w.*)$", PAGE.partition("## The way")[2].partition("| step")[0], re.MULTILINE)
SHAPES = {"class": "1x8x8", "resnet": "1x8x8", "keyword": "1x16x10"}


def in_pytorch(script, folder):
    """Run a script of the page in a process without fabtune; returns its output."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def way(fabtune, tmp_path):
    """Run the page's commands on a user's network; returns outputs by command."""

    def go(name, rtl):
        source = CLASS if name == "class" else (FOLDER / f"{name}.py").read_text()
        (tmp_path / "mine.py").write_text(source)
        (tmp_path / "prepare.py").write_text((FOLDER / "words.py").read_text() if name == "keyword" else PREPARE)
        (tmp_path / "check.py").write_text(CHECK if name != "keyword" else CHECK.replace(" / 255", ""))
        in_pytorch("prepare.py", tmp_path)
        printed = {}
        for line in LINES:
            line = line.replace("1x8x8", SHAPES[name])
            words = shlex.split(line if rtl else line.replace(" --engine rtl --core tiny", ""))
            if words[0] == "make":
                if rtl:
                    printed["make"] = made(words, tmp_path)
                continue
            assert words[0] == "fabtune"
            status, out, err = fabtune(*words[1:])
            assert status == 0, err
            printed[words[1]] = " ".join(out.split()) if words[1] != "import" else out
        printed["check"] = in_pytorch("check.py", tmp_path)
        return printed

    return go


def made(words, folder):
    """Run make as on the page: with the package and the tools of `fabtune doctor --env`."""
    command = "\n".join([*shell_lines(), shlex.join(words)])
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    ("name", "rtl"),
    [("class", False), *(pytest.param(name, True, marks=pytest.mark.slow) for name in SHAPES)],
)
def test_the_way_to_a_board_and_back(way, fabtune, tmp_path, name, rtl):
    printed = way(name, rtl)

    # the same in Python, for comparison
    task, shape = npz(tmp_path / "mine.npz"), tuple(map(int, SHAPES[name].split("x")))
    network, module = user_network("mine.py:Net", shape)
    load_into(module, tmp_path / "mine.pt")
    defaults = adapter_defaults(network.name)
    settings = AdapterSettings("instantft", "golden", defaults.epochs, rate=defaults.rate)
    tuned = AdapterTuning(network, module.eval(), task, settings).run()
    before, after, tested = tuned.accuracy_before, tuned.accuracy_after, len(task.test)
    accuracies = f"{100 * before:.1f}% right before, {100 * after:.1f}% after"
    assert after > before + 0.05

    # import: resulting network and core
    parameters, macs = (f"{sum(getattr(one, which) for one in network.stages):,}" for which in ("parameters", "macs"))
    assert f"{parameters} parameters, {macs} multiply-accumulates" in printed["import"]
    byte_inputs = task.tune.inputs.dtype == np.uint8
    spec = InstantftSpec.of(
        network, byte_inputs=byte_inputs, **InstantftSpec.for_network(InstantftSpec.presets["tiny"], network)
    )
    (row,) = [line for line in printed["import"].splitlines() if line.startswith("│") and "instantft tiny" in line]
    found = [re.sub(r" \(\d+ %\)", "", cell).strip() for cell in row.strip("│").split("│")]
    blocks = {name: BoardFit(spec, board(name)).needs for name in ("zcu102", "kv260")}
    shown = [
        ", ".join(f"{one[kind]:g} {kind.upper()}" for kind in ("bram36", "uram") if one[kind])
        for one in blocks.values()
    ]
    assert found[1:] == [f"{spec.lanes} x {spec.columns}", f"{spec.forward.cycles:,}", found[3], str(spec.dsps), *shown]

    # tune, package, evaluate: golden accuracy
    assert accuracies in printed["tune"]
    assert f"cache {tuned.cache_bytes} bytes, {tuned.saturations} values clipped" in printed["tune"]
    example = json.loads((tmp_path / "core" / "spec.json").read_text())
    assert example["data"]["name"] == "npz:mine.npz"
    page = (tmp_path / "core" / "README.md").read_text()
    assert f"Golden says {100 * before:.1f} % before, {100 * after:.1f} % after" in page
    assert f"{100 * after:.1f}% of {tested} samples" in printed["evaluate"]
    if rtl:
        assert "0 mismatches" in printed["tune"]
        right = [round(one * tested) for one in (before, after)]
        counted = re.findall(
            r"^infer\S*: (\d+) of (\d+) samples are right, golden says (\d+)$", printed["make"], re.MULTILINE
        )
        assert counted == [(str(one), str(tested), str(one)) for one in right]

    # back in PyTorch, within the stated bound
    found = json.loads(fabtune("evaluate", "tuned.safetensors", "--engine", "float", "--json")[1])
    right, of = map(int, re.fullmatch(r"(\d+) of (\d+) right\n", printed["check"]).groups())
    assert of == tested
    assert abs(right / of - after) <= found["accuracy_bound"]
    assert abs(right - round(tested * after)) <= found["taken_otherwise"]
    if name == "class":  # the figures of the page
        right = [round(one * tested) for one in (before, after)]
        assert f"{100 * before:.1f} % right before, {100 * after:.1f} % after" in PAGE
        assert f"{right[0]} of {tested} right before, {right[1]} after" in PAGE
        assert f"`{printed['check'].strip()}`" in PAGE
