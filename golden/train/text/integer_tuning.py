"""Zeroth-order fine-tuning of a sentence classifier in the hardware's integers."""

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
from ...stream.frozen_base import BaseKind, FrozenBase
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
    """Fine-tuning run of a sentence classifier in integers; used like `FineTuning`.

    `mask` has sensitive weights by layer name of a `TextClassifier`; all other weights are frozen. `lanes` and
    `columns` are the size of the core's array, whose tiles are the words of a perturbation.

    Raises
    ------
    UserError
        If the settings do not fit together, or the network lacks a layer of the mask.
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
        choice = selection or Selection()
        self.sentences, self.task, self.selection = sentences, task, choice
        sensitive = {} if mask is None else places_of(mask, sentences.names)
        tuned = choice.tunes(sentences.network, sensitive)
        self.frozen = sentences.base(choice.base, sensitive)
        times = len(settings.source().spec.base)  # type: ignore[attr-defined]
        model = sentences.on_base(self.frozen, tuned, sensitive, times, lanes, columns)
        tune, test = (self._inputs(texts) for texts in (task.tune, task.test))
        super().__init__(model, tune, test, settings, sentences.names, choice.cached(model), choice.base)

    def _inputs(self, texts: Texts) -> LabelledInputs:
        return LabelledInputs(self.sentences.tokens(texts.sentences), texts.labels.astype(np.int64))

    def comparison(self) -> dict[str, float]:
        """Loss and logits of the base against the floats' on tuning sentences, without deltas."""
        numbers = np.random.default_rng(0).permutation(len(self.task.tune))[:COMPARED]
        inputs, labels = self.tune.inputs[numbers], self.tune.labels[numbers]
        is_token, model = inputs >= 0, self.sentences
        lengths = tuple(map(int, is_token.sum(axis=1)))
        exact = last_float(model.network, model.parameters, model.words[inputs[is_token]], lengths)
        return base_error(self.model, inputs, labels, exact)

    def facts(self) -> dict[str, Any]:
        """See `base_facts`; also the number of cut sentences, and the most tokens of one."""
        return self.base_facts(self.comparison()) | {
            "cut_sentences": self.sentences.cut((*self.task.tune.sentences, *self.task.test.sentences)),
            "most_tokens": self.sentences.most_tokens,
        }

    def tensors_in(self, state: Mapping[str, Tensor]) -> dict[str, NDArray[np.float32]]:
        """Tuned tensors under the names and in the shapes of the user's file, see `in_file`."""
        parameters = self.parameters()
        tuned = {name: parameters[name] for name in self.model.order.shapes}
        return in_file(self.sentences, self.model, tuned, state)

    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far, with `head_metadata`."""
        return super().delta({**run, **head_metadata(self.sentences)})


def head_metadata(sentences: SentenceModel) -> dict[str, str]:
    """Prompts of the head, or template and label words; and formats of large activations, if any."""
    wording = sentences.wording
    template = {} if wording is None else {"template": wording.template}
    formats = {str(number): str(form) for number, form in sorted(sentences.activations.items())}
    activations = {"activations": json.dumps(formats)} if formats else {}
    return {"prompts": json.dumps(sentences.prompts), **template, **activations}


def head_of(metadata: Mapping[str, str]) -> tuple[tuple[str, ...], Wording | None]:
    """Prompts or label words, and the wording of label words, from `head_metadata`.

    Raises
    ------
    UserError
        If the metadata name no prompts.
    """
    try:
        prompts = json.loads(metadata["prompts"])
        assert all(isinstance(prompt, str) for prompt in prompts)
    except (KeyError, ValueError, TypeError, AssertionError, RecursionError):
        raise UserError("this delta names no prompts: it is none of a sentence classifier's") from None
    return tuple(prompts), Wording(metadata["template"], tuple(prompts)) if "template" in metadata else None


def prompts_of(delta: Delta) -> tuple[str, ...]:
    """Prompts of a delta of `SentenceTuning`, see `head_of`."""
    return head_of(delta.run)[0]


def wording_of(delta: Delta) -> Wording | None:
    """Template and label words of a delta of `SentenceTuning`; None for a delta of prompts."""
    return head_of(delta.run)[1]


def base_of(sentences: SentenceModel, delta: Delta) -> FrozenBase:
    """Integers of all tensors, in the form of a delta's base.

    Raises
    ------
    UserError
        If the delta is of a network of layers, or of another model.
    """
    if not isinstance(delta.order, TileOrder):
        raise UserError("this delta is none of a transformer's tiles: give --weights, the tensors that it started from")
    numbers = {name: number for number, name in sentences.names.items()}
    if missing := [name for name, _ in delta.parameters if name not in numbers]:
        raise UserError(f"this is another model: {sentences.network.name} has no {missing[0]}, which the delta changes")
    sensitive = {numbers[name]: places for name, places in delta.order.places.items()}
    base: BaseKind = "nf4" if delta.order.base == "nf4" else "18-bit"
    return sentences.base(base, sensitive)


def with_tuned(sentences: SentenceModel, delta: Delta, state: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Tensors of the user's file as the hardware computed them, and the head.

    Word embeddings, and tensors outside the network, stay as they are. If a row of token types is added to the
    positions, the file's positions are changed by the updates alone. `sentences` is the folder's model with the prompts
    of the delta, `state` the user's file.

    Raises
    ------
    UserError
        If the delta is of another model, base or order.
    """
    model = sentences.on_base(base_of(sentences, delta))
    tuned = with_delta(model, delta, sentences.names)
    before = {
        name: (tensor.float() if tensor.is_floating_point() else tensor).numpy() for name, tensor in state.items()
    }
    return {**before, **in_file(sentences, model, tuned, state)}


def in_file(
    sentences: SentenceModel, model: TransformerModel, moved: Mapping[TensorName, Integers], state: Mapping[str, Tensor]
) -> dict[str, NDArray[np.float32]]:
    """Tensors of the normal form under the names and in the shapes of the user's file, see `with_tuned`."""
    tensors = {}
    for name, values in moved.items():
        file, after = sentences.names[name], model.transformer.format_of(name).to_float(values)
        before = sentences.parameters[name].astype(np.float64)
        whole = state[file].double().numpy().copy() if file in state else before.copy()
        # positions may lack the file's first rows, and may include another tensor's row
        whole[len(whole) - len(before) :] += after - before
        tensors[file] = whole.astype(np.float32)
    return tensors


def folder_state(path: Path) -> dict[str, Tensor]:
    """Tensors of all files of a folder's model; empty unless `path` is a folder."""
    files = sorted(path.glob("model*.safetensors")) if path.is_dir() else []
    return {name: tensor for file in files for name, tensor in load_state(file).items()}
