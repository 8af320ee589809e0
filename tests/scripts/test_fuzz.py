"""Random options and values: a result or a one-line error, and no loss of user files.

Checks before a command's work are real; the work itself, such as training, is replaced by `Work`.
"""

import ast
import importlib
import os
import pkgutil
import tempfile
from contextlib import chdir, suppress
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import fabtune
from fabtune.scripts.cli import main

MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
"""
SPACE = """
block = "zotrain"
objectives = ["cycles"]
[sweep.settings]
lanes = [16, 32]
"""
ANYTHING = (
    *("", " ", "-1", "0", "1", "2", "3", "0.5", "nan", "inf", "-inf", "1e309", "1e-320", "99999999999999999999999"),
    *("é✓", "a=b", "=", ":", "true", "none", "gone", "gone/file", "folder", "random.bin", "random.npz", "mine.py"),
    *("precious.png", "precious.png/below", "random.safetensors", "x" * 300, "[red]", "%s{0}", "\n"),
)
VALUES = {
    "method": (
        "instantft",
        "skip2-lora",
        "lora-last",
        "ft-last",
        "ft-all",
        "mezo",
        "pezo-otf",
        "pezo-pool",
        "sparse-zo",
    ),
    "engine": ("golden", "float", "rtl"),
    "core": ("tiny", "small", "fast", "chip", "large"),
    "network": ("digits", "fan", "lenet5-mnist"),
    "model": ("mine.py:build", "folder"),
    "weights": ("random.safetensors",),
    "data": ("digits", "mnist", "sst-2", "npz:random.npz", "csv:folder", "npz:mine.npz"),
    "data_dir": ("folder",),
    "drift": ("none", "camera", "rotate:30"),
    "rate": ("0.1", "1e-4"),
    "schedule": ("linear", "cosine", "step:2:0.5"),
    "stop_at": ("0.5", "2"),
    "validate": ("0.1", "0.5"),
    "eps": ("0.001", "0.0009765625"),
    "generator": ("gaussian", "otf8", "pool"),
    "parameters": ("scale.urng.bits=8", "pool.p=33"),
    "settings": ("bits=8", "n=4", "width=3", "rank=2"),
    "mask": ("generic", "task", "random"),
    "precision": ("float32", "bfloat16"),
    "block": ("urng", "scale", "pezo", "fifo", "tile", "nf4_quant"),
    "names": ("perturb", "fifo", "coefficient"),
    "rules": ("progress", "o_held"),
    "counterexamples": ("new", "gone/new", "folder"),
    "preset": ("tiny", "small", "otf8", "pool"),
    "board": ("zcu102", "kv260"),
    "simulator": ("icarus", "verilator"),
    "name": ("pezo-3", "pezo-4", "pezo-6", "pezo-core", "instantft-1", "instantft-7a", "skip2-6", "fedspzo"),
    "output": ("new.safetensors", "new/deep.safetensors", "precious.safetensors"),
    "plot": ("new.png", "precious.png", "new.gif"),
    "delta": ("new.delta", "precious.safetensors"),
    "waves": ("new.fst", "gone/new.fst"),
    "capture": ("random.bin",),
    "radix": ("hex", "o_number=binary", "load_bit=ascii"),
    "report": ("random.bin",),
    "file": ("random.safetensors", "precious.safetensors", "space.toml"),
    "journal": ("new.log", "gone/new.log", "precious.png"),
}
"""Possibly valid values by parameter name."""
CHOICES = ("method", "data")
"""Parameters that decide which others apply."""
EXAMPLES = int(os.environ.get("FABTUNE_FUZZ", 800))
"""Random lines per command in the slow tests."""
FILES = ("precious.png", "precious.safetensors", "random.bin", "random.npz", "random.safetensors")


class Work(Exception):  # noqa: N818 - no error: the command was accepted
    """The work of a command begins."""


def begin(*_, **__):
    raise Work


def import_users(names):
    """Import the modules that import one of these names: imported later, they would keep the replacement."""
    root = Path(fabtune.__file__).parent
    for path in [path for package in ("golden", "boards", "sim", "scripts") for path in (root / package).rglob("*.py")]:
        imports = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        if any(item.name in names for node in imports for item in node.names):
            with suppress(ModuleNotFoundError):  # of an extra that is not installed
                importlib.import_module(".".join(("fabtune", *path.relative_to(root).with_suffix("").parts)))


@pytest.fixture(scope="module", autouse=True)
def _no_work():
    places = [
        f"fabtune.{place}"
        for place in (
            *("golden.train.adapters.tune.tune", "golden.train.pretrain.pretrained", "scripts.start.pretrained"),
            *("sim.compiled.tuner.compare", "golden.train.zo.finetune.FineTuning.run"),
            *(
                "golden.train.zo.integer.IntegerTuning.run",
                "scripts.federate.FederatedExperiment",
                "scripts.demo.run.run",
            ),
            *("scripts.tables.trials.run_trials", "scripts.tables.zeroth.kept_trials", "scripts.tables.skip2.tune"),
            *(
                "scripts.tables.instantft.kept_trials",
                "scripts.tables.fedspzo.kept_trials",
                "scripts.tables.pezo.pezo_6",
            ),
            *(
                "scripts.tables.skip2.kept_trials",
                "scripts.tables.skip2.skip2_6",
                "scripts.cores.zotrain.pezo_core.pezo_core",
            ),
            *("boards.estimate.estimate.estimate_spec", "boards.estimate.estimate.estimate_verilog"),
            *("scripts.imports.network.estimate_spec", "scripts.sweep.run.run_trials"),
            *("sim.verify.simulate", "sim.formal.prover._write_model", "scripts.doctor.checks"),
            *("mutation.block_campaign.netlist", "mutation.core_campaign.netlist"),
        )
    ]
    for place in places:
        pkgutil.resolve_name(place)
    import_users({place.rpartition(".")[2] for place in places})
    with pytest.MonkeyPatch.context() as patch:
        for place in places:
            patch.setattr(place, begin)
        yield


def leaves(group, words=()):
    """Commands other than groups, by user words."""
    found = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        found |= leaves(command, (*words, name)) if isinstance(command, click.Group) else {(*words, name): command}
    return found


COMMANDS = leaves(main)


@st.composite
def command_lines(draw, words):
    """A command with some options, whose values are valid, nearly valid or random."""
    line, arguments = [*words], []
    for one in COMMANDS[words].params:
        likely = VALUES.get(one.name, ("3",))
        anything = st.sampled_from(ANYTHING) | st.integers().map(str) | st.floats().map(str)
        value = st.integers(0, 4).flatmap(
            lambda at, one=likely, other=anything: other if at == 0 else st.sampled_from(one)
        )
        if isinstance(one, click.Argument):
            arguments += draw(st.lists(value, min_size=1, max_size=2 if one.nargs < 0 else 1))
        elif draw(st.integers(0, 1 if one.name in CHOICES else max(3, len(COMMANDS[words].params) // 3))) == 0:
            line += [one.opts[0]] if one.is_flag else [one.opts[0], draw(value)]
    return [*line, *arguments]


def fill(folder):
    """A user's folder: files of random bytes, a model, samples."""
    rng = np.random.default_rng(0)
    (folder / "folder").mkdir()
    for name in FILES:
        (folder / name).write_bytes(rng.bytes(300))
    (folder / "mine.py").write_text(MODEL)
    (folder / "space.toml").write_text(SPACE)
    samples = {f"x_{part}": np.zeros((4, 1, 8, 8), np.float32) for part in ("train", "tune", "test")}
    np.savez(folder / "mine.npz", **samples, **{f"y_{part}": np.arange(4) for part in ("train", "tune", "test")})


