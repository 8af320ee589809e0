"""Decoders from a GGUF file: the Llama family (SmolLM2, Mistral) and Qwen2, in floats or in blocks of 4 to 8 bits.

Names are translated to `transformers`' names, for a common reader of folders and files. Blocks are dequantised.
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
from .settings import JsonSettings, model_settings, shown

_KINDS = {"llama": "llama", "qwen2": "qwen2"}
"""Architectures, and their names in settings."""
_COUNTS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
}
_OPTIONAL = {"num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length"}
_WIDTHS = "rope.dimension_count", "attention.value_length"
"""Optional keys that must equal the width of a head."""
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
    """Language model of a GGUF file.

    Raises
    ------
    UserError
        If the package `gguf` is missing, the file is damaged, or a part of the model has no normal form.
    """
    return read_checkpoint(GgufCheckpoint(path))


class GgufCheckpoint(Checkpoint):
    """Settings and tensors of a GGUF file by the names of `transformers`, see `Checkpoint`.

    Raises
    ------
    UserError
        If the file is not GGUF, of another architecture, or has unsupported settings.
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
        return UserError(f"{self.folder} has {reason}")

    def _settings(self) -> JsonSettings:
        """Settings from the metadata; unknown keys of the architecture are refused."""
        kind = self.header.metadata.get("general.architecture")
        if kind not in _KINDS:
            raise self._refused(f"general.architecture = {kind!r}; read are {', '.join(_KINDS)}")
        values = {
            key.removeprefix(f"{kind}."): value
            for key, value in self.header.metadata.items()
            if key.startswith(f"{kind}.")
        }
        settings: dict[str, Any] = {"model_type": _KINDS[kind], "hidden_act": "silu"}
        settings["tie_word_embeddings"] = "output.weight" not in self
        settings["sliding_window"] = None
        if (embeddings := self.header.places.get("token_embd.weight")) is not None:
            settings["vocab_size"] = embeddings.shape[0]
        wanted = list(_COUNTS.items()) + [(name, key) for name, key in _OPTIONAL.items() if key in values]
        for name, key in wanted:
            settings[name] = self._number(values, f"{kind}.", key, int)
        heads = settings["num_attention_heads"]
        width = settings.setdefault("head_dim", settings["hidden_size"] // heads)
        settings["rms_norm_eps"] = self._number(values, f"{kind}.", _EPS, float)
        settings["rope_theta"] = self._number({_BASE: 10_000.0} | values, f"{kind}.", _BASE, float)
        if values.get(_SCALING, "none") != "none":
            raise self._refused(f"{kind}.{_SCALING} = {values[_SCALING]!r}: scaled rotary positions are not computed")
        for key in _WIDTHS:
            if values.get(key, width) != width:
                raise self._refused(f"{kind}.{key} = {values[key]!r}, and heads of {width} features")
        known = {*_COUNTS.values(), *_OPTIONAL.values(), *_WIDTHS, *_WITHOUT_EFFECT, _EPS, _BASE, _SCALING}
        if unknown := sorted(set(values) - known):
            raise self._refused(f"{kind}.{unknown[0]} = {shown(values[unknown[0]])}, which nothing here computes")
        return model_settings(self.folder, settings)

    def _number(self, values: dict[str, Any], before: str, key: str, kind: type) -> Any:
        if key not in values:
            raise self._refused(f"no {before}{key}")
        if type(values[key]) is not kind or not values[key] > 0:
            what = "a whole number of at least 1" if kind is int else "a positive number"
            raise self._refused(f"{before}{key} = {shown(values[key])}, which is not {what}")
        return values[key]

    def has_bias(self, layer: str, by_settings: bool) -> bool:
        """True if the file has a bias, which only its tensors show."""
        return f"{layer}.bias" in self

    def choose_prefix(self, prefixes: Any, name: str) -> None:
        """Require the tensor; names have no prefix."""
        super().choose_prefix(("",), self.full(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.full(name) in self._files

    def full(self, name: str) -> str:
        """Name of a tensor in the file."""
        match = _NAME.fullmatch(name)
        if match and match[2] in _PARTS:
            before = f"blk.{match[1]}." if match[1] else ""
            return f"{before}{_PARTS[match[2]]}.{match[3]}"
        return name

    def _values(self, full: str) -> tuple[NDArray[np.float32], str]:
        """Dequantised tensor, and the type; Llama's queries and keys are restored from the order of rotated pairs."""
        constants, quants = _package()
        tensor_place = self.header.places[full]
        unread = UserError(f"{self.folder}: tensor {full} is of type {tensor_place.kind}, which is not read")
        try:
            kind = constants.GGMLQuantizationType(tensor_place.kind)
        except ValueError:
            raise unread from None
        blocks = self.header.blocks(full, *constants.GGML_QUANT_SIZES[kind])
        try:
            values = np.asarray(quants.dequantize(blocks, kind), np.float32).reshape(tensor_place.shape)
        except NotImplementedError:
            raise unread from None
        if self.settings["model_type"] == "llama" and (match := re.fullmatch(r"blk\.\d+\.attn_([qk])\..+", full)):
            heads: int = self.settings["num_attention_heads"]
            heads = heads if match[1] == "q" else self.settings["num_key_value_heads"] or heads
            if len(values) % (2 * heads):
                raise UserError(f"{self.folder}: tensor {full} has {len(values)} rows for {heads} heads")
            # features of a rotated pair are adjacent in GGUF, and half a head apart here
            pairs = values.reshape(heads, len(values) // heads // 2, 2, -1)
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        return values, {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(kind.name, kind.name)


def _package() -> tuple[Any, Any]:
    """Modules of the package gguf, with the formulas of all block types."""
    try:
        from gguf import constants, quants
    except ImportError:
        raise UserError("GGUF files need the package gguf: pip install 'fabtune[gguf]'") from None
    return constants, quants
