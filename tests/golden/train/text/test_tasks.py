"""Few-shot tasks from files."""

import os
from pathlib import Path

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.tasks import SEEDS, text_task


@pytest.fixture
def mine(tmp_path):
    """A user's folder."""
    (tmp_path / "prompts.txt").write_text("It was bad.\nIt was good.\n")
    rows = [f'{at % 2},"sentence {at}, with a comma"' for at in range(40)]
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "test.csv").write_text("1,so good\n0,so bad\n1,a line\x85with an odd character\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def kshot(tmp_path):
    """LM-BFF's layout: a tab-separated task with a header, one with commas, and a full set with blanks."""
    for seed in SEEDS:
        for name, ending, lines in (
            ("SST-2", "tsv", ["sentence\tlabel", f"dull , of {seed}\t0", f"fine , of {seed}\t1"]),
            ("trec", "csv", [f'{label},"Who , {seed} ?"' for label in range(6)]),
        ):
            folder = tmp_path / "text" / "lmbff-kshot" / name / f"16-{seed}"
            folder.mkdir(parents=True)
            for part in ("train", "test"):
                (folder / f"{part}.{ending}").write_text("\n".join(lines) + "\n")
    full = tmp_path / "text" / "sent-conv"
    full.mkdir()
    lines = [f"{at % 6} What is the caf\xe9 number {at} ?" for at in range(60)]
    (full / "TREC.train.all").write_text("\n".join(lines) + "\n", encoding="latin-1")
    return tmp_path


def test_a_users_folder(mine):
    task = text_task(f"csv:{mine}", shots=5)
    assert task.prompts == ("It was bad.", "It was good.")
    assert np.bincount(task.tune.labels).tolist() == [5, 5]
    assert all(", with a comma" in sentence for sentence in task.tune.sentences)
    assert task.test.labels.tolist() == [1, 0, 1]
    assert len(text_task(f"csv:{mine}", shots=5, tests=2).test) == 2


def test_a_class_without_sentences_is_refused(mine, kshot):
    (mine / "train.csv").write_text("0,bad\n0,poor\n")
    with pytest.raises(UserError, match="has no sentence of class 1"):
        text_task(f"csv:{mine}")
    path = kshot / "text/lmbff-kshot/SST-2" / f"16-{SEEDS[0]}" / "train.tsv"
    path.write_text("sentence\tlabel\nfine\t1\n")
    with pytest.raises(UserError, match=r"train\.tsv has no sentence of class 0"):
        text_task("sst-2", kshot)


def test_label_words_of_a_user(mine):
    assert text_task(f"csv:{mine}").wording is None
    (mine / "label-words.txt").write_text("{0} It was\n bad\n good\n")
    task = text_task(f"csv:{mine}")
    assert task.wording == Wording("{0} It was", (" bad", " good"))
    assert task.classes == 2
    for text, says in (
        ("{0} It was\n bad\n", r"label-words\.txt has 2 lines: write the template, and a word for each of 2 classes"),
        ("It was\n bad\n good\n", r"label-words\.txt: 'It was' is no template"),
        ("{0} It {1}\n bad\n good\n", r"label-words\.txt: \{1\} is for pairs of sentences"),
    ):
        (mine / "label-words.txt").write_text(text)
        with pytest.raises(UserError, match=says):
            text_task(f"csv:{mine}")


def test_a_text_in_quotes_is_whole(mine):
    (mine / "test.csv").write_bytes(b'0,"bad\r\nfilm"\r\n\r\n1,"a ""good"" one, really"\r\n')
    assert text_task(f"csv:{mine}").test.sentences == ("bad\r\nfilm", 'a "good" one, really')


@pytest.mark.parametrize("name", ["prompts.txt", "train.csv", "test.csv"])
def test_a_byte_order_mark_is_no_text(mine, name):
    plain = text_task(f"csv:{mine}")
    (mine / name).write_bytes(b"\xef\xbb\xbf" + (mine / name).read_bytes())
    marked = text_task(f"csv:{mine}")
    assert marked.prompts == plain.prompts
    assert marked.tune.sentences == plain.tune.sentences
    assert marked.test.sentences == plain.test.sentences
    (mine / name).write_text("0,It\n", encoding="utf-16")
    with pytest.raises(UserError, match=rf"{name} is UTF-16 text: save it as UTF-8"):
        text_task(f"csv:{mine}")


def test_shots_are_drawn_by_seed(mine):
    draws = [text_task(f"csv:{mine}", shots=5, seed=seed).tune.sentences for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_splits_of_lmbff(kshot):
    first, sixth = (text_task("sst-2", kshot, seed=seed) for seed in (0, 5))
    assert first.tune.sentences == sixth.tune.sentences == ("dull , of 13", "fine , of 13")
    assert first.tune.labels.tolist() == [0, 1]
    assert text_task("trec", kshot, seed=1).tune.sentences[0] == "Who , 21 ?"


def test_other_shots_come_from_the_full_set(kshot):
    task = text_task("trec", kshot, shots=3)
    assert np.bincount(task.tune.labels).tolist() == [3] * 6
    assert "café" in task.tune.sentences[0]
    assert len(task.test) == 6


@pytest.fixture
def pairs(tmp_path):
    """LM-BFF's RTE and MNLI, the latter with more columns and no test set, and RTE's full set."""
    rte = ["index\tsentence1\tsentence2\tlabel", '4\tA "b" c\tD\tentailment', "5\tE\tF .\tnot_entailment"]
    mnli = ["index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label"]
    mnli += [f"1\tx\tA\t{label} b\tneutral\t{label}" for label in ("neutral", "entailment", "contradiction")]
    for seed in SEEDS:
        for name, parts, lines in (("RTE", ("train", "test"), rte), ("MNLI", ("train", "dev_matched"), mnli)):
            folder = tmp_path / "text" / "lmbff-kshot" / name / f"16-{seed}"
            folder.mkdir(parents=True)
            for part in parts:
                (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "text" / "rte").mkdir()
    more = [f"{at}\tP {at}\tQ\t{('entailment', 'not_entailment')[at % 2]}" for at in range(20)]
    (tmp_path / "text" / "rte" / "train.tsv").write_text("\n".join([*rte, *more]) + "\n")
    return tmp_path


def test_tasks_of_pairs(pairs):
    rte = text_task("rte", pairs)
    assert rte.tune.sentences == (('A "b" c', "D"), ("E", "F ."))
    assert rte.tune.labels.tolist() == rte.test.labels.tolist() == [0, 1]
    assert rte.wording.pairs
    assert (rte.prompts, rte.classes) == ((), 2)
    mnli = text_task("mnli", pairs)
    assert mnli.tune.sentences[0] == ("A", "neutral b")
    assert mnli.tune.labels.tolist() == mnli.test.labels.tolist() == [2, 1, 0]
    assert [mnli.wording.words[at] for at in mnli.tune.labels] == ["Maybe", "Yes", "No"]
    with pytest.raises(UserError, match="pairs of sentences take label words"):
        _ = mnli.tune.singles


def test_other_shots_of_pairs(pairs):
    task = text_task("rte", pairs, shots=4)
    assert np.bincount(task.tune.labels).tolist() == [4, 4]
    assert not set(task.tune.sentences) & set(task.test.sentences)
    with pytest.raises(UserError, match="shots = 4: mnli has only its splits of 16 sentences"):
        text_task("mnli", pairs, shots=4)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["sentence1\tsentence2\tlabel", "a\tb\tmaybe"],
            "line 2: 'maybe', 'a', 'b' is not a label of entailment, not_",
        ),
        (["sentence1\tsentence2\tlabel", "a\t \tentailment"], "line 2: 'entailment', 'a', ' ' is not"),
        (["sentence1\tsentence2\tlabel", "a\tentailment"], "line 2: 2 cells, and 3 in the header"),
        (["sentence1\tlabel", "a\tentailment"], "line 1: a file with sentence1 has sentence2 and label"),
    ],
)
def test_files_of_pairs_that_are_wrong(pairs, lines, says):
    (pairs / "text" / "lmbff-kshot" / "RTE" / "16-13" / "train.tsv").write_text("\n".join(lines))
    with pytest.raises(UserError, match=rf"train\.tsv: {says}"):
        text_task("rte", pairs)


