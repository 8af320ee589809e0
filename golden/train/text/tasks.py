"""Few-shot text tasks: k sentences per class to tune on, others to test on.

SST-2, SST-5 and TREC use the splits of LM-BFF (Gao et al., 2021) with k = 16 and five seeds, as MeZO and PeZO do. For
another k, tuning sentences are drawn from the full training set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...files import csv_rows, lines_of, read_text
from ...fixed import Integers

SHOTS = 16
"""Sentences per class in LM-BFF's splits."""
SEEDS = (13, 21, 42, 87, 100)
"""Seeds of LM-BFF's splits, in their names."""


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
    """Few-shot task.

    Parameters
    ----------
    name : str
    prompts : tuple of str
        One per class: a typical sentence of the class.
    tune, test : Texts
    """

    name: str
    prompts: tuple[str, ...]
    tune: Texts
    test: Texts


@dataclass(frozen=True)
class _Kind:
    """Files of a task below the folder ``text``, and its prompts."""

    splits: str
    full: str
    prompts: tuple[str, ...]
    encoding: str = "utf-8"
    """Encoding of the full set; other files are UTF-8."""


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
    """Default file of generic text in the data folder, for the generic mask of sensitive weights."""
    return data_dir / "text" / "tinyshakespeare" / "input.txt"


def is_text(name: str) -> bool:
    """True if a task's name is that of a text task."""
    return name in _KINDS or name.startswith("csv:")


def text_task(
    name: str, data_dir: Path | None = None, shots: int = SHOTS, seed: int = 0, tests: int = 1000
) -> TextTask:
    """Load a task.

    Parameters
    ----------
    name : str
        One of `TEXT_TASKS`. ``csv:FOLDER`` has ``train.csv`` and ``test.csv`` with rows ``label,sentence`` by RFC 4180,
        labels counted from 0, and ``prompts.txt`` with one line per class.
    data_dir : Path, optional
        Folder with ``text/lmbff-kshot`` and, for other shots than 16, ``text/sent-conv``.
    shots : int
        Tuning sentences per class.
    seed : int
        With 16 shots, number of LM-BFF's split modulo five; else seed of the draw.
    tests : int
        Most test sentences; drawn independently of the seed.

    Raises
    ------
    UserError
        If there is no such task, or its files are missing or malformed, or a class has no sentence.
    """
    if shots < 1:
        raise UserError(f"shots = {shots}: at least one sentence per class")
    if seed < 0:
        raise UserError(f"a seed is at least 0, not {seed}")
    if name.startswith("csv:"):
        folder = Path(name.removeprefix("csv:"))
        prompts = tuple(line.strip() for line in lines_of(read_text(folder / "prompts.txt")) if line.strip())
        if len(prompts) < 2:
            raise UserError(f"{folder / 'prompts.txt'} has {len(prompts)} prompts: write a line for each class")
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
        if missing := set(range(classes)) - set(train.labels.tolist()):
            raise UserError(f"{split / f'train.{ending}'} has no sentence of class {min(missing)}")
    else:
        full = data_dir / "text" / "sent-conv" / kind.full
        texts = _read(full, classes, kind.encoding)
        tested = set(test.sentences)  # TREC's two sets share some questions
        unseen = np.array([one for one in range(len(texts)) if texts.sentences[one] not in tested], int)
        train = _shots(texts[unseen], classes, shots, seed, full)
    return TextTask(name, kind.prompts, train, _some(test, tests))


def _shots(texts: Texts, classes: int, shots: int, seed: int, source: Path) -> Texts:
    """Draw so many sentences of each class, in the file's order."""
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
    """Read the sentences of a TSV, a CSV, or a file of lines ``label sentence``."""
    kinds = {".tsv": _tabs, ".csv": _commas}
    text = read_text(path, encoding)
    sentences, labels = [], []
    try:
        for line, label, sentence in kinds.get(path.suffix, _blanks)(text):
            # beyond 4,300 digits int() gives up
            if not (label.isdecimal() and len(label) <= 40 and int(label) < classes and sentence.strip()):
                what = f"{label[:40]!r}, {sentence[:40]!r}"
                raise UserError(f"line {line}: {what} is not a label below {classes} and a text")
            labels.append(int(label))
            sentences.append(sentence.strip())
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if not labels:
        raise UserError(f"{path} has no sentences")
    return Texts(tuple(sentences), np.array(labels))


def _tabs(text: str) -> Iterator[tuple[int, str, str]]:
    """Parse lines ``sentence<tab>label`` after a header line."""
    for number, line in enumerate(lines_of(text.rstrip("\r\n"))[1:], 2):
        sentence, _, label = line.rpartition("\t")
        yield number, label, sentence


def _commas(text: str) -> Iterator[tuple[int, str, str]]:
    """Parse rows ``label,sentence``; empty lines are none."""
    for number, row in csv_rows(text):
        if len(row) > 2:
            raise UserError(
                f"line {number}: {len(row)} cells instead of label,sentence: put a text with commas in quotes"
            )
        if row:
            yield number, row[0], row[1] if len(row) == 2 else ""


def _blanks(text: str) -> Iterator[tuple[int, str, str]]:
    """Parse lines ``label sentence``."""
    for number, line in enumerate(lines_of(text.rstrip("\r\n")), 1):
        label, _, sentence = line.partition(" ")
        yield number, label, sentence
