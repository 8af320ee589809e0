"""README: a network's lines are those of docs/your-network.md, which is executed; a language model's run here."""

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