def test_fine_labels(kshot):
    folder = kshot / "text" / "lmbff-kshot" / "sst-5" / "16-13"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        (folder / f"{part}.csv").write_text("\n".join(f'{label},"film {label}"' for label in range(5)))
    task = text_task("sst-5", kshot)
    assert task.tune.labels.tolist() == [0, 1, 2, 3, 4]
    assert task.wording.words == (" terrible", " bad", " okay", " good", " great")
    (folder / "test.csv").write_text("5,film\n")
    with pytest.raises(UserError, match="'5', 'film' is not a label below 5"):
        text_task("sst-5", kshot)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("train.csv", "2,too high\n", "'2', 'too high' is not a label below 2"),
        ("train.csv", "x,no label\n", "'x'"),
        ("train.csv", "1,\n", "line 1: '1', '' is not"),
        ("train.csv", '0,bad\n\n1,"good\n0,never seen\n', r"train\.csv: line 3: a quote is left open"),
        ("train.csv", '0,bad\n1,a 5" disk\n', "line 2: a quote in a cell that does not begin with one"),
        ("train.csv", '0,"bad" film\n', "line 1: text behind a closed quote"),
        ("train.csv", "0,bad, really\n", "line 1: 3 cells instead of label,sentence"),
        ("train.csv", "0,only the first\n", "no sentence of class 1"),
        ("prompts.txt", "\n It was so-so. \n", r"prompts\.txt has 1 prompts: write a line for each class"),
        ("test.csv", None, "test.csv is missing"),
        ("prompts.txt", None, "prompts.txt is missing"),
    ],
)
def test_files_that_are_wrong(mine, name, text, says):
    (mine / name).unlink() if text is None else (mine / name).write_text(text)
    with pytest.raises(UserError, match=says):
        text_task(f"csv:{mine}", shots=1)


