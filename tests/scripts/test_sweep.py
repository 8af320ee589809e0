"""`fabtune sweep`: front, report, commands, outputs, examples, refusals."""

import csv
import json
import shlex
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest

from fabtune.boards.sweep import design, space

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("sweep_*.toml"))
GENERATOR = """
block = "urng"
objectives = ["accuracy", "lut"]
seeds = 2
[training]
core = "tiny"
steps = 20
[settings]
n = 31
[sweep.settings]
bits = [5, 8]
[sweep.training]
rate = [5e-4, 1e-3]
"""
ADAPTERS = """
block = "instantft"
preset = "tiny"
objectives = ["accuracy", "cycles", "dram_bytes"]
[training]
epochs = 1
[sweep.settings]
rank = [1, 2]
cache = ["dram", "chip"]
[sweep.training]
method = ["instantft", "skip2-lora"]
"""
CYCLES = """
block = "zotrain"
objectives = ["cycles", "dram_bytes"]
[sweep.settings]
lanes = [16, 32]
columns = [4, 8]
"""

STREAM = """
block = "zostream"
preset = "tiny"
objectives = ["cycles", "dram_bytes"]
[training]
network = "vit-digits"
sentences = 4
[sweep.settings]
lanes = [8, 16]
columns = [4, 16]
"""


@pytest.fixture
def sweep(fabtune, tmp_path):
    """Run a sweep; returns its JSON."""

    def run(text, *options):
        (tmp_path / "space.toml").write_text(text)
        status, out, err = fabtune("sweep", "space.toml", "--json", *options)
        assert status == 0, err
        return json.loads(out)

    return run


