"""Zeroth-order fine-tuning of a sentence classifier in the hardware's integers: what is tuned, on which base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import UserError
from ...fixed import Integers
from ...models.checkpoint import load_state
from ...stream.frozen_base import BaseKind
from ...stream.transformer_model import TransformerModel
from ...stream.words import TensorName
from ...transformer.float_model import last_float
from ..sparse.masks import Mask
from ..zo.delta_file import Delta
from ..zo.finetune import ZoSettings
from ..zo.parameter_order import TileOrder
from ..zo.transformer_tuning import (
    COMPARED,
    LabelledInputs,
    Selection,
    TransformerTuning,
    base_error,
    places_of,
    with_delta,
)
from .label_words import Wording
from .sentence_model import SentenceModel
from .tasks import Texts, TextTask


class SentenceTuning(TransformerTuning):
    """Fine-tuning run of a sentence classifier in integers; as `FineTuning` in use.

    Parameters
    ----------
    sentences : SentenceModel
    task : TextTask
    settings : ZoSettings
    selection : Selection
    mask : Mask, optional
        Sensitive weights, by the names of the layers in a `TextClassifier`: only they are tuned.
    lanes, columns : int
        Size of the core's array, whose tiles are words of a perturbation.

    Raises
    ------
    UserError
        If the settings do not fit together, or a mask has a layer that the network lacks.
    """

    def __init__(
        self,
        sentences: SentenceModel,
        task: TextTask,
        settings: ZoSettings,
        selection: Selection | None = None,
        mask: Mask | None = None,
        lanes: int = 32,
        columns: int = 16,
    ) -> None:
        chosen = selection or Selection()
        self.sentences, self.task, self.selection = sentences, task, chosen
        sensitive = {} if mask is None else places_of(mask, sentences.names)
        tuned = chosen.tunes(sentences.network, sensitive)
        self.frozen = sentences.base(chosen.base, sensitive)
        times = len(settings.source().spec.base)  # type: ignore[attr-defined]
        model = sentences.on_base(self.frozen, tuned, sensitive, times, lanes, columns)
        tune, test = (self._inputs(some) for some in (task.tune, task.test))
        super().__init__(model, tune, test, settings, sentences.names, chosen.cached(model), chosen.base)

    def _inputs(self, texts: Texts) -> LabelledInputs:
        return LabelledInputs(self.sentences.tokens(texts.sentences), texts.labels.astype(np.int64))

    def comparison(self) -> dict[str, float]:
        """Loss and logits of the base against the floats', on tuning sentences; without deltas."""
        chosen = np.random.default_rng(0).permutation(len(self.task.tune))[:COMPARED]
        inputs, labels = self.tune.inputs[chosen], self.tune.labels[chosen]
        there, model = inputs >= 0, self.sentences
        lengths = tuple(map(int, there.sum(axis=1)))
        exact = last_float(model.network, model.parameters, model.words[inputs[there]], lengths)
        return base_error(self.model, inputs, labels, exact)

    def facts(self) -> dict[str, Any]:
        """Errors of the base, forward work, and what was clipped or cut, by their keys in ``--json``."""
        errors = {self.names[name]: round(error, 6) for name, error in self.frozen.errors.items()}
        places = {self.names[name]: count for name, count in self.frozen.clipped.items()} | self.job.saturated_places
        return {
            "base": self.base,
            **self.comparison(),
            "errors": errors,
            **self.cache_facts(),
            "saturated": places,
            "cut_sentences": self.sentences.cut((*self.task.tune.sentences, *self.task.test.sentences)),
            "most_tokens": self.sentences.most_tokens,
        }

    def tensors_in(self, state: Mapping[str, Tensor]) -> dict[str, NDArray[np.float32]]:
        """Tuned tensors under the names and in the shapes of the user's file, see `in_file`."""
        moved = self.parameters()
        tuned = {name: moved[name] for name in self.model.order.shapes}
        return in_file(self.sentences, self.model, tuned, state)

    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far, with the prompts of which the head is made, or template and label words."""
        wording = self.sentences.wording
        template = {} if wording is None else {"template": wording.template}
        return super().delta({**run, "prompts": json.dumps(self.sentences.prompts), **template})


def prompts_of(delta: Delta) -> tuple[str, ...]:
    """Prompts of a delta of `SentenceTuning`.

    Raises
    ------
    UserError
        If it has none.
    """
    try:
        found = json.loads(delta.run["prompts"])
        assert all(isinstance(one, str) for one in found)
        return tuple(found)
    except (KeyError, ValueError, TypeError, AssertionError, RecursionError):
        raise UserError("this delta names no prompts: it is none of a sentence classifier's") from None


def wording_of(delta: Delta) -> Wording | None:
    """Template and label words of a delta of `SentenceTuning`, if it has some."""
    return Wording(delta.run["template"], prompts_of(delta)) if "template" in delta.run else None


def with_tuned(sentences: SentenceModel, delta: Delta, state: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Tensors of the user's file as the hardware computed them, and the head.

    A tensor that the network does not read, and the words, stay as they are. Of positions to which the file's token
    types are added, the difference is written.

    Parameters
    ----------
    sentences : SentenceModel
        Of the folder, with the prompts of the delta.
    delta : Delta
    state : mapping of str to Tensor
        The user's file.

    Raises
    ------
    UserError
        If the delta is that of another model, base or order.
    """
    if not isinstance(delta.order, TileOrder):
        raise UserError("this delta is none of a transformer's tiles: give --weights, the tensors that it started from")
    numbers = {name: number for number, name in sentences.names.items()}
    if missing := [name for name, _ in delta.parameters if name not in numbers]:
        raise UserError(f"this is another model: {sentences.network.name} has no {missing[0]}, which the delta changes")
    sensitive = {numbers[name]: places for name, places in delta.order.places.items()}
    base: BaseKind = "nf4" if delta.order.base == "nf4" else "18-bit"
    model = sentences.on_base(sentences.base(base, sensitive))
    moved = with_delta(model, delta, sentences.names)
    found = {name: (one.float() if one.is_floating_point() else one).numpy() for name, one in state.items()}
    return {**found, **in_file(sentences, model, moved, state)}


def in_file(
    sentences: SentenceModel, model: TransformerModel, moved: Mapping[TensorName, Integers], state: Mapping[str, Tensor]
) -> dict[str, NDArray[np.float32]]:
    """Tensors of the normal form under the names and in the shapes of the user's file, see `with_tuned`."""
    found = {}
    for name, values in moved.items():
        file, own = sentences.names[name], model.transformer.format_of(name).to_float(values)
        before = sentences.parameters[name].astype(np.float64)
        whole = state[file].double().numpy().copy() if file in state else before.copy()
        # positions may lack the first rows of the file, and have another tensor's row added
        whole[len(whole) - len(before) :] += own - before
        found[file] = whole.astype(np.float32)
    return found


def folder_state(path: Path) -> dict[str, Tensor]:
    """Tensors of all files of a folder's model; none of a model in one file, whose tensors have their names there."""
    files = sorted(path.glob("model*.safetensors")) if path.is_dir() else []
    return {name: one for file in files for name, one in load_state(file).items()}
