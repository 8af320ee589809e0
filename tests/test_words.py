"""Limits of docs/words.py: lengths of the pages and place-holders in their prose, and how both are counted."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", name="words")
def _words():
    spec = importlib.util.spec_from_file_location("words", ROOT / "docs" / "words.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_short(words):
    assert list(words.long_pages(ROOT)) == []


def test_pages_say_the_noun(words):
    name, reached, limit = next(words.rates(ROOT))
    assert name == "pages"
    assert reached <= limit, "python docs/words.py shows the counts"


def test_each_kind_of_page_has_its_limit(words, tmp_path, monkeypatch):
    monkeypatch.setattr(words, "PAGE_WORDS", {"docs/blocks/cores/": 5, "docs/blocks/": 3, "": 9})
    lengths = {
        "README.md": 9,
        "CONTRIBUTING.md": 10,
        "docs/zo.md": 10,
        "docs/blocks/nn/fc.md": 4,
        "docs/blocks/nn/mac.md": 3,
        "docs/blocks/cores/zotrain.md": 6,
    }
    for name, length in lengths.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("word " * length)
    assert list(words.long_pages(tmp_path)) == [
        "CONTRIBUTING.md: 10 words, at most 9",
        "docs/blocks/cores/zotrain.md: 6 words, at most 5",
        "docs/blocks/nn/fc.md: 4 words, at most 3",
        "docs/zo.md: 10 words, at most 9",
    ]


def test_code_tables_and_links_of_a_page_do_not_count(words):
    page = "# It\n\nThe noun, `it` and [a link](that.md).\n\n    it\n\n| it |\n\n```python\nit = 1\n```\n\nIts end.\n"
    assert words.rate(words.page_prose(page)) == pytest.approx(1000 / 8)


def test_docstrings_and_comments_of_a_module_count(words):
    source = '"""It is a noun."""\n\nit = "what"  # those\n\n\ndef it():\n    # such a noun\n    """Its."""\n'
    assert words.rate(words.code_prose(source)) == pytest.approx(3000 / 8)
    assert words.rate([]) == 0


@pytest.mark.parametrize(("limit", "status"), [(500, 0), (499, 1)])
def test_the_script_ends_with_a_status(words, tmp_path, monkeypatch, capsys, limit, status):
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("It runs.\n")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "PAGES_RATE", limit)
    with pytest.raises(SystemExit) as ended:
        words.main()
    assert ended.value.code == status
    assert capsys.readouterr().out.startswith(f"pages      500.0 place-holders in 1,000 words, at most {limit}\n")
