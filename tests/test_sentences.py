"""Checker of long sentences: what counts as prose, where a sentence ends, and its reported line."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "sentences.py"
WORDS = "one two three four five six seven eight nine ten"
LONG = " ".join([WORDS] * 4)
"""Forty words."""


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("sentences", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(checker, tmp_path, monkeypatch, capsys):
    """Output for a page of this text, without its folder, and exit status."""

    def run(text):
        page = tmp_path / "page.md"
        page.write_text(text)
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            checker.main()
        return capsys.readouterr().out.replace(f"{tmp_path}/", ""), ended.value.code

    return run


@pytest.fixture
def counts(checker):
    """Words per sentence."""
    return lambda text: [len(words) for _, words in checker.sentences(text)]


def test_a_long_sentence_is_printed_with_its_line(check):
    shown = "one two three four five six seven eight ..."
    assert check(f"# Title\n\nShort.\nBegins {LONG}.\n") == (f"page.md:4: 41 words: Begins {shown[:33]} ...\n", 1)
    assert check(f"- short\n- {LONG}\n") == (f"page.md:2: 40 words: {shown}\n", 1)


def test_short_sentences_pass(check):
    assert check(f"# Title\n\n{WORDS}. {WORDS.title()}: {WORDS}.\n") == ("", 0)


@pytest.mark.parametrize(("words", "status"), [(35, 0), (36, 1)])
def test_the_limit(check, words, status):
    assert check(" ".join(["word"] * words))[1] == status


@pytest.mark.parametrize(
    "text",
    [
        f"```text\n{LONG}\n```",
        f"    {LONG}",
        f"| {LONG} |",
        f"## {LONG}",
        f"> {LONG}",
        f"![{LONG}](image.svg)",
        f"<!-- {LONG}\n{LONG} -->",
    ],
)
def test_only_prose_counts(check, text):
    assert check(f"Before.\n\n{text}\n\nAfter.\n") == ("", 0)


def test_what_is_left_out_keeps_the_lines(check):
    left_out = "```python\nx = 1\n\ny = 2\n```\n\n<!-- two\nlines -->\n\n`code\nhere` [of\nthree](page.md)."
    assert check(f"{left_out}\nLast: Has {LONG}.\n")[0].startswith("page.md:13: 41 words: Has one")


def test_code_is_one_word_and_a_link_its_text(counts):
    assert counts("See `fabtune emit urng --board kv260` and [the page](../a/long/path.md#with-a-part).") == [5]


@pytest.mark.parametrize("end", ".!?;:")
@pytest.mark.parametrize("start", ["Two", "2", '"Two"', "(two", "*two*", "[Two](page.md)"])
def test_where_a_sentence_ends(counts, end, start):
    assert counts(f"one{end} {start} three") == [1, 2]


@pytest.mark.parametrize(
    "text", ["about 3.5 of them", "see page.md or a/b.c", "boards, e.g. KV260 there", "so: these small words"]
)
def test_where_none_ends(counts, text):
    assert counts(text) == [4]


def test_each_list_item_is_a_paragraph(counts):
    assert counts("Two kinds:\n- of the first\n  kind\n- the second\n  1. nested here\n") == [2, 4, 2, 2]
