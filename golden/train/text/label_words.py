"""Prompts with label words: the next word after the text is the label, for models with a language-model head."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UserError
from ...fixed import Integers
from ...stream.transformer_model import padded

Sentence = str | tuple[str, str]
"""A sentence or a pair of sentences."""
_SLOT = re.compile(r"\{([01])\}")


@dataclass(frozen=True)
class Wording:
    """Text around a sentence, and the possible next word for each class.

    Parameters
    ----------
    template : str
        Contains ``{0}`` for the sentence, and ``{1}`` for the second sentence of a pair.
    words : tuple of str
        One per class, with the blank before the word, if any.

    Raises
    ------
    UserError
        If the template has no slot for the sentence, or words are equal or fewer than two.
    """

    template: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        slots = _SLOT.findall(self.template)
        if sorted(slots) not in (["0"], ["0", "1"]):
            raise UserError(
                f"{self.template!r} is no template: write {{0}} where the sentence stands, and {{1}} for a second"
            )
        if len(set(self.words)) != len(self.words) or len(self.words) < 2:
            raise UserError(f"label words are two different ones at least, not {self.words}")

    @property
    def pairs(self) -> bool:
        return "{1}" in self.template

    def word_tokens(self, tokenizer: Any) -> list[int]:
        """Tokens of the label words.

        Raises
        ------
        UserError
            If a word is more than one token, or two words are the same token.
        """
        tokens_of_words = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in self.words]
        for word, tokens in zip(self.words, tokens_of_words, strict=True):
            if len(tokens) != 1:
                parts = tokenizer.convert_ids_to_tokens(tokens)
                raise UserError(
                    f"label word {word!r} is {len(tokens)} tokens of this tokenizer, {parts}: it has to be one"
                )
        numbers = [tokens[0] for tokens in tokens_of_words]
        if len(set(numbers)) != len(numbers):
            raise UserError(f"two of the label words {self.words} are the same token")
        return numbers

    def text(self, sentence: Sentence) -> tuple[str, list[tuple[int, int]]]:
        """Text of a sentence, and the start and end of each sentence in the text, in characters.

        Raises
        ------
        UserError
            If a pair stands for a single sentence, or the reverse.
        """
        sentences = (sentence,) if isinstance(sentence, str) else sentence
        if len(sentences) != 1 + self.pairs:
            what = "pairs of sentences" if self.pairs else "single sentences"
            raise UserError(f"the template {self.template!r} takes {what}, not {sentences}")
        text, spans = "", []
        for index, part in enumerate(_SLOT.split(self.template)):
            piece = sentences[int(part)] if index % 2 else part
            if index % 2:
                spans.append((len(text), len(text) + len(piece)))
            text += piece
        return text, spans

    def tokens_of(self, tokenizer: Any, sentences: Sequence[Sentence], most: int) -> tuple[Integers, int]:
        """Tokens of texts, (n, tokens) with -1 after the last token, and the number of cut texts.

        `most` limits the tokens of a text. In a longer text the longer sentence is cut at the end.

        Raises
        ------
        UserError
            If the template alone is too long, or the tokenizer adds a token after a text or reports no offsets for a
            cut.
        """
        front, rows, cut = _front(tokenizer), [], 0
        for sentence in sentences:
            text, spans = self.text(sentence)
            tokens = _plain(tokenizer, text)
            if len(front) + len(tokens) > most:
                tokens, cut = self._shortened(tokenizer, text, spans, most - len(front)), cut + 1
            rows.append(np.array(front + tokens))
        return padded(rows), cut

    def _shortened(self, tokenizer: Any, text: str, places: list[tuple[int, int]], most: int) -> list[int]:
        """Tokens of a text without the last tokens of its sentences, taken from the longer sentence first."""
        if not tokenizer.is_fast:
            raise UserError(
                f"{text[:40]!r} has more than {most} tokens, and this tokenizer does not say which part of a text is a "
                "token: shorten the text, or save a fast tokenizer (tokenizer.json)"
            )
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        spans = encoded["offset_mapping"]
        tokens_of_sentence = [
            [number for number, (begin, end) in enumerate(spans) if first <= begin < end <= last]
            for first, last in places
        ]
        for _ in range(len(spans) - most):
            longest = max(tokens_of_sentence, key=len)
            if len(longest) < 2:
                raise UserError(f"the template {self.template!r} leaves no room for a sentence in {most} tokens")
            spans[longest.pop()] = None
        return [token for token, span in zip(encoded["input_ids"], spans, strict=True) if span]


def _plain(tokenizer: Any, text: str) -> list[int]:
    tokens: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return tokens


def _front(tokenizer: Any) -> list[int]:
    """Tokens that the tokenizer puts before each text.

    Raises
    ------
    UserError
        If it puts tokens after the text: the next word could not be a label.
    """
    text = "a"
    plain, whole = _plain(tokenizer, text), tokenizer(text)["input_ids"]
    if whole[len(whole) - len(plain) :] != plain:
        raise UserError(
            "this tokenizer puts a token behind each text: it is not one of a decoder, which label words need"
        )
    front: list[int] = whole[: len(whole) - len(plain)]
    return front