def contents(folder):
    """Bytes of all files by path."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check(line):
    """Run a command in a fresh folder."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        fill(Path(folder))
        before = contents(Path(folder))
        done = CliRunner().invoke(main, line)
        after = contents(Path(folder))
        assert done.exception is None or isinstance(done.exception, SystemExit | Work), (line, done.exception)
        assert "Traceback" not in done.output, line
        if isinstance(done.exception, SystemExit) and done.exit_code:
            assert done.exit_code in (1, 2), line
        if not isinstance(done.exception, Work) and done.exit_code == 2:
            assert done.stderr.startswith("fabtune: "), line
            assert done.stderr.count("\n") == 1, (line, done.stderr)
            assert done.stdout == "", line
            assert after == before, line
        if "--force" not in line:
            assert {name: after.get(name) for name in before} == before, line
        # lock files of a sweep stand next to its journal
        written = {name.parts[0].removesuffix(".lock") for name in after.keys() - before.keys()}
        assert written <= {"build", *(str(part).split(os.sep)[0] for part in line)}, line


def fuzz(words, examples):
    """Check random lines of a command."""
    settings(max_examples=examples)(given(command_lines(words))(check))()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_any_command_line(words):
    fuzz(words, 10)


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_many_command_lines(words):
    fuzz(words, EXAMPLES)