def test_a_generator_against_its_luts(sweep, fabtune, tmp_path):
    found = sweep(GENERATOR)
    assert (found["points"], found["of"], found["infeasible"]) == (4, 4, 0)
    with (tmp_path / "build/sweep/space/points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["bits"], row["training.rate"]) for row in rows] == [*product("58", ("0.0005", "0.001"))]
    values = [(float(row["accuracy"]), float(row["lut"])) for row in rows]
    # a point is on the front unless another is at least as good in both and better in one
    best = {one for one in values if not any(a >= one[0] and b <= one[1] and (a, b) != one for a, b in values)}
    assert {(one["objectives"]["accuracy"], one["objectives"]["lut"]) for one in found["front"]} == best
    report = (tmp_path / "build/sweep/space/report.html").read_text()
    assert report.count("data:image/png;base64,") == 1
    assert "accuracy against lut" in report
    first = found["front"][0]
    emit, tune = (shlex.split(line) for line in first["commands"])
    assert all(line.replace("'", "&#39;") in report or line in report for line in first["commands"])
    status, out, _ = fabtune("estimate", *emit[2:], "--json")
    assert status == 0
    assert json.loads(out)["resources"]["lut"] == first["objectives"]["lut"]
    right = [json.loads(fabtune(*tune[1:], "--seed", seed, "--json")[1])["accuracy_after"] for seed in (0, 1)]
    assert sum(right) / 2 == first["objectives"]["accuracy"]


def test_a_core_and_what_is_infeasible(sweep, fabtune, tmp_path):
    found = sweep(ADAPTERS, "--processes", "1")
    assert (found["points"], found["infeasible"]) == (8, 2)
    with (tmp_path / "build/sweep/space/points.csv").open() as file:
        rows = list(csv.DictReader(file))
    refused = [row for row in rows if row["infeasible"]]
    assert all((row["cache"], row["training.method"]) == ("chip", "skip2-lora") for row in refused)
    assert "skip2-lora caches Q8.16" in refused[0]["infeasible"]
    for one in found["front"]:
        emit, tune = (shlex.split(line) for line in one["commands"])
        status, out, _ = fabtune(*tune[1:], "--json")
        assert status == 0
        assert json.loads(out)["accuracy_after"] == one["objectives"]["accuracy"]
        assert f"rank={one['values']['rank']}" in emit


def test_cores_of_a_transformer_by_its_shapes(sweep):
    found = sweep(STREAM)
    assert (found["points"], found["infeasible"]) == (4, 1)  # 16 columns exceed 8 lanes
    best = min(found["front"], key=lambda one: one["objectives"]["cycles"])
    assert best["values"] == {"lanes": 16, "columns": 16}
    assert best["commands"] == ["fabtune emit zostream --preset tiny --set lanes=16 --set columns=16 --board zcu102"]


STREAM_MISTAKES = {
    ('network = "vit-digits"', 'network = "lenet5-mnist"'): "training: lenet5-mnist is no transformer: give one of",
    ('network = "vit-digits"', 'data = "digits"'): "training.data is unknown; there are: network, model, sentences, ",
    ("sentences = 4", "sentences = 257"): "training.sentences = 257 is not in 1 to 256",
    ("sentences = 4", 'tokens = "many"'): "training.tokens = 'many' is not an integer",
    ('"cycles"', '"accuracy"'): "objectives: 'accuracy' is not one of zostream's: lut, ff, bram36, uram, dsp, cycles",
    ("[sweep.settings]", "[sweep.training]\nsentences = [4, 8]\n[sweep.settings]"): "sentences is given twice",
    ("sentences = 4", "[sweep.training]\nsentences = [4, 8]"): "sentences is not swept: give it in [training]",
    ("columns = [4, 16]", "rows = [8, 2048]"): "sweep.settings.rows = 8 is possible with none of the others' values",
}


@pytest.mark.parametrize("change", STREAM_MISTAKES, ids=lambda change: change[1].split()[0])
def test_a_mistake_in_a_space_of_transformers_is_one_line(refused, tmp_path, change):
    (tmp_path / "space.toml").write_text(STREAM.replace(*change))
    assert STREAM_MISTAKES[change] in refused("sweep space.toml")


def test_a_second_run_does_nothing_again(sweep, tmp_path, monkeypatch):
    first = sweep(CYCLES)
    monkeypatch.setattr("fabtune.scripts.sweep.run.evaluate", None)
    assert sweep(CYCLES) == first
    assert sweep(CYCLES, "-o", "other", "--journal", "build/sweep/space/journal.log")["front"] == first["front"]
    assert (tmp_path / "other" / "report.html").exists()


def test_the_table_shows_the_front(sweep, fabtune):
    sweep(CYCLES)
    status, out, _ = fabtune("sweep", "space.toml")
    assert status == 0
    assert "fabtune emit zotrain --set network=digits" in out
    assert "4 of 4 points, 0 of them infeasible" in out


@pytest.mark.slow  # the study's tests also check processes sharing points
def test_processes_share_a_sweep(sweep):
    assert sweep(CYCLES, "--processes", "2")["points"] == 4


def test_outputs_are_kept(sweep, refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "points.csv").write_text("precious")
    (tmp_path / "space.toml").write_text(CYCLES)
    assert "points.csv exists" in refused("sweep space.toml -o mine")
    assert (tmp_path / "mine" / "points.csv").read_text() == "precious"
    sweep(CYCLES, "-o", "mine", "--force")
    assert (tmp_path / "mine" / "points.csv").read_text().startswith("point,lanes,columns,cycles")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("block = 3", "space.toml: block = 3 is not a text"),
        (CYCLES.replace("[16, 32]", "[16, 20]"), "sweep.settings.lanes = 20 is possible with none"),
        (CYCLES + '[training]\nmethod = "mezo"\n', "training.method = 'mezo' is not one of pezo-otf, pezo-pool"),
        (CYCLES + '[training]\ndata = "gone"\n', "there is no task 'gone'"),
        (GENERATOR.replace('"tiny"', '"chip"'), "training.core = 'chip' is not one of tiny, small"),
    ],
)
def test_a_mistake_is_one_line(refused, tmp_path, text, line):
    (tmp_path / "space.toml").write_text(text)
    assert line in refused("sweep space.toml")


def test_a_missing_file_is_one_line(refused):
    assert "gone.toml is missing" in refused("sweep gone.toml")


def test_another_journal_is_refused(sweep, refused, tmp_path):
    sweep(CYCLES)
    (tmp_path / "space.toml").write_text(CYCLES.replace("[4, 8]", "[2, 8]"))
    assert "is the journal of another space" in refused("sweep space.toml")


def test_without_optuna_it_says_what_to_install(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    (tmp_path / "space.toml").write_text(CYCLES)
    assert "pip install 'fabtune[sweep]'" in refused("sweep space.toml")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[pytest.mark.slow] if file.stem in ("sweep_pezo", "sweep_scale") else [])
        for file in EXAMPLES
    ],
    ids=lambda file: file.stem,
)
def test_every_point_of_the_examples_can_be_built(file):
    from rich.console import Console

    from fabtune.scripts.sweep.run import workloads_of

    found = space.read(file)
    assert found.total == len(list(found.grid()))
    start = workloads_of(found, Console(quiet=True))[0]
    assert design.check(found, start) >= found.total
    assert tomllib.loads(file.read_text())["training"]["data"] == "digits"
