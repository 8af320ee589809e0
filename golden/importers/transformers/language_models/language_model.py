"""Language model from embeddings to the last hidden state, as all importers of this package give it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError
from ....transformer.blocks import PoolKind
from ....transformer.builder import TransformerBuilder


@dataclass(frozen=True)
class LanguageModel:
    """A language model from embeddings to the last hidden state, and its head beside it.

    Parameters
    ----------
    name : str
        Of the folder or file.
    builder : TransformerBuilder
        With all operations; a task adds its pooling and head.
    last : int
        Number of the operation that gives the last hidden state.
    words : array of float32, (vocabulary, features)
        Embeddings, which are looked up before the network, and are frozen.
    tensor_names : dict of (int, str) to str
        Name in the user's file of each tensor.
    causal : bool
        A decoder, whose last token has seen all.
    unused : tuple of str
        Tensors of the file that the last hidden state does not depend on.
    converted : tuple of str
        Types other than float32 that tensors had.
    head : array of float32, (vocabulary, features), optional
        Language-model head of a decoder: a row for each token that may come next. The words' own array where the model
        ties them. None for encoders, and where the file has none.
    uncounted : int, optional
        Token that the model gives no position of its own, as RoBERTa its padding. A text with it is refused.
    pooling : "first", "last" or "mean"
        How a row a sentence is made of the last hidden state, where prompts are the head.
    """

    name: str
    builder: TransformerBuilder
    last: int
    words: NDArray[np.float32]
    tensor_names: dict[tuple[int, str], str]
    causal: bool
    unused: tuple[str, ...]
    converted: tuple[str, ...]
    head: NDArray[np.float32] | None = None
    uncounted: int | None = None
    pooling: PoolKind = "mean"

    def rows(self, tokens: NDArray[np.integer]) -> NDArray[np.float32]:
        """Look up the embeddings of tokens: one row each.

        Raises
        ------
        UserError
            As `check_tokens`.
        """
        check_tokens(self.name, tokens, len(self.words), self.uncounted)
        found: NDArray[np.float32] = self.words[tokens]
        return found


def check_tokens(name: str, tokens: NDArray[np.integer], words: int, uncounted: int | None = None) -> None:
    """Refuse tokens that a model does not compute as they are.

    Parameters
    ----------
    name : str
        Of the model, for messages.
    tokens : array of int
    words : int
        Tokens of the model's vocabulary.
    uncounted : int, optional
        See `LanguageModel`.

    Raises
    ------
    UserError
        If a token is not in the vocabulary, or has no position of its own.
    """
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < words:
        wrong = tokens.min() if tokens.min() < 0 else tokens.max()
        raise UserError(
            f"{name} has tokens from 0 to {words - 1}, not {wrong}: where the tokenizer was given new words, "
            "resize the model (resize_token_embeddings) and save it again"
        )
    if uncounted is not None and (tokens == uncounted).any():
        raise UserError(
            f"a text has the token {uncounted}, padding, which {name} leaves out when it counts positions: "
            "remove the padding mark from the text"
        )
