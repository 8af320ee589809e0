"""Sentence classifier as a normal form: a language model, its tokenizer, and a head of prompts or of label words.

With prompts it equals `TextClassifier`, operation by operation. With label words it is a decoder with its own head,
reduced to the rows of these words. Both convert to the hardware's integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...fixed import Q8_16, Format, Integers
from ...importers.transformers.language_models.folder import read_folder
from ...importers.transformers.language_models.gguf_file import read_gguf
from ...importers.transformers.language_models.gguf_tokenizer import gguf_tokenizer
from ...importers.transformers.language_models.language_model import LanguageModel, check_tokens
from ...nn.arithmetic.products import fastest, product_of
from ...stream.calibration import activation_formats, largest_outputs
from ...stream.forward import IntegerTransformer, weight_formats
from ...stream.frozen_base import BaseKind, FrozenBase, frozen_base
from ...stream.transformer_model import TransformerModel, everything, padded
from ...stream.words import TensorName
from ...transformer.blocks import Parameters, Transformer
from ...transformer.float_model import last_float
from .classifier import LOGIT_SCALE, MAXIMUM_TOKENS, load_tokenizer
from .label_words import Sentence, Wording
from .tasks import NO_PAIRS, Texts

CALIBRATED = 32
"""Sentences whose activations decide the number formats."""
_AT_ONCE = 4


@dataclass(frozen=True, eq=False)
class SentenceModel:
    """Transformer from embeddings to logits, with tokenizer and embeddings.

    Parameters
    ----------
    parameters : mapping
        Float tensors.
    words : array of float, (vocabulary, features)
        Frozen embeddings, looked up before the network.
    prompts : tuple of str
        Prompts of the head, one per class; the label words if a `wording` is given.
    tensor_names : mapping of (int, str) to str
        Names of the tensors in the user's file.
    wording : Wording, optional
        Text around a sentence, where the next word is the label.
    activations : mapping of int to Format
        Formats of large activations, see `calibrated`.
    uncounted : int, optional
        Token that no text may have, see `LanguageModel`.
    """

    network: Transformer
    parameters: Parameters
    words: NDArray[np.floating[Any]]
    tokenizer: Any
    prompts: tuple[str, ...]
    tensor_names: dict[TensorName, str]
    wording: Wording | None = None
    activations: Mapping[int, Format] = field(default_factory=dict)
    uncounted: int | None = None

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest sentence, see `longest`."""
        return longest(self.network)

    def tokens(self, sentences: Sequence[Sentence]) -> Integers:
        """Tokens of sentences, (n, tokens), padded with -1; sentences longer than `most_tokens` are cut.

        Raises
        ------
        UserError
            If a sentence has no token, or a token that the model lacks. Also if a pair stands for a single sentence, or
            the reverse.
        """
        if self.wording:
            tokens = self.wording.tokens_of(self.tokenizer, sentences, self.most_tokens)[0]
        else:
            tokens = tokens_of(self.tokenizer, singles(sentences), self.most_tokens)
        check_tokens(self.network.name, tokens[tokens >= 0], len(self.words), self.uncounted)
        return tokens

    def cut(self, sentences: Sequence[Sentence]) -> int:
        """Number of sentences that `tokens` cuts."""
        if self.wording:
            return self.wording.tokens_of(self.tokenizer, sentences, self.most_tokens)[1]
        encoded = self.tokenizer(list(singles(sentences)), verbose=False)["input_ids"]
        return sum(len(tokens) > self.most_tokens for tokens in encoded)

    def calibrated(self, sentences: Sequence[Sentence]) -> SentenceModel:
        """The model with formats of large activations, by `activation_formats` on the first `CALIBRATED` sentences."""
        largest: dict[int, float] = {}
        chosen = list(sentences[:CALIBRATED])
        for first in range(0, len(chosen), _AT_ONCE):
            tokens = self.tokens(chosen[first : first + _AT_ONCE])
            is_token = tokens >= 0
            lengths = tuple(map(int, is_token.sum(axis=1)))
            outputs = largest_outputs(self.network, self.parameters, self.words[tokens[is_token]], lengths)
            largest = {number: max(output, largest.get(number, 0.0)) for number, output in outputs.items()}
        unlimited = IntegerTransformer(self.network, weight_formats(self.parameters))
        return replace(self, activations=activation_formats(unlimited, largest))

    @property
    def names(self) -> dict[TensorName, str]:
        """Name of each tensor in files: the user's, or for a head ``head.weight`` and ``head.bias``."""
        titles = self.network.titles
        return {name: self.tensor_names.get(name, f"{titles[name[0]]}.{name[1]}") for name in self.parameters}

    def base(
        self, base: BaseKind = "nf4", sensitive: Mapping[TensorName, Integers] = MappingProxyType({})
    ) -> FrozenBase:
        """Integers of all tensors; matrices of the user's file may be NF4, a new head for the task is not."""
        coarse = self.tensor_names.__contains__
        return frozen_base(self.network, self.parameters, base, coarse, sensitive, self.activations)

    def integers(
        self,
        base: BaseKind = "nf4",
        tuned: Callable[[TensorName], bool] = everything,
        times: int = 255,
        lanes: int = 32,
        columns: int = 16,
    ) -> TransformerModel:
        """The hardware's integer model, see `TransformerModel`."""
        return self.on_base(self.base(base), tuned, {}, times, lanes, columns)

    def on_base(
        self,
        base: FrozenBase,
        tuned: Callable[[TensorName], bool] = everything,
        sensitive: Mapping[TensorName, Integers] = MappingProxyType({}),
        times: int = 255,
        lanes: int = 32,
        columns: int = 16,
    ) -> TransformerModel:
        """The hardware's integer model on an existing base."""
        embeddings = Q8_16.from_float(self.words)
        return TransformerModel(
            base.transformer, base.integers, embeddings, tuned, sensitive, times, lanes, columns, product_of(fastest())
        )


