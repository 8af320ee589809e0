"""README: a network's lines are those of docs/your-network.md, which is executed; a language model's run here."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def lines(text, title):
    """Commands of a section."""
    return re.findall(r"^    (\w.*)$", text.partition(f"\n## {title}\n")[2].partition("\n## ")[0], re.MULTILINE)


def test_a_networks_lines_are_those_of_its_page():
    page = lines((ROOT / "docs" / "your-network.md").read_text(), "The way")
    shown = lines(README, "Your own network")
    assert len(shown) == 5
    assert set(shown) <= set(page)


def test_a_language_models_lines_are_those_of_its_page():
    page = lines((ROOT / "docs" / "your-language-model.md").read_text(), "The way")
    first, *shown = lines(README, "Your own language model")
    assert page == [f"{first} --sentences sentences.txt", *shown]
    assert len(page) == 5


def test_the_generators_luts_are_those_of_the_measurement():
    rows = json.loads((ROOT / "docs" / "measurements" / "pezo-6.json").read_text())["rows"]
    (_, mezo_paper, mezo, *_), _, (_, paper, generator, *_), _ = rows
    sentence = " ".join(README.partition("On the ZCU102 ")[2].split())
    told = re.match(r"PeZO's generator takes (\d+) LUT,.* ([\d,]+) \(the paper: (\d+) and ([\d,]+)\)", sentence)
    assert told
    assert told.groups() == (generator, mezo, paper, mezo_paper)


@pytest.mark.slow
def test_the_measurement_is_what_its_command_prints(fabtune):
    measured = json.loads((ROOT / "docs" / "measurements" / "pezo-6.json").read_text())
    status, out, err = fabtune(*measured["command"].split()[1:], "--json")
    assert status == 0, err
    printed = {row["design"]: row for row in json.loads(out)["rows"]}
    for design, _, lut, _, ff, _, bram36, levels in measured["rows"]:
        row = printed[design]
        figures = row["lut measured"], row["ff measured"], row["bram36 measured"], row["logic levels"]
        assert (lut, ff, bram36, levels) == tuple(f"{figure:,g}" for figure in figures)


@pytest.mark.slow
def test_a_language_models_lines_run(fabtune, sentences, tiny_transformer, tmp_path):
    shutil.copytree(tiny_transformer, tmp_path / "FOLDER")
    (tmp_path / "MINE").mkdir()
    for name in ("train.csv", "test.csv", "prompts.txt"):
        shutil.copy(tmp_path / name, tmp_path / "MINE")
    (tmp_path / "sentences.txt").write_text("the film was good\nthe film was bad\n")
    for line in lines((ROOT / "docs" / "your-language-model.md").read_text(), "The way"):
        status, out, err = fabtune(*shlex.split(line)[1:])
        assert status == 0, err
        assert out
    assert (tmp_path / "TUNED" / "model.safetensors").exists()
