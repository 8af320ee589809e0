"""Decoders from a GGUF file: Llama's kind (SmolLM2, Mistral) and Qwen2, of floats or of blocks of 4 to 8 bits.

A file's names become those of `transformers`, so that its folders and files have one reader. Blocks are dequantised.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError
from .checkpoint import Checkpoint
from .families import read_checkpoint
from .gguf_header import GgufHeader
from .language_model import LanguageModel
from .settings import Settings, model_settings, shown

_KINDS = {"llama": "llama", "qwen2": "qwen2"}
"""Architectures, as settings name them."""
_COUNTS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
}
_OPTIONAL = {"num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length"}
_WIDTHS = "rope.dimension_count", "attention.value_length"
"""Keys that have to be the width of a head, where they are there."""
_EPS, _BASE, _SCALING = "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.type"
_WITHOUT_EFFECT = "context_length", "vocab_size"
_PARTS = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAME = re.compile(r"(?:layers\.(\d+)\.)?(.+)\.(weight|bias)")


def read_gguf(path: Path) -> LanguageModel:
    """Import a model from a GGUF file.

    Raises
    ------
    UserError
        If the package `gguf` is missing, the file is damaged, or something in it has no place in the normal form.
    """
    return read_checkpoint(GgufCheckpoint(path))


class GgufCheckpoint(Checkpoint):
    """Settings and tensors of a GGUF file by the names that `transformers` has for them, see `Checkpoint`.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    header : GgufHeader

    Raises
    ------
    UserError
        If it is no such file, of another architecture, or has settings that nothing computes.
    """

    def __init__(self, path: Path) -> None:
        self.header = GgufHeader(path)
        self.folder, self.name = path, path.stem
        self.prefix = ""
        self._files = dict.fromkeys(self.header.places, path)
        self._used: set[str] = set()
        self._kinds: set[str] = set()
        self.settings = self._settings()

    def _refused(self, reason: str) -> UserError:
        """Make the error of metadata."""
        return UserError(f"{self.folder} has {reason}")

    def _settings(self) -> Settings:
        """Translate the metadata; a key of the architecture that is not known is refused."""
        kind = self.header.metadata.get("general.architecture")
        if kind not in _KINDS:
            raise self._refused(f"general.architecture = {kind!r}; read are {', '.join(_KINDS)}")
        own = {
            key.removeprefix(f"{kind}."): value
            for key, value in self.header.metadata.items()
            if key.startswith(f"{kind}.")
        }
        found: dict[str, Any] = {"model_type": _KINDS[kind], "hidden_act": "silu"}
        found["tie_word_embeddings"] = "output.weight" not in self
        found["sliding_window"] = None
        if (embeddings := self.header.places.get("token_embd.weight")) is not None:
            found["vocab_size"] = embeddings.shape[0]
        wanted = list(_COUNTS.items()) + [(name, key) for name, key in _OPTIONAL.items() if key in own]
        for name, key in wanted:
            found[name] = self._number(own, f"{kind}.", key, int)
        heads = found["num_attention_heads"]
        width = found.setdefault("head_dim", found["hidden_size"] // heads)
        found["rms_norm_eps"] = self._number(own, f"{kind}.", _EPS, float)
        found["rope_theta"] = self._number({_BASE: 10_000.0} | own, f"{kind}.", _BASE, float)
        if own.get(_SCALING, "none") != "none":
            raise self._refused(f"{kind}.{_SCALING} = {own[_SCALING]!r}: scaled rotary positions are not computed")
        for key in _WIDTHS:
            if own.get(key, width) != width:
                raise self._refused(f"{kind}.{key} = {own[key]!r}, and heads of {width} features")
        known = {*_COUNTS.values(), *_OPTIONAL.values(), *_WIDTHS, *_WITHOUT_EFFECT, _EPS, _BASE, _SCALING}
        if unknown := sorted(set(own) - known):
            raise self._refused(f"{kind}.{unknown[0]} = {shown(own[unknown[0]])}, which nothing here computes")
        return model_settings(self.folder, found)

    def _number(self, own: dict[str, Any], before: str, key: str, kind: type) -> Any:
        """Look up a positive number."""
        if key not in own:
            raise self._refused(f"no {before}{key}")
        if type(own[key]) is not kind or not own[key] > 0:
            what = "a whole number of at least 1" if kind is int else "a positive number"
            raise self._refused(f"{before}{key} = {shown(own[key])}, which is not {what}")
        return own[key]

    def has_bias(self, layer: str, by_settings: bool) -> bool:
        """Tell whether the file has a bias, which its metadata do not say."""
        return f"{layer}.bias" in self

    def choose_prefix(self, prefixes: Any, name: str) -> None:
        """Names have none; the tensor has to be there."""
        super().choose_prefix(("",), self.full(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.full(name) in self._files

    def full(self, name: str) -> str:
        """Name of a tensor in the file."""
        found = _NAME.fullmatch(name)
        if found and found[2] in _PARTS:
            before = f"blk.{found[1]}." if found[1] else ""
            return f"{before}{_PARTS[found[2]]}.{found[3]}"
        return name

    def _values(self, full: str) -> tuple[NDArray[np.float32], str]:
        """Dequantise a tensor; rows of Llama's queries and keys stand in the order of rotated pairs."""
        constants, quants = _package()
        place = self.header.places[full]
        unread = UserError(f"{self.folder}: tensor {full} is of type {place.kind}, which is not read")
        try:
            kind = constants.GGMLQuantizationType(place.kind)
        except ValueError:
            raise unread from None
        blocks = self.header.blocks(full, *constants.GGML_QUANT_SIZES[kind])
        try:
            values = np.asarray(quants.dequantize(blocks, kind), np.float32).reshape(place.shape)
        except NotImplementedError:
            raise unread from None
        if self.settings["model_type"] == "llama" and (found := re.fullmatch(r"blk\.\d+\.attn_([qk])\..+", full)):
            heads: int = self.settings["num_attention_heads"]
            heads = heads if found[1] == "q" else self.settings["num_key_value_heads"] or heads
            if len(values) % (2 * heads):
                raise UserError(f"{self.folder}: tensor {full} has {len(values)} rows for {heads} heads")
            # a pair's features are neighbours there, and half a head apart here
            pairs = values.reshape(heads, len(values) // heads // 2, 2, -1)
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        return values, {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(kind.name, kind.name)


def _package() -> tuple[Any, Any]:
    """Formulas of all types of blocks."""
    try:
        from gguf import constants, quants
    except ImportError:
        raise UserError("GGUF files need the package gguf: pip install 'fabtune[gguf]'") from None
    return constants, quants
