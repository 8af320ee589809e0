"""Sentence classifier as a normal form: a language model, its tokenizer, and a head of prompts or of label words.

With prompts it is what `TextClassifier` computes, operation by operation. With label words it is a decoder's own head,
of which only the rows of these words are there. The hardware's integers can be made of both.
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
"""Sentences whose activations decide on their formats."""
_AT_ONCE = 4


@dataclass(frozen=True, eq=False)
class SentenceModel:
    """Transformer from embeddings to logits, with what turns sentences into tokens.

    Parameters
    ----------
    network : Transformer
    parameters : mapping
        Tensors of floats.
    words : array of float, (vocabulary, features)
        Embeddings, which are looked up before the network, and are frozen.
    tokenizer : transformers.PreTrainedTokenizerBase
    prompts : tuple of str
        One per class, of which the head is made; label words, where there is a `wording`.
    tensor_names : mapping of (int, str) to str
        Name in the user's file of each tensor that is there.
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
        """Tokenise sentences: (n, tokens), with -1 behind the last token of each.

        What is longer than `most_tokens` is cut, see `cut`.

        Raises
        ------
        UserError
            If a sentence has no token, or one that the model lacks, or pairs of sentences stand for single ones, or the
            reverse.
        """
        if self.wording:
            tokens = self.wording.tokens_of(self.tokenizer, sentences, self.most_tokens)[0]
        else:
            tokens = tokens_of(self.tokenizer, singles(sentences), self.most_tokens)
        check_tokens(self.network.name, tokens[tokens >= 0], len(self.words), self.uncounted)
        return tokens

    def cut(self, sentences: Sequence[Sentence]) -> int:
        """Count the sentences that `tokens` cuts."""
        if self.wording:
            return self.wording.tokens_of(self.tokenizer, sentences, self.most_tokens)[1]
        whole = self.tokenizer(list(singles(sentences)), verbose=False)["input_ids"]
        return sum(len(one) > self.most_tokens for one in whole)

    def calibrated(self, sentences: Sequence[Sentence]) -> SentenceModel:
        """Choose the formats of large activations by the first `CALIBRATED` sentences, see `activation_formats`."""
        largest: dict[int, float] = {}
        chosen = list(sentences[:CALIBRATED])
        for first in range(0, len(chosen), _AT_ONCE):
            tokens = self.tokens(chosen[first : first + _AT_ONCE])
            there = tokens >= 0
            lengths = tuple(map(int, there.sum(axis=1)))
            found = largest_outputs(self.network, self.parameters, self.words[tokens[there]], lengths)
            largest = {number: max(one, largest.get(number, 0.0)) for number, one in found.items()}
        usual = IntegerTransformer(self.network, weight_formats(self.parameters))
        return replace(self, activations=activation_formats(usual, largest))

    @property
    def names(self) -> dict[TensorName, str]:
        """Name of each tensor in files: the user's, or for a head ``head.weight`` and ``head.bias``."""
        titles = self.network.titles
        return {name: self.tensor_names.get(name, f"{titles[name[0]]}.{name[1]}") for name in self.parameters}

    def base(
        self, base: BaseKind = "nf4", sensitive: Mapping[TensorName, Integers] = MappingProxyType({})
    ) -> FrozenBase:
        """Integers of all tensors; the matrices of the user's file may be NF4, a head made for the task is not."""
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
        """Make the model of the hardware's integers, see `TransformerModel`."""
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
        """Make the model of a base that is there."""
        embeddings = Q8_16.from_float(self.words)
        return TransformerModel(
            base.transformer, base.integers, embeddings, tuned, sensitive, times, lanes, columns, product_of(fastest())
        )


def read_model(path: Path) -> tuple[LanguageModel, Any]:
    """Read a language model and its tokenizer.

    Parameters
    ----------
    path : Path
        A folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``, as `transformers` saves it, or a
        file ``.gguf``.

    Raises
    ------
    UserError
        If `transformers` or `gguf` is not installed, or there is no such model, or no tokenizer.
    """
    if path.suffix == ".gguf":
        return read_gguf(path), gguf_tokenizer(path)
    return read_folder(path), load_tokenizer(path)


def sentence_model(path: Path, prompts: Sequence[str], wording: Wording | None = None) -> SentenceModel:
    """Make a classifier of a language model.

    Parameters
    ----------
    path : Path
        See `read_model`.
    prompts : sequence of str
        One per class.
    wording : Wording, optional
        Template and label words instead of the prompts.

    Raises
    ------
    UserError
        As `read_model`, `with_words`, and `with_prompts`.
    """
    model, tokenizer = read_model(path)
    return with_words(model, tokenizer, wording) if wording else with_prompts(model, tokenizer, prompts)


def with_words(model: LanguageModel, tokenizer: Any, wording: Wording) -> SentenceModel:
    """Take the last token, and of the language-model head the rows of the label words.

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
    made = model.builder
    made.linear("label_words", made.pool("last", model.last, "last"), model.head[rows])
    network, parameters = made.finish()
    return SentenceModel(network, parameters, model.words, tokenizer, wording.words, model.tensor_names, wording)


def singles(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Sentences that are not pairs; refuse pairs, as `Texts.singles` does."""
    return Texts(tuple(sentences), np.zeros(len(sentences), np.int64)).singles


def with_prompts(model: LanguageModel, tokenizer: Any, prompts: Sequence[str]) -> SentenceModel:
    """Pool the tokens as the model does, to length 1, and add a head whose rows are the embeddings of prompts.

    Raises
    ------
    UserError
        If there are none, as of tasks of pairs, or one has no token.
    """
    if not prompts:
        raise UserError(NO_PAIRS)
    made = model.builder
    unit = made.unit_length("unit", made.pool(model.pooling, model.last, model.pooling))
    body, parameters = made.finish()
    tokens = tokens_of(tokenizer, prompts, longest(body))
    there = tokens >= 0
    rows = last_float(body, parameters, model.rows(tokens[there]), tuple(map(int, there.sum(axis=1))))
    made.linear("head", unit, LOGIT_SCALE * rows, np.zeros(len(rows)))
    network, parameters = made.finish()
    names, uncounted = model.tensor_names, model.uncounted
    return SentenceModel(network, parameters, model.words, tokenizer, tuple(prompts), names, uncounted=uncounted)


def longest(network: Transformer) -> int:
    """Tokens of the longest sentence of a network: `MAXIMUM_TOKENS`, or as many as its positions and windows allow."""
    return min(MAXIMUM_TOKENS, network.most_tokens or MAXIMUM_TOKENS)


def tokens_of(tokenizer: Any, sentences: Sequence[str], most: int) -> Integers:
    """Tokens of sentences, each cut behind so many: (n, tokens), with -1 behind the last token of each.

    Raises
    ------
    UserError
        If a sentence has no token.
    """
    found = tokenizer(list(sentences), truncation=True, max_length=most)["input_ids"]
    for sentence, one in zip(sentences, found, strict=True):
        if not one:
            raise UserError(f"{sentence[:40]!r} has no token")
    return padded([np.array(one) for one in found])
