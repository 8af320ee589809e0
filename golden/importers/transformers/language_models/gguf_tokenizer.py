"""Tokenizer of a GGUF file: byte-level pairs as its metadata list them, with what splits a text before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....errors import UserError
from .gguf_header import GgufHeader

_PLAIN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA = rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}"
_QWEN = _LLAMA.replace("{1,3}", "")
_SPLITS = {
    "gpt-2": (_PLAIN,),
    "smollm": (r"\p{N}", _PLAIN),
    "llama-bpe": (_LLAMA,),
    "qwen2": (_QWEN,),
}
"""Regular expressions of llama.cpp by its names (`tokenizer.ggml.pre`): a text is split by each in turn."""
_WHOLE = ("llama-bpe",)
"""Splits of models that take a word which is a token as it is, without its merges."""
_CONTROL, _OWN = 3, 4
"""Types of tokens that are not made of pairs: marks, and words of the model's authors."""


def gguf_tokenizer(path: Path) -> Any:
    """Make the tokenizer of a GGUF file.

    Returns
    -------
    transformers.PreTrainedTokenizerFast

    Raises
    ------
    UserError
        If `transformers` is missing, or the file has no tokenizer of byte-level pairs with a known split.
    """
    try:
        from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        raise UserError("text needs the transformers library: pip install 'fabtune[text]'") from None
    given = _Metadata(path)
    kind, split = given.one("model", str), given.one("pre", str, "gpt-2")
    if kind != "gpt2" or split not in _SPLITS:
        raise UserError(
            f"{path} has a tokenizer of kind {kind!r}, split as {split!r}; "
            f"read is kind 'gpt2', split as {', '.join(_SPLITS)}"
        )
    tokens, merges = given.texts("tokens"), [one.split(" ") for one in given.texts("merges")]
    numbers = {token: number for number, token in enumerate(tokens)}
    if len(numbers) != len(tokens) or not all(len(one) == 2 for one in merges):
        raise UserError(f"{path} has a token twice, or a merge that is not two tokens")
    pairs = [(first, second) for first, second in merges]
    try:
        made = Tokenizer(models.BPE(numbers, pairs, ignore_merges=split in _WHOLE))
    except Exception as error:  # a pair whose tokens are not there
        raise UserError(f"{path} has merges that are not its tokens': {error}") from None
    parts = [pre_tokenizers.Split(Regex(one), "isolated") for one in _SPLITS[split]]
    made.pre_tokenizer = pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(False, False, False)])
    made.decoder = decoders.ByteLevel()
    kinds = given.numbers("token_type", len(tokens))
    marks = [(token, kind == _CONTROL) for token, kind in zip(tokens, kinds, strict=True) if kind in (_CONTROL, _OWN)]
    made.add_tokens([AddedToken(token, special=special, normalized=False) for token, special in marks])
    special = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        if (number := given.one(f"{key}_token_id", int, -1)) >= len(tokens):
            raise UserError(f"{path} has tokenizer.ggml.{key}_token_id = {number}, and {len(tokens)} tokens")
        if number >= 0:
            special[f"{name}_token"] = tokens[number]
    first, last = (given.one(f"add_{name}_token", bool, False) for name in ("bos", "eos"))
    missing = [name for name, wanted in (("bos", first), ("eos", last)) if wanted and f"{name}_token" not in special]
    if missing:
        raise UserError(f"{path} has tokenizer.ggml.add_{missing[0]}_token, and no {missing[0]}_token_id")
    if first or last:
        ends = [special[name] if wanted else "" for name, wanted in (("bos_token", first), ("eos_token", last))]
        made.post_processor = processors.TemplateProcessing(
            single=[one for one in (ends[0], "$A", ends[1]) if one],
            special_tokens=[(one, numbers[one]) for one in set(ends) if one],
        )
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


class _Metadata:
    """Metadata of a tokenizer, each of its type."""

    def __init__(self, path: Path) -> None:
        self._path, self._all = path, GgufHeader(path).metadata

    def one(self, name: str, kind: type, default: Any = None) -> Any:
        """Look up a value of a type."""
        found = self._all.get(f"tokenizer.ggml.{name}", default)
        if type(found) is not kind:
            what = "no" if found is None else f"a {type(found).__name__} as"
            raise UserError(f"{self._path} has {what} tokenizer.ggml.{name}")
        return found

    def texts(self, name: str) -> list[str]:
        """Look up a list of texts."""
        found: list[str] = self.one(name, list)
        if not found or not all(isinstance(one, str) for one in found):
            raise UserError(f"{self._path} has a tokenizer.ggml.{name} that is not a list of texts")
        return found

    def numbers(self, name: str, count: int) -> list[int]:
        """Look up so many numbers."""
        found: list[int] = self.one(name, list)
        if len(found) != count or not all(isinstance(one, int) for one in found):
            raise UserError(f"{self._path} has a tokenizer.ggml.{name} that is not a list of {count} numbers")
        return found
