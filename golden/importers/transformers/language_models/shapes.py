"""Transformers by their sizes alone: settings of a `transformers` folder without weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checkpoint import Checkpoint
from .families import read_checkpoint
from .language_model import LanguageModel
from .settings import model_settings, read_settings

_ENCODER = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2}
_DECODER = {"hidden_act": "silu", "rms_norm_eps": 1e-5, "model_type": "llama"}
PUBLISHED: dict[str, dict[str, Any]] = {
    "minilm": {
        **_ENCODER,
        "model_type": "bert",
        "vocab_size": 30_522,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1_536,
        "max_position_embeddings": 512,
    },
    "roberta-large": {
        **_ENCODER,
        "model_type": "roberta",
        "vocab_size": 50_265,
        "hidden_size": 1_024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4_096,
        "max_position_embeddings": 514,
        "pad_token_id": 1,
        "type_vocab_size": 1,
    },
    "opt-125m": {
        "model_type": "opt",
        "activation_function": "relu",
        "vocab_size": 50_272,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "ffn_dim": 3_072,
        "max_position_embeddings": 2_048,
    },
    "opt-1.3b": {
        "model_type": "opt",
        "activation_function": "relu",
        "vocab_size": 50_272,
        "hidden_size": 2_048,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "ffn_dim": 8_192,
        "max_position_embeddings": 2_048,
    },
    "smollm2-135m": {
        **_DECODER,
        "vocab_size": 49_152,
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 1_536,
        "rope_theta": 100_000.0,
    },
    "llama-2-7b": {
        **_DECODER,
        "vocab_size": 32_000,
        "hidden_size": 4_096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11_008,
    },
}
"""Settings of published models by name: the sizes of their ``config.json``."""


def shapes_of(settings: Mapping[str, Any] | Path, name: str = "") -> LanguageModel:
    """Language model with zero tensors without memory; `TransformerBuilder.network` makes the network.

    `settings` are the contents of ``config.json``, or a folder with this file. `name` is for a model without folder.

    Raises
    ------
    UserError
        As `folder.read_folder` does for settings.
    """
    return read_checkpoint(_ShapesAlone(settings, name))


class _ShapesAlone(Checkpoint):
    """Settings, and tensors of zeros of any shape."""

    def __init__(self, settings: Mapping[str, Any] | Path, name: str) -> None:
        if isinstance(settings, Path):
            self.folder, self.name, path = settings, settings.name, settings / "config.json"
            self.settings = model_settings(path, read_settings(path))
        else:
            self.folder, self.name, self.settings = Path(name), name, model_settings(Path(name), settings)
        self.prefix = ""

    def choose_prefix(self, prefixes: Iterable[str], name: str) -> None:
        """Accept names without prefix."""

    def __contains__(self, name: str) -> bool:
        """False: heads are left out."""
        return False

    def tensor(self, name: str, *shape: int) -> NDArray[np.float32]:
        return np.broadcast_to(np.float32(0), shape)

    @property
    def converted(self) -> tuple[str, ...]:
        return ()

    def rest(self, known: re.Pattern[str]) -> tuple[str, ...]:
        return ()
