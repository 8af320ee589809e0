"""Task of a transformer's example: a language model with a head, sentences to tune on, and held-out sentences."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ...golden.train.text.sentence_model import SentenceModel
    from ...golden.train.text.tasks import Texts
    from ...golden.train.zo.delta_file import Delta
    from ...golden.train.zo.transformer_tuning import Selection


@dataclass(frozen=True, eq=False, kw_only=True)
class SentenceTask:
    """Transformer and sentences of a core's example and memory images.

    Parameters
    ----------
    name : str
        Origin of the sentences, for messages.
    model : SentenceModel
        Calibrated.
    tune, test : Texts
        Sentences to tune on, and held-out sentences.
    selection : Selection
        Tuned tensors and base; ignored with a delta, which names its own tensors and base.
    delta : Delta, optional
        Updates of an earlier run; the job begins with the updated weights.
    steps, batch : int, optional
        Number of steps, and sentences of a step; by default few steps.
    rate : float, optional
        Learning rate of the mean loss of a step.
    seed : int
        Seed of the generator's position and of the sentences' order.
    """

    name: str
    model: SentenceModel = field(repr=False)
    tune: Texts = field(repr=False)
    test: Texts = field(repr=False)
    selection: Selection
    delta: Delta | None = None
    steps: int | None = None
    batch: int | None = None
    rate: float | None = None
    seed: int = 0

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all inputs of the job's bytes besides the core."""
        delta, model = self.delta, self.model
        chosen = self.selection if delta is None else (delta.order, delta.parameters, delta.source)
        parts = (self.steps, self.batch, self.rate, self.seed, chosen, model.prompts, model.wording, model.activations)
        found = hashlib.sha256(repr((*parts, model.network)).encode())
        arrays = [*model.parameters.values(), model.words, *([] if delta is None else [delta.total])]
        for texts in (self.tune, self.test):
            arrays += [model.tokens(texts.sentences), texts.labels]
        for array in arrays:
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()
