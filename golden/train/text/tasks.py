"""Few-shot text tasks: k sentences a class to tune on, others to test on.

SST-2, SST-5 and TREC in the splits that LM-BFF (Gao et al., 2021) made of them with k = 16 and five seeds, which MeZO
and PeZO use; with another k the sentences to tune on are drawn from the full training set.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...fixed import Integers

SHOTS = 16
"""Sentences a class of LM-BFF's own splits."""
SEEDS = (13, 21, 42, 87, 100)
"""LM-BFF's names of its splits."""


@dataclass(frozen=True)
class Texts:
    """Sentences with labels.

    Parameters
    ----------
    sentences : tuple of str
    labels : array of int
    """

    sentences: tuple[str, ...]
    labels: Integers

    def __post_init__(self) -> None:
        if len(self.sentences) != len(self.labels):
            raise UserError(f"{len(self.sentences)} sentences have {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: NDArray[np.integer]) -> Texts:
        return Texts(tuple(self.sentences[one] for one in indices), self.labels[indices])


@dataclass(frozen=True)
class TextTask:
    """What a transformer is tuned on.

    Parameters
    ----------
    name : str
    prompts : tuple of str
        One a class: what a sentence of that class is like.
    tune, test : Texts
    """

    name: str
    prompts: tuple[str, ...]
    tune: Texts
    test: Texts


@dataclass(frozen=True)
class _Kind:
    """Where a task's files are, below the folder ``text``, and its prompts."""

    splits: str
    full: str
    prompts: tuple[str, ...]
    encoding: str = "utf-8"
    """Of the full set; everything else is UTF-8."""


_KINDS = {
    "sst-2": _Kind("SST-2", "stsa.binary.train", ("It was terrible.", "It was great.")),
    "sst-5": _Kind(
        "sst-5",
        "stsa.fine.train",
        ("It was terrible.", "It was bad.", "It was okay.", "It was good.", "It was great."),
    ),
    "trec": _Kind(
        "trec",
        "TREC.train.all",
        (
            "What does it mean? A description.",
            "What thing is it? An entity.",
            "What does it stand for? An abbreviation.",
            "Who is it? A person.",
            "Where is it? A place.",
            "How many? A number.",
        ),
        encoding="latin-1",
    ),
}
TEXT_TASKS = (*_KINDS, "csv:FOLDER")


def generic_text(data_dir: Path) -> Path:
    """Text of no task in the same folder, for the weights that are sensitive in general."""
    return data_dir / "text" / "tinyshakespeare" / "input.txt"


def is_text(name: str) -> bool:
    """Whether a task's name is that of a text task."""
    return name in _KINDS or name.startswith("csv:")


def text_task(
    name: str, data_dir: Path | None = None, shots: int = SHOTS, seed: int = 0, tests: int = 1000
) -> TextTask:
    """Load a task.

    Parameters
    ----------
    name : str
        One of `TEXT_TASKS`. A folder of one's own has ``train.csv`` and ``test.csv`` with lines ``label,sentence``,
        labels counted from 0, and ``prompts.txt`` with a line a class.
    data_dir : Path, optional
        Folder with ``text/lmbff-kshot`` and, for other shots than 16, ``text/sent-conv``.
    shots : int
        Sentences a class to tune on.
    seed : int
        Of the split: with 16 shots LM-BFF's first to fifth and round again, else of the draw.
    tests : int
        Sentences to test on at most, drawn once for all seeds.

    Raises
    ------
    UserError
        If there is no such task, or its files are missing, are not such lines, or have too few of a class.
    """
    if shots < 1:
        raise UserError(f"shots = {shots}: at least one sentence a class")
    if seed < 0:
        raise UserError(f"a seed is at least 0, not {seed}")
    if name.startswith("csv:"):
        folder = Path(name.removeprefix("csv:"))
        prompts = tuple(line.strip() for line in _lines(folder / "prompts.txt") if line.strip())
        train, test = (_read(folder / f"{part}.csv", len(prompts)) for part in ("train", "test"))
        return TextTask(folder.name, prompts, _shots(train, len(prompts), shots, seed, folder), _some(test, tests))
    if name not in _KINDS:
        raise UserError(f"there is no text task {name!r}; there are: {', '.join(TEXT_TASKS)}")
    if data_dir is None:
        raise UserError(f"{name} needs --data-dir, the folder with text/lmbff-kshot")
    kind = _KINDS[name]
    classes = len(kind.prompts)
    split = data_dir / "text" / "lmbff-kshot" / kind.splits / f"{SHOTS}-{SEEDS[seed % len(SEEDS)]}"
    ending = "tsv" if (split / "train.tsv").exists() else "csv"
    test = _read(split / f"test.{ending}", classes)
    if shots == SHOTS:
        train = _read(split / f"train.{ending}", classes)
    else:
        full = data_dir / "text" / "sent-conv" / kind.full
        texts = _read(full, classes, kind.encoding)
        tested = set(test.sentences)  # TREC's two sets share some questions
        unseen = np.array([one for one in range(len(texts)) if texts.sentences[one] not in tested], int)
        train = _shots(texts[unseen], classes, shots, seed, full)
    return TextTask(name, kind.prompts, train, _some(test, tests))


def _shots(texts: Texts, classes: int, shots: int, seed: int, source: Path) -> Texts:
    """So many of each class, in the file's order."""
    rng = np.random.default_rng([seed, 3])
    chosen = []
    for label in range(classes):
        there = np.flatnonzero(texts.labels == label)
        if len(there) == 0:
            raise UserError(f"{source} has no sentence of class {label}")
        chosen.append(rng.permutation(there)[:shots])
    return texts[np.sort(np.concatenate(chosen))]


def _some(texts: Texts, most: int) -> Texts:
    rng = np.random.default_rng(0)
    return texts[np.sort(rng.permutation(len(texts))[:most])]


def _read(path: Path, classes: int, encoding: str = "utf-8") -> Texts:
    """Sentences of a file, whichever of the three kinds of lines it has."""
    kinds = {".tsv": _tabs, ".csv": _commas}
    pairs = list(kinds.get(path.suffix, _blanks)(_lines(path, encoding)))
    sentences, labels = [], []
    for number, (label, sentence) in enumerate(pairs, start=1):
        if not (label.isdecimal() and int(label) < classes and sentence.strip()):
            raise UserError(
                f"{path}, sentence {number}: {label!r}, {sentence[:40]!r} is not a label below {classes} and a text"
            )
        labels.append(int(label))
        sentences.append(sentence.strip())
    if not labels:
        raise UserError(f"{path} has no sentences")
    return Texts(tuple(sentences), np.array(labels))


def _lines(path: Path, encoding: str = "utf-8") -> list[str]:
    if not path.is_file():
        raise UserError(f"{path} is missing")
    try:
        # not splitlines, which cuts at characters that sentences have
        return path.read_text(encoding=encoding).rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not {encoding} text") from None


def _tabs(lines: list[str]) -> Iterator[tuple[str, str]]:
    """A headline, then the sentence and the label."""
    for line in lines[1:]:
        sentence, _, label = line.rpartition("\t")
        yield label, sentence


def _commas(lines: list[str]) -> Iterator[tuple[str, str]]:
    for row in csv.reader(lines):
        yield (row[0], ",".join(row[1:])) if row else ("", "")


def _blanks(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        label, _, sentence = line.partition(" ")
        yield label, sentence
