"""Prompts with label words: a task as a text whose next word is the label, for models with a language-model head."""

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
"""A sentence, or a pair of them."""
_SLOT = re.compile(r"\{([01])\}")


@dataclass(frozen=True)
class Wording:
    """Text around a sentence, and a word for each class that may come behind it.

    Parameters
    ----------
    template : str
        With ``{0}`` for the sentence, and ``{1}`` for the second one of a pair.
    words : tuple of str
        One per class, with the blank before it, if there is one.

    Raises
    ------
    UserError
        If the template has no place for the sentence, or a word stands twice.
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
        """Whether it takes pairs of sentences."""
        return "{1}" in self.template

    def word_tokens(self, tokenizer: Any) -> list[int]:
        """Tokens of the label words.

        Raises
        ------
        UserError
            If a word is more than one token, or two words are the same one.
        """
        found = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in self.words]
        for word, tokens in zip(self.words, found, strict=True):
            if len(tokens) != 1:
                parts = tokenizer.convert_ids_to_tokens(tokens)
                raise UserError(
                    f"label word {word!r} is {len(tokens)} tokens of this tokenizer, {parts}: it has to be one"
                )
        numbers = [tokens[0] for tokens in found]
        if len(set(numbers)) != len(numbers):
            raise UserError(f"two of the label words {self.words} are the same token")
        return numbers

    def text(self, sentence: Sentence) -> tuple[str, list[tuple[int, int]]]:
        """Text of a sentence, and first and last place of each sentence in it.

        Raises
        ------
        UserError
            If it is a pair and should not be, or the reverse.
        """
        given = (sentence,) if isinstance(sentence, str) else sentence
        if len(given) != 1 + self.pairs:
            what = "pairs of sentences" if self.pairs else "single sentences"
            raise UserError(f"the template {self.template!r} takes {what}, not {given}")
        text, places = "", []
        for at, part in enumerate(_SLOT.split(self.template)):
            more = given[int(part)] if at % 2 else part
            if at % 2:
                places.append((len(text), len(text) + len(more)))
            text += more
        return text, places

    def tokens_of(self, tokenizer: Any, sentences: Sequence[Sentence], most: int) -> tuple[Integers, int]:
        """Tokenise texts.

        Parameters
        ----------
        tokenizer : transformers.PreTrainedTokenizerBase
        sentences : sequence
        most : int
            Most tokens of a text. Of a longer one the longer sentence is cut at its end.

        Returns
        -------
        tokens : array of int, (n, tokens)
            With -1 behind the last token of each.
        cut : int
            How many texts were cut.

        Raises
        ------
        UserError
            If the template alone is longer, the tokenizer puts a token behind a text, or has no places to cut at.
        """
        front, found, cut = _front(tokenizer), [], 0
        for sentence in sentences:
            text, places = self.text(sentence)
            whole = _plain(tokenizer, text)
            if len(front) + len(whole) > most:
                whole, cut = self._shortened(tokenizer, text, places, most - len(front)), cut + 1
            found.append(np.array(front + whole))
        return padded(found), cut

    def _shortened(self, tokenizer: Any, text: str, places: list[tuple[int, int]], most: int) -> list[int]:
        """Leave out the last tokens of the sentences in a text, of the longer one first."""
        if not tokenizer.is_fast:
            raise UserError(
                f"{text[:40]!r} has more than {most} tokens, and this tokenizer does not say which part of a text is a "
                "token: shorten the text, or save a fast tokenizer (tokenizer.json)"
            )
        made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        spans = made["offset_mapping"]
        own = [[at for at, (begin, end) in enumerate(spans) if first <= begin < end <= last] for first, last in places]
        for _ in range(len(spans) - most):
            longest = max(own, key=len)
            if len(longest) < 2:
                raise UserError(f"the template {self.template!r} leaves no room for a sentence in {most} tokens")
            spans[longest.pop()] = None
        return [token for token, span in zip(made["input_ids"], spans, strict=True) if span]


def _plain(tokenizer: Any, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return found


def _front(tokenizer: Any) -> list[int]:
    """Tokens that stand before each text.

    Raises
    ------
    UserError
        If others stand behind it: the next word could not be a label.
    """
    text = "a"
    plain, whole = _plain(tokenizer, text), tokenizer(text)["input_ids"]
    if whole[len(whole) - len(plain) :] != plain:
        raise UserError(
            "this tokenizer puts a token behind each text: it is not one of a decoder, which label words need"
        )
    front: list[int] = whole[: len(whole) - len(plain)]
    return front
