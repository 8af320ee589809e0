"""Objective of zeroth-order fine-tuning: a transformer on a few-shot task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...errors import UserError
from ...files import lines_of, read_text
from ...fixed import Integers
from ..device import default_device
from .classifier import LOGIT_SCALE, TextClassifier
from .tasks import TextTask

_PASSAGES, _AT_ONCE = 512, 16
_LEAST = 12
"""Fewest words of a passage; shorter halves have too little meaning."""


class TextObjective:
    """A transformer, moved to `default_device`, on a few-shot task; implements `zo.finetune.Objective`.

    `generic` is a text file with passages separated by empty lines, for the generic mask of sensitive weights.
    """

    def __init__(self, module: TextClassifier, task: TextTask, generic: Path | None = None) -> None:
        self.module = module.to(default_device())
        self.task = task
        self.generic = generic

    @property
    def samples(self) -> int:
        return len(self.task.tune)

    def closure_of(self, indices: Integers) -> Callable[[], Tensor]:
        batch = self.module.batch(self.task.tune[indices])
        return lambda: self.module.loss(batch)

    def accuracy(self) -> float:
        return self.module.accuracy(self.task.test)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        return float(self.module.loss(self.module.batch(self.task.test, 64)))

    def losses(self, kind: Literal["generic", "task"]) -> list[Callable[[], Tensor]]:
        """Closures of losses: of single tuning sentences ("task"), or of generic text ("generic").

        Generic text has the contrastive loss of sentence-transformers: in a group of 16 passages, the first half of
        each has to match its second half. The paper uses the language-model loss, but an encoder for embeddings has no
        language-model head.
        """
        if kind == "task":
            return [self.closure_of(np.array([sample])) for sample in range(self.samples)]
        if self.generic is None:
            raise UserError("the generic mask needs generic text; or take --mask task or --mask random")
        halves = _halves(self.generic)
        groups = [halves[start : start + _AT_ONCE] for start in range(0, len(halves), _AT_ONCE)]
        return [partial(self._matched, group) for group in groups]

    def _matched(self, halves: list[tuple[str, str]]) -> Tensor:
        first, second = (self.module.embed(self.module.tokens(texts)) for texts in zip(*halves, strict=True))
        targets = torch.arange(len(halves), device=first.device)
        return functional.cross_entropy(LOGIT_SCALE * first @ second.T, targets)


def _halves(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise UserError(f"the generic text {path} is missing")
    # line endings of every system
    text = "\n".join(lines_of(read_text(path, errors="replace")))
    passages = [part.split() for part in text.split("\n\n")]
    long = [words for words in passages if len(words) >= _LEAST]
    if len(long) < _AT_ONCE:
        raise UserError(f"{path} has {len(long)} passages of {_LEAST} words or more, {_AT_ONCE} are needed")
    chosen = np.random.default_rng(0).permutation(len(long))[: min(_PASSAGES, len(long) // _AT_ONCE * _AT_ONCE)]
    pairs = ((long[number], len(long[number]) // 2) for number in chosen)
    return [(" ".join(words[:half]), " ".join(words[half:])) for words, half in pairs]
