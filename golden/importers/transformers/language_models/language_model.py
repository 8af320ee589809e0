"""Language model from embeddings to the last hidden state: the result of all importers of this package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError
from ....transformer.blocks import PoolKind
from ....transformer.builder import TransformerBuilder


@dataclass(frozen=True)
class LanguageModel:
    """A language model from embeddings to the last hidden state, and a separate head.

    Parameters
    ----------
    name : str
        Name of the folder or file.
    builder : TransformerBuilder
        With all operations; a task adds pooling and head.
    last : int
        Number of the last hidden state's operation.
    words : array of float32, (vocabulary, features)
        Frozen embeddings, looked up before the network.
    tensor_names : dict of (int, str) to str
        Name of each tensor in the user's file.
    causal : bool
        True for a decoder: the last token sees all tokens.
    unused : tuple of str
        Tensors of the file without influence on the last hidden state.
    converted : tuple of str
        Types of tensors other than float32.
    head : array of float32, (vocabulary, features), optional
        Language-model head of a decoder, a row per possible next token. The same array as `words` for a model with tied
        weights; None for encoders, and for files without head.
    uncounted : int, optional
        Token without a position, as RoBERTa's padding. Texts with this token are refused.
    pooling : "first", "last" or "mean"
        Reduction of the last hidden state to a row per sentence, for a head of prompts.
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
        """Embeddings of tokens, a row each.

        Raises
        ------
        UserError
            As `check_tokens`.
        """
        check_tokens(self.name, tokens, len(self.words), self.uncounted)
        embeddings: NDArray[np.float32] = self.words[tokens]
        return embeddings


def check_tokens(name: str, tokens: NDArray[np.integer], words: int, uncounted: int | None = None) -> None:
    """Refuse tokens outside a model's vocabulary of `words` tokens, and the `uncounted` token, see `LanguageModel`.

    `name` is the model's name for messages.

    Raises
    ------
    UserError
        If a token is not in the vocabulary, or has no position.
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
