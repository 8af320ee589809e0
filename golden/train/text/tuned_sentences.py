"""Sentence classifier before or after tuning, as the hardware holds it, from the file of a run or a delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...cache import digest_of
from ...errors import UserError
from ...files import parse_json
from ...fixed import Q8_16, Format, Integers, Narrower
from ...models.checkpoint import load_saved
from ...stream.frozen_base import BaseKind
from ...stream.transformer_model import TransformerModel
from ...stream.words import TensorName
from ...transformer.float_model import last_float
from ..zo.delta_file import TILE_LAYOUT, Delta
from ..zo.transformer_tuning import with_delta
from .integer_tuning import base_of, folder_state, head_metadata, head_of, in_file
from .label_words import Sentence
from .sentence_model import SentenceModel, sentence_model

LAYOUT = "fabtune-text-run-1"
"""Layout name and version of the file of a run on sentences."""
_IN_INTEGERS, _IN_FLOATS = 32, 4
"""Sentences in one forward pass."""


@dataclass(frozen=True, eq=False)
class SentenceRun:
    """A fine-tuning on sentences in integers, as read from its file.

    Parameters
    ----------
    path : Path
    tensors : dict of str to array
        Tuned tensors by the names of the user's file; empty for a delta.
    metadata : dict of str to str
        ``folder`` (the model before tuning), ``base`` (its digest), ``prompts``, ``template``, ``matrices`` (nf4 or
        18-bit), ``activations``, ``data``, ``shots``, ``seed``, ``method`` and more. A delta has neither ``folder`` nor
        ``data``.
    delta : Delta, optional
        Sum of updates, if the file is a delta.
    """

    path: Path
    tensors: dict[str, NDArray[np.generic]]
    metadata: dict[str, str]
    delta: Delta | None = None

    @classmethod
    def load(cls, path: Path) -> SentenceRun | None:
        """Read the file of a run or a delta, or the only file of a folder; None for the run of another network.

        Raises
        ------
        UserError
            If the file is absent or damaged, or is the run of floats.
        """
        if path.is_dir():
            files = sorted(path.glob("*.safetensors"))
            if len(files) != 1:
                return None
            path = files[0]
        tensors, metadata = load_saved(path)
        if metadata.get("layout") == TILE_LAYOUT:
            delta = Delta.load(path)
            return cls(path, {}, {"engine": "golden", **delta.run}, delta) if "prompts" in delta.run else None
        if metadata.get("layout") != LAYOUT:
            return None
        return cls(path, tensors, metadata)

    def _damaged(self, reason: object) -> UserError:
        return UserError(f"{self.path} is a damaged run file: {reason!r}")

    def model(self, path: Path) -> SentenceModel:
        """Classifier before tuning, from a model's path, see `read_model`.

        Raises
        ------
        UserError
            If the model is missing, or is not the one from which the run started.
        """
        sentences = sentence_model(path, *head_of(self.metadata))
        try:
            listed = parse_json(self.metadata.get("activations", "{}")).items()
            activations = {int(number): Format.parse(form) for number, form in listed}
        except (ValueError, TypeError, AttributeError, UserError) as error:
            raise self._damaged(error) from error
        if (digest := model_digest(sentences)) != self.metadata.get("base", digest):
            raise UserError(f"{self.path} started from another model than {path}: give that one with --model")
        return replace(sentences, activations=activations)

    def tuned(self, path: Path) -> TunedSentences:
        """Classifier after tuning, from the model before; see `model`.

        Raises
        ------
        UserError
            As `model`, or if a tensor is none of the model's.
        """
        sentences = self.model(path)
        if self.delta is not None:
            model = sentences.on_base(base_of(sentences, self.delta))
            return TunedSentences(sentences, model, with_delta(model, self.delta, sentences.names))
        matrices = self.metadata.get("matrices")
        if matrices not in ("nf4", "18-bit"):
            raise self._damaged(f"matrices = {matrices}")
        untuned = TunedSentences.untuned(sentences, "nf4" if matrices == "nf4" else "18-bit")
        integers = self._integers(untuned.model, sentences, folder_state(path))
        return replace(untuned, integers={**untuned.integers, **integers})

    def _integers(
        self, model: TransformerModel, sentences: SentenceModel, state: Mapping[str, Tensor]
    ) -> dict[TensorName, Integers]:
        """Integers of the tuned tensors: the file adds a tensor's change to the user's tensor, see `in_file`."""
        numbers, integers = {name: number for number, name in sentences.names.items()}, {}
        for name, values in self.tensors.items():
            if name not in numbers:
                raise self._damaged(f"{name} is no tensor of {sentences.network.name}")
            number = numbers[name]
            before = sentences.parameters[number].astype(np.float64)
            base = state[name].double().numpy() if name in state else before
            if values.shape != base.shape or not np.isfinite(values).all():
                raise self._damaged(f"{name} is {values.shape} with NaN or infinity, or not {base.shape}")
            change = (values.astype(np.float64) - base)[len(base) - len(before) :]
            integers[number] = model.transformer.format_of(number).from_float(before + change)
        return integers


@dataclass(frozen=True, eq=False)
class TunedSentences:
    """Sentence classifier in the hardware's integers.

    Parameters
    ----------
    sentences : SentenceModel
        Floats before tuning, tokenizer and head.
    model : TransformerModel
        Integers before tuning.
    integers : mapping of (int, str) to array of int
        All parameters after tuning, in the format of the products.
    """

    sentences: SentenceModel
    model: TransformerModel
    integers: Mapping[TensorName, Integers]

    @classmethod
    def untuned(cls, sentences: SentenceModel, base: BaseKind = "nf4") -> TunedSentences:
        model = sentences.integers(base)
        return cls(sentences, model, model.frozen)

    @cached_property
    def floats(self) -> dict[TensorName, NDArray[np.float64]]:
        """Values of the integers."""
        form = self.model.transformer.format_of
        return {name: form(name).to_float(values) for name, values in self.integers.items()}

    def logits(self, texts: Sequence[Sentence]) -> NDArray[np.float64]:
        """Values of the integer logits, (n, classes)."""
        tokens = self.sentences.tokens(texts)
        groups = range(0, len(tokens), _IN_INTEGERS)
        parts = [self.model.run(tokens[at : at + _IN_INTEGERS], self.integers, Narrower()) for at in groups]
        return Q8_16.to_float(np.concatenate(parts))

    def float_logits(self, texts: Sequence[Sentence]) -> NDArray[np.float64]:
        """Logits of the same parameters, computed in floats, (n, classes)."""
        tokens, parts = self.sentences.tokens(texts), []
        for first in range(0, len(tokens), _IN_FLOATS):
            group = tokens[first : first + _IN_FLOATS]
            is_token = group >= 0
            lengths = tuple(map(int, is_token.sum(axis=1)))
            words = self.sentences.words[group[is_token]]
            parts.append(last_float(self.sentences.network, self.floats, words, lengths))
        return np.concatenate(parts)

    def tensors(self, state: Mapping[str, Tensor]) -> dict[str, NDArray[np.float32]]:
        """All tensors by the names of the user's file, whose tensors are `state`, and the head; see `in_file`."""
        return in_file(self.sentences, self.model, self.integers, state)


def model_digest(sentences: SentenceModel) -> str:
    """Digest of the floats of a model, without the head."""
    parts: list[object] = [sentences.words.tobytes()]
    for name, file in sorted(sentences.tensor_names.items()):
        values = sentences.parameters[name]
        parts += [file, values.shape, np.ascontiguousarray(values, np.float32).tobytes()]
    return digest_of(*parts)


def run_metadata(sentences: SentenceModel, matrices: BaseKind) -> dict[str, str]:
    """Metadata of `SentenceRun` about the model: its digest, the kind of the frozen matrices, and `head_metadata`."""
    return {
        "layout": LAYOUT,
        "base": model_digest(sentences),
        "matrices": matrices,
        **head_metadata(sentences),
    }