def read_model(path: Path) -> tuple[LanguageModel, Any]:
    """Language model and tokenizer.

    `path` is a folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``, as `transformers` saves it,
    or a ``.gguf`` file.

    Raises
    ------
    UserError
        If `transformers` or `gguf` is not installed, or model or tokenizer are missing.
    """
    if path.suffix == ".gguf":
        return read_gguf(path), gguf_tokenizer(path)
    return read_folder(path), load_tokenizer(path)


def sentence_model(path: Path, prompts: Sequence[str], wording: Wording | None = None) -> SentenceModel:
    """Classifier from a language model, see `read_model`, with a prompt per class or with label words.

    Raises
    ------
    UserError
        As `read_model`, `with_words` and `with_prompts` do.
    """
    model, tokenizer = read_model(path)
    return with_words(model, tokenizer, wording) if wording else with_prompts(model, tokenizer, prompts)


def with_words(model: LanguageModel, tokenizer: Any, wording: Wording) -> SentenceModel:
    """Classifier from the last token, with the language-model head's rows of the label words.

    Raises
    ------
    UserError
        If the model has no language-model head, or a label word is not one token.
    """
    if model.head is None:
        what = (
            "has no language-model head" if model.causal else "is no decoder: a head for masked words is not computed"
        )
        raise UserError(f"{model.name} {what}, which label words need; --prompt sentences takes prompts")
    rows = wording.word_tokens(tokenizer)
    check_tokens(model.name, np.array(rows), len(model.head))
    builder = model.builder
    builder.linear("label_words", builder.pool("last", model.last, "last"), model.head[rows])
    network, parameters = builder.finish()
    return SentenceModel(network, parameters, model.words, tokenizer, wording.words, model.tensor_names, wording)


def singles(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """The sentences, none a pair; pairs are refused as by `Texts.singles`."""
    return Texts(tuple(sentences), np.zeros(len(sentences), np.int64)).singles


def with_prompts(model: LanguageModel, tokenizer: Any, prompts: Sequence[str]) -> SentenceModel:
    """Classifier with the model's pooling, normalised to length 1, and a head of the prompts' embeddings.

    Raises
    ------
    UserError
        If no prompts are given, as for tasks of pairs, or a prompt has no token.
    """
    if not prompts:
        raise UserError(NO_PAIRS)
    builder = model.builder
    unit = builder.unit_length("unit", builder.pool(model.pooling, model.last, model.pooling))
    body, parameters = builder.finish()
    tokens = tokens_of(tokenizer, prompts, longest(body))
    is_token = tokens >= 0
    rows = last_float(body, parameters, model.rows(tokens[is_token]), tuple(map(int, is_token.sum(axis=1))))
    builder.linear("head", unit, LOGIT_SCALE * rows, np.zeros(len(rows)))
    network, parameters = builder.finish()
    names, uncounted = model.tensor_names, model.uncounted
    return SentenceModel(network, parameters, model.words, tokenizer, tuple(prompts), names, uncounted=uncounted)


def longest(network: Transformer) -> int:
    """Tokens of a network's longest sentence: `MAXIMUM_TOKENS`, or the limit of its positions and windows."""
    return min(MAXIMUM_TOKENS, network.most_tokens or MAXIMUM_TOKENS)


def tokens_of(tokenizer: Any, sentences: Sequence[str], most: int) -> Integers:
    """Tokens of sentences, each cut after `most` tokens: (n, tokens), padded with -1.

    Raises
    ------
    UserError
        If a sentence has no token.
    """
    rows = tokenizer(list(sentences), truncation=True, max_length=most)["input_ids"]
    for sentence, tokens in zip(sentences, rows, strict=True):
        if not tokens:
            raise UserError(f"{sentence[:40]!r} has no token")
    return padded([np.array(tokens) for tokens in rows])