def test_files_of_another_encoding_are_refused(mine):
    (mine / "train.csv").write_bytes(b"0,\xff\xfe\n")
    with pytest.raises(UserError, match=r"train\.csv: line 1 is not utf-8 text"):
        text_task(f"csv:{mine}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sst-3",), "no text task 'sst-3'; there are: sst-2"),
        (("sst-2",), "--data-dir"),
        (("sst-2", Path("gone")), "missing"),
        (("sst-2", Path("gone"), 0), "shots = 0"),
        (("sst-2", Path("gone"), 16, -1), "seed"),
    ],
)
def test_mistakes(arguments, says):
    with pytest.raises(UserError, match=says):
        text_task(*arguments)


@pytest.mark.skipif("FABTUNE_DATA" not in os.environ, reason="needs the real data: set FABTUNE_DATA")
@pytest.mark.parametrize(
    ("name", "classes", "tests"),
    [("sst-2", 2, 872), ("sst-5", 5, 1000), ("trec", 6, 500), ("rte", 2, 277), ("mnli", 3, 48)],
)
def test_the_real_tasks(name, classes, tests):
    for shots in (16,) if name == "mnli" else (16, 64):
        task = text_task(name, Path(os.environ["FABTUNE_DATA"]), shots)
        assert np.bincount(task.tune.labels).tolist() == [shots] * classes
        assert len(task.test) == tests
        assert not set(task.tune.sentences) & set(task.test.sentences)


def test_test_sentences_are_not_drawn(kshot):
    full = kshot / "text" / "sent-conv" / "TREC.train.all"
    lines = [f"{at % 6} {'Who , 13 ?' if at < 12 else f'What number is {at} ?'}" for at in range(60)]
    full.write_text("\n".join(lines) + "\n", encoding="latin-1")
    task = text_task("trec", kshot, shots=9)
    assert "Who , 13 ?" in task.test.sentences
    assert "Who , 13 ?" not in task.tune.sentences
    assert np.bincount(task.tune.labels).tolist() == [8] * 6
