"""Tokenizer of a GGUF file: byte-level pairs from the metadata, after a split of the text."""

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
"""Regular expressions of llama.cpp by its names (`tokenizer.ggml.pre`): each splits the text in turn."""
_WHOLE = ("llama-bpe",)
"""Splits of models in which a word equal to a token skips the merges."""
_CONTROL, _OWN = 3, 4
"""Types of tokens without merges: marks, and words of the model's authors."""


def gguf_tokenizer(path: Path) -> Any:
    """Tokenizer of a GGUF file, a `transformers.PreTrainedTokenizerFast`.

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
    metadata = _Metadata(path)
    kind, split = metadata.one("model", str), metadata.one("pre", str, "gpt-2")
    if kind != "gpt2" or split not in _SPLITS:
        raise UserError(
            f"{path} has a tokenizer of kind {kind!r}, split as {split!r}; "
            f"read is kind 'gpt2', split as {', '.join(_SPLITS)}"
        )
    tokens, merges = metadata.texts("tokens"), [merge.split(" ") for merge in metadata.texts("merges")]
    numbers = {token: number for number, token in enumerate(tokens)}
    if len(numbers) != len(tokens) or not all(len(merge) == 2 for merge in merges):
        raise UserError(f"{path} has a token twice, or a merge that is not two tokens")
    pairs = [(first, second) for first, second in merges]
    try:
        tokenizer = Tokenizer(models.BPE(numbers, pairs, ignore_merges=split in _WHOLE))
    except Exception as error:  # a merge of unknown tokens
        raise UserError(f"{path} has merges that are not its tokens': {error}") from None
    parts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _SPLITS[split]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(False, False, False)])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata.numbers("token_type", len(tokens))
    marks = [(token, kind == _CONTROL) for token, kind in zip(tokens, kinds, strict=True) if kind in (_CONTROL, _OWN)]
    tokenizer.add_tokens([AddedToken(token, special=special, normalized=False) for token, special in marks])
    special = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        if (number := metadata.one(f"{key}_token_id", int, -1)) >= len(tokens):
            raise UserError(f"{path} has tokenizer.ggml.{key}_token_id = {number}, and {len(tokens)} tokens")
        if number >= 0:
            special[f"{name}_token"] = tokens[number]
    first, last = (metadata.one(f"add_{name}_token", bool, False) for name in ("bos", "eos"))
    missing = [name for name, wanted in (("bos", first), ("eos", last)) if wanted and f"{name}_token" not in special]
    if missing:
        raise UserError(f"{path} has tokenizer.ggml.add_{missing[0]}_token, and no {missing[0]}_token_id")
    if first or last:
        ends = [special[name] if wanted else "" for name, wanted in (("bos_token", first), ("eos_token", last))]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[part for part in (ends[0], "$A", ends[1]) if part],
            special_tokens=[(mark, numbers[mark]) for mark in set(ends) if mark],
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


class _Metadata:
    """Metadata of a tokenizer, with checked types."""

    def __init__(self, path: Path) -> None:
        self._path, self._all = path, GgufHeader(path).metadata

    def one(self, name: str, kind: type, default: Any = None) -> Any:
        value = self._all.get(f"tokenizer.ggml.{name}", default)
        if type(value) is not kind:
            what = "no" if value is None else f"a {type(value).__name__} as"
            raise UserError(f"{self._path} has {what} tokenizer.ggml.{name}")
        return value

    def texts(self, name: str) -> list[str]:
        texts: list[str] = self.one(name, list)
        if not texts or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{self._path} has a tokenizer.ggml.{name} that is not a list of texts")
        return texts

    def numbers(self, name: str, count: int) -> list[int]:
        numbers: list[int] = self.one(name, list)
        if len(numbers) != count or not all(isinstance(number, int) for number in numbers):
            raise UserError(f"{self._path} has a tokenizer.ggml.{name} that is not a list of {count} numbers")
        return numbers
