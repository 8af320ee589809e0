"""Few-shot text tasks: k sentences per class for tuning, other sentences for testing.

SST-2, SST-5, TREC, RTE and MNLI use the splits of LM-BFF (Gao et al., 2021) with k = 16 and five seeds, as MeZO and
PeZO do. For another k, tuning sentences are drawn from the full training set. RTE and MNLI have pairs of sentences.
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
from .label_words import Sentence, Wording

SHOTS = 16
"""Sentences per class in LM-BFF's splits."""
NO_PAIRS = "pairs of sentences take label words: give --model a decoder with a language-model head"
SEEDS = (13, 21, 42, 87, 100)
"""Seeds of LM-BFF's splits, as in the file names."""


@dataclass(frozen=True)
class Texts:
    """Sentences, or pairs of sentences, with labels."""

    sentences: tuple[Sentence, ...]
    labels: Integers

    def __post_init__(self) -> None:
        if len(self.sentences) != len(self.labels):
            raise UserError(f"{len(self.sentences)} sentences have {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: NDArray[np.integer]) -> Texts:
        return Texts(tuple(self.sentences[index] for index in indices), self.labels[indices])

    @property
    def singles(self) -> tuple[str, ...]:
        """The sentences, none a pair.

        Raises
        ------
        UserError
            If a sentence is a pair: an embedding does not tell what follows from a sentence.
        """
        single = tuple(sentence for sentence in self.sentences if isinstance(sentence, str))
        if len(single) != len(self.sentences):
            raise UserError(NO_PAIRS)
        return single


@dataclass(frozen=True)
class TextTask:
    """Few-shot task.

    `prompts` are a typical sentence of each class, empty for pairs of sentences. `wording` has template and label
    words, for a model with a language-model head.
    """

    name: str
    prompts: tuple[str, ...]
    tune: Texts
    test: Texts
    wording: Wording | None = None

    @property
    def classes(self) -> int:
        return len(self.wording.words if self.wording else self.prompts)


@dataclass(frozen=True)
class _Kind:
    """Files of a task below the folder ``text``, prompts and label words.

    The words are LM-BFF's. Its templates suit an encoder, which may put the mask anywhere. Here the word comes last; in
    RTE and MNLI the template is MeZO's.
    """

    splits: str
    full: str | None
    template: str
    words: tuple[str, ...]
    prompts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """Names of the classes in a file of pairs."""
    encoding: str = "utf-8"
    """Encoding of the full set; other files are UTF-8."""

    @property
    def classes(self) -> tuple[str, ...]:
        return self.labels or tuple(str(number) for number in range(len(self.words)))


_KINDS = {
    "sst-2": _Kind(
        "SST-2",
        "sent-conv/stsa.binary.train",
        "{0} It was",
        (" terrible", " great"),
        ("It was terrible.", "It was great."),
    ),
    "sst-5": _Kind(
        "sst-5",
        "sent-conv/stsa.fine.train",
        "{0} It was",
        (" terrible", " bad", " okay", " good", " great"),
        ("It was terrible.", "It was bad.", "It was okay.", "It was good.", "It was great."),
    ),
    "trec": _Kind(
        "trec",
        "sent-conv/TREC.train.all",
        "{0} Answer type:",
        (" Description", " Entity", " Expression", " Human", " Location", " Number"),
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
    "rte": _Kind(
        "RTE",
        "rte/train.tsv",
        '{0}\nDoes this mean that "{1}" is true? Yes or No?\n',
        ("Yes", "No"),
        labels=("entailment", "not_entailment"),
    ),
    "mnli": _Kind(
        "MNLI",
        None,
        'Suppose {0} Can we infer that "{1}"? Yes, No, or Maybe?\n',
        ("No", "Yes", "Maybe"),
        labels=("contradiction", "entailment", "neutral"),
    ),
}
TEXT_TASKS = (*_KINDS, "csv:FOLDER")


def generic_text(data_dir: Path) -> Path:
    """Default file of generic text in the data folder, for the generic mask of sensitive weights."""
    return data_dir / "text" / "tinyshakespeare" / "input.txt"


def is_text(name: str) -> bool:
    return name in _KINDS or name.startswith("csv:")


def text_task(
    name: str, data_dir: Path | None = None, shots: int = SHOTS, seed: int = 0, tests: int = 1000
) -> TextTask:
    """Load a task.

    Parameters
    ----------
    name : str
        One of `TEXT_TASKS`. ``csv:FOLDER`` has ``train.csv`` and ``test.csv`` with rows ``label,sentence`` by RFC 4180,
        labels counted from 0, and ``prompts.txt`` with one line per class. An optional file ``label-words.txt`` has a
        template with ``{0}`` in the first line, then a label word per class and line, with the blank before the word.
    data_dir : Path, optional
        Folder with ``text/lmbff-kshot`` and, for other shots than 16, ``text/sent-conv`` and ``text/rte``.
    shots : int
        Tuning sentences per class.
    seed : int
        With 16 shots, number of LM-BFF's split modulo five; else seed of the draw.
    tests : int
        Largest number of test sentences, drawn independently of the seed.

    Raises
    ------
    UserError
        If the task is unknown, its files are missing or malformed, or a class has no sentence.
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
        classes = tuple(str(number) for number in range(len(prompts)))
        train, test = (_read(folder / f"{part}.csv", classes) for part in ("train", "test"))
        wording = _wording(folder / "label-words.txt", len(prompts))
        tune = _shots(train, len(prompts), shots, seed, folder)
        return TextTask(folder.name, prompts, tune, _some(test, tests), wording)
    if name not in _KINDS:
        raise UserError(f"there is no text task {name!r}; there are: {', '.join(TEXT_TASKS)}")
    if data_dir is None:
        raise UserError(f"{name} needs --data-dir, the folder with text/lmbff-kshot")
    kind = _KINDS[name]
    split = data_dir / "text" / "lmbff-kshot" / kind.splits / f"{SHOTS}-{SEEDS[seed % len(SEEDS)]}"
    ending = "tsv" if (split / "train.tsv").exists() else "csv"
    # copies without MNLI's test set: the other few-shot sentences are the test
    names = [f"test.{ending}", *(["test_matched.tsv", "dev_matched.tsv"] if name == "mnli" else [])]
    test = _read(split / next((file for file in names if (split / file).exists()), names[0]), kind.classes)
    if shots == SHOTS:
        train = _read(split / f"train.{ending}", kind.classes)
        if missing := set(range(len(kind.classes))) - set(train.labels.tolist()):
            raise UserError(f"{split / f'train.{ending}'} has no sentence of class {min(missing)}")
    elif kind.full is None:
        raise UserError(f"shots = {shots}: {name} has only its splits of {SHOTS} sentences per class here")
    else:
        full = data_dir / "text" / kind.full
        texts = _read(full, kind.classes, kind.encoding)
        tested = set(test.sentences)  # TREC's two sets share some questions
        unseen = np.array([index for index in range(len(texts)) if texts.sentences[index] not in tested], int)
        train = _shots(texts[unseen], len(kind.classes), shots, seed, full)
    return TextTask(name, kind.prompts, train, _some(test, tests), Wording(kind.template, kind.words))


def _wording(path: Path, classes: int) -> Wording | None:
    if not path.exists():
        return None
    lines = lines_of(read_text(path))
    if len(lines) != classes + 1:
        raise UserError(f"{path} has {len(lines)} lines: write the template, and a word for each of {classes} classes")
    try:
        wording = Wording(lines[0], tuple(lines[1:]))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if wording.pairs:
        raise UserError(f"{path}: {{1}} is for pairs of sentences, which a CSV does not have")
    return wording


def _shots(texts: Texts, classes: int, shots: int, seed: int, source: Path) -> Texts:
    """Random sentences of each class, `shots` of each, in the file's order."""
    rng = np.random.default_rng([seed, 3])
    chosen = []
    for label in range(classes):
        indices = np.flatnonzero(texts.labels == label)
        if len(indices) == 0:
            raise UserError(f"{source} has no sentence of class {label}")
        chosen.append(rng.permutation(indices)[:shots])
    return texts[np.sort(np.concatenate(chosen))]


def _some(texts: Texts, most: int) -> Texts:
    rng = np.random.default_rng(0)
    return texts[np.sort(rng.permutation(len(texts))[:most])]


def _read(path: Path, classes: tuple[str, ...], encoding: str = "utf-8") -> Texts:
    """Sentences of a TSV, a CSV, or a file of lines ``label sentence``; `classes` are the labels' names."""
    kinds = {".tsv": _tabs, ".csv": _commas}
    text = read_text(path, encoding)
    sentences, labels = list[Sentence](), list[int]()
    try:
        for line, label, sentence in kinds.get(path.suffix, _blanks)(text):
            texts = [sentence] if isinstance(sentence, str) else [*sentence]
            if label not in classes or not all(text_part.strip() for text_part in texts):
                what = f"{label[:40]!r}, {', '.join(repr(text_part[:40]) for text_part in texts)}"
                named = f"below {len(classes)}" if classes[0] == "0" else f"of {', '.join(classes)}"
                raise UserError(f"line {line}: {what} is not a label {named} and a text")
            labels.append(classes.index(label))
            first, *second = (text_part.strip() for text_part in texts)
            sentences.append((first, second[0]) if second else first)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if not labels:
        raise UserError(f"{path} has no sentences")
    return Texts(tuple(sentences), np.array(labels))


def _tabs(text: str) -> Iterator[tuple[int, str, Sentence]]:
    """Lines ``sentence<tab>label`` after a header line, or GLUE's pairs by the header's names."""
    head, *lines = lines_of(text.rstrip("\r\n"))
    names = head.split("\t")
    if "sentence1" not in names:
        for number, line in enumerate(lines, 2):
            sentence, _, label = line.rpartition("\t")
            yield number, label, sentence
        return
    if "sentence2" not in names or not {"label", "gold_label"} & set(names):
        raise UserError("line 1: a file with sentence1 has sentence2 and label or gold_label, too")
    places = [names.index(column) for column in ("sentence1", "sentence2")]
    last = names.index("gold_label" if "gold_label" in names else "label")
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        if len(cells) != len(names):
            raise UserError(f"line {number}: {len(cells)} cells, and {len(names)} in the header")
        yield number, cells[last], (cells[places[0]], cells[places[1]])


def _commas(text: str) -> Iterator[tuple[int, str, str]]:
    """Rows ``label,sentence``; empty lines are skipped."""
    for number, row in csv_rows(text):
        if len(row) > 2:
            raise UserError(
                f"line {number}: {len(row)} cells instead of label,sentence: put a text with commas in quotes"
            )
        if row:
            yield number, row[0], row[1] if len(row) == 2 else ""


def _blanks(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines_of(text.rstrip("\r\n")), 1):
        label, _, sentence = line.partition(" ")
        yield number, label, sentence
