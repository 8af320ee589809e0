"""A transformer and a few-shot task, as zeroth order sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...errors import UserError
from ...fixed import Integers
from ..device import default_device
from .classifier import SHARPNESS, TextClassifier
from .tasks import TextTask

_PASSAGES, _AT_ONCE = 512, 16
_LEAST = 12
"""Words of a passage at least: two halves that say something."""


class TextObjective:
    """A transformer on a few-shot task; see `zo.finetune.Objective`.

    Parameters
    ----------
    module : TextClassifier
        Put on the GPU where there is one.
    task : TextTask
    generic : Path, optional
        Text of any kind, passages with an empty line between them: for the sensitive weights.
    """

    def __init__(self, module: TextClassifier, task: TextTask, generic: Path | None = None) -> None:
        self.module = module.to(default_device())
        self.task = task
        self.generic = generic

    @property
    def samples(self) -> int:
        """How many there are to tune on."""
        return len(self.task.tune)

    def closure_of(self, indices: Integers) -> Callable[[], Tensor]:
        """Mean cross entropy of sentences to tune on."""
        batch = self.module.batch(self.task.tune[indices])
        return lambda: self.module.loss(batch)

    def right(self) -> float:
        """Fraction of held-out sentences with the right label."""
        return self.module.right(self.task.test)

    def losses(self, kind: Literal["generic", "task"]) -> Iterator[Callable[[], Tensor]]:
        """Of single sentences to tune on; or of generic text, with the loss that embeddings are pre-trained with.

        That is the contrastive one (sentence-transformers' own): of the second halves of 16 passages, each first half
        shall find its own. An encoder for embeddings has no language-model head, whose loss the paper takes.
        """
        if kind == "task":
            return (self.closure_of(np.array([one])) for one in range(self.samples))
        if self.generic is None:
            raise UserError("the generic mask needs generic text, or take the mask of the task or a random one")
        halves = _halves(self.generic)
        groups = [halves[start : start + _AT_ONCE] for start in range(0, len(halves), _AT_ONCE)]
        return (lambda group=group: self._matched(group) for group in groups)  # type: ignore[misc]

    def _matched(self, halves: list[tuple[str, str]]) -> Tensor:
        first, second = (self.module.embed(self.module.tokens(some)) for some in zip(*halves, strict=True))
        own = torch.arange(len(halves), device=first.device)
        return functional.cross_entropy(SHARPNESS * first @ second.T, own)


def _halves(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise UserError(f"{path}, the generic text, is missing")
    passages = [part.split() for part in path.read_text(encoding="utf-8", errors="replace").split("\n\n")]
    long = [words for words in passages if len(words) >= _LEAST]
    if len(long) < _AT_ONCE:
        raise UserError(f"{path} has {len(long)} passages of {_LEAST} words or more, {_AT_ONCE} are needed")
    chosen = np.random.default_rng(0).permutation(len(long))[: min(_PASSAGES, len(long) // _AT_ONCE * _AT_ONCE)]
    pairs = ((long[one], len(long[one]) // 2) for one in chosen)
    return [(" ".join(words[:half]), " ".join(words[half:])) for words, half in pairs]
