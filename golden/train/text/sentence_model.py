"""Sentence classifier as a normal form: a language model's folder, its tokenizer, and a head of prompts.

It is what `TextClassifier` computes, operation by operation, so that the hardware's integers can be made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...fixed import Q8_16, Integers
from ...stream.frozen_base import BaseKind, FrozenBase, frozen_base
from ...stream.transformer_model import TransformerModel, everything, padded
from ...stream.words import TensorName
from ...transformer.blocks import Parameters, Positions, Transformer
from ...transformer.float_model import run_float
from ...transformer.importers.folder import LanguageModel, read_folder
from .classifier import LOGIT_SCALE, MAXIMUM_TOKENS, load_tokenizer


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
        One per class, of which the head is made.
    tensor_names : mapping of (int, str) to str
        Name in the user's file of each tensor that is there.
    """

    network: Transformer
    parameters: Parameters
    words: NDArray[np.floating[Any]]
    tokenizer: Any
    prompts: tuple[str, ...]
    tensor_names: dict[TensorName, str]

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest sentence: `MAXIMUM_TOKENS`, or as many as there are positions."""
        return longest(self.network)

    def tokens(self, sentences: Sequence[str]) -> Integers:
        """Tokenise sentences: (n, tokens), with -1 behind the last token of each.

        What is longer than `most_tokens` is cut, see `cut`.

        Raises
        ------
        UserError
            If a sentence has no token.
        """
        return tokens_of(self.tokenizer, sentences, self.most_tokens)

    def cut(self, sentences: Sequence[str]) -> int:
        """Count the sentences that `tokens` cuts."""
        whole = self.tokenizer(list(sentences), verbose=False)["input_ids"]
        return sum(len(one) > self.most_tokens for one in whole)

    def base(self, base: BaseKind = "nf4") -> FrozenBase:
        """Integers of all tensors; the matrices of the user's file may be NF4, a head of prompts is not."""
        return frozen_base(self.network, self.parameters, base, self.tensor_names.__contains__)

    def integers(
        self,
        base: BaseKind = "nf4",
        tuned: Callable[[TensorName], bool] = everything,
        times: int = 255,
        lanes: int = 32,
        columns: int = 16,
    ) -> TransformerModel:
        """Make the model of the hardware's integers, see `TransformerModel`."""
        own = self.base(base)
        embeddings = Q8_16.from_float(self.words)
        return TransformerModel(own.transformer, own.integers, embeddings, tuned, times, lanes, columns)


def sentence_model(folder: Path, prompts: Sequence[str]) -> SentenceModel:
    """Make a classifier of a model's folder.

    Parameters
    ----------
    folder : Path
        With ``config.json``, ``model.safetensors`` and ``tokenizer.json``, as saved by `transformers`.
    prompts : sequence of str
        One per class.

    Raises
    ------
    UserError
        If `transformers` is not installed, or the folder has no such model, or no tokenizer.
    """
    return with_prompts(read_folder(folder), load_tokenizer(folder), prompts)


def with_prompts(model: LanguageModel, tokenizer: Any, prompts: Sequence[str]) -> SentenceModel:
    """Pool the mean of the tokens, of length 1, and add a head whose rows are the embeddings of prompts."""
    made = model.builder
    unit = made.unit_length("unit", made.pool("mean", model.last, "mean"))
    body, parameters = made.finish()
    tokens = tokens_of(tokenizer, prompts, longest(body))
    there = tokens >= 0
    rows = run_float(body, parameters, model.rows(tokens[there]), tuple(map(int, there.sum(axis=1))))[unit]
    made.linear("head", unit, LOGIT_SCALE * rows, np.zeros(len(rows)))
    network, parameters = made.finish()
    return SentenceModel(network, parameters, model.words, tokenizer, tuple(prompts), model.tensor_names)


def longest(network: Transformer) -> int:
    """Tokens of the longest sentence of a network: `MAXIMUM_TOKENS`, or as many as there are positions."""
    return min([MAXIMUM_TOKENS, *(one.length for one in network.operations if isinstance(one, Positions))])


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
