"""Settings of a model with declared types, and with the names and defaults of `transformers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import UserError
from ....files import read_json

_SHOWN = 40


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and math.isfinite(value)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "count": (lambda value: _is_whole(value) and value >= 1, "a whole number of at least 1"),
    "index": (lambda value: _is_whole(value) and value >= 0, "a whole number of at least 0"),
    "eps": (lambda value: isinstance(value, float) and 0 <= value < 1, "a decimal number from 0 to less than 1"),
    "base": (lambda value: _is_number(value) and value >= 1, "a number of at least 1"),
    "number": (_is_number, "a number"),
    "flag": (lambda value: isinstance(value, bool), "true or false"),
    "text": (lambda value: isinstance(value, str), "a text"),
    "texts": (
        lambda value: isinstance(value, list) and all(isinstance(part, str) for part in value),
        "a list of texts",
    ),
    "object": (lambda value: isinstance(value, dict), "an object"),
}
"""By kind of field, a test of values, and their description for messages."""


@dataclass(frozen=True)
class JsonField:
    """Setting with a type.

    Parameters
    ----------
    kind : str
        Key of `_KINDS`.
    default : Any
        Value of a missing setting.
    null : bool
        True if null is valid; it is read as None.
    alias : str, optional
        Second name; its value wins.
    """

    kind: str
    default: Any = None
    null: bool = False
    alias: str | None = None


class JsonSettings:
    """Values of a JSON object by field name, each checked at construction.

    Parameters
    ----------
    place : Path
        File, for messages.
    fields : mapping of str to Field
        Fields to read; others are ignored.
    before : str
        Prefix of names in messages, as ``rope_parameters.`` for a nested object.

    Raises
    ------
    UserError
        If a value has a wrong type.
    """

    def __init__(
        self, place: Path, values: Mapping[str, Any], fields: Mapping[str, JsonField], before: str = ""
    ) -> None:
        self.place, self._before = place, before
        self._values = {name: self._typed(name, field, values) for name, field in fields.items()}

    def _typed(self, name: str, field: JsonField, values: Mapping[str, Any]) -> Any:
        name = field.alias if field.alias is not None and field.alias in values else name
        if name not in values:
            return field.default
        value, (fits, words) = values[name], _KINDS[field.kind]
        if value is None and field.null:
            return None
        if not fits(value):
            raise self.refused(f"{name} = {shown(value)}, which is not {words}")
        return value

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def refused(self, reason: str) -> UserError:
        """Error of a setting; `reason` starts with the name."""
        return UserError(f"{self.place} has {self._before}{reason}")


def shown(value: Any) -> str:
    """Value for a message, at most 40 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_settings(path: Path) -> dict[str, Any]:
    """JSON object of a file in a model's folder.

    Raises
    ------
    UserError
        If the file is missing, or is no JSON object.
    """
    try:
        settings = read_json(path)
    except UserError as error:
        raise UserError(f"{error}: give the folder of a model that transformers saved") from None
    if not isinstance(settings, dict):
        raise UserError(f"{path} is no JSON object")
    return settings


# -- supported models --------------------------------------------------------------------------------------------------

_LAYER_TYPES = {"layer_types": JsonField("texts", None, null=True)}
_ENCODER = {
    **_LAYER_TYPES,
    "vocab_size": JsonField("count", 30_522),
    "max_position_embeddings": JsonField("count", 512),
}
_BERT = {
    **_ENCODER,
    "hidden_size": JsonField("count", 768),
    "num_hidden_layers": JsonField("count", 12),
    "num_attention_heads": JsonField("count", 12),
    "intermediate_size": JsonField("count", 3_072),
    "hidden_act": JsonField("text", "gelu"),
    "type_vocab_size": JsonField("count", 2),
    "layer_norm_eps": JsonField("eps", 1e-12),
    "is_decoder": JsonField("flag", False),
    "add_cross_attention": JsonField("flag", False),
    # from versions before 5
    "position_embedding_type": JsonField("text", None, null=True),
}
_ROBERTA = {**_BERT, "pad_token_id": JsonField("index", 1)}
_DECODER = {
    **_LAYER_TYPES,
    "hidden_size": JsonField("count", 4_096),
    "num_hidden_layers": JsonField("count", 32),
    "num_attention_heads": JsonField("count", 32),
    "tie_word_embeddings": JsonField("flag", False),
    "is_causal": JsonField("flag", True),
}
_LLAMA = {
    **_DECODER,
    "hidden_act": JsonField("text", "silu"),
    "rms_norm_eps": JsonField("eps", 1e-6),
    "rope_parameters": JsonField("object", None, null=True),
    # from versions before 5; the library still reads them
    "rope_scaling": JsonField("object", None, null=True),
    "rope_theta": JsonField("base", 10_000.0),
    "partial_rotary_factor": JsonField("number", None, null=True),
}
FIELDS: dict[str, dict[str, JsonField]] = {
    "bert": _BERT,
    "roberta": {**_ROBERTA, "vocab_size": JsonField("count", 50_265)},
    "xlm-roberta": _ROBERTA,
    "distilbert": {
        **_ENCODER,
        "dim": JsonField("count", 768, alias="hidden_size"),
        "n_layers": JsonField("count", 6, alias="num_hidden_layers"),
        "n_heads": JsonField("count", 12, alias="num_attention_heads"),
        "hidden_dim": JsonField("count", 3_072),
        "activation": JsonField("text", "gelu"),
    },
    "opt": {
        **_DECODER,
        "vocab_size": JsonField("count", 50_272),
        "hidden_size": JsonField("count", 768),
        "num_hidden_layers": JsonField("count", 12),
        "num_attention_heads": JsonField("count", 12),
        "max_position_embeddings": JsonField("count", 2_048),
        "ffn_dim": JsonField("count", 3_072),
        "activation_function": JsonField("text", "relu"),
        "word_embed_proj_dim": JsonField("count", None, null=True),
        "do_layer_norm_before": JsonField("flag", True),
        "_remove_final_layer_norm": JsonField("flag", False),
        "enable_bias": JsonField("flag", True),
        "layer_norm_elementwise_affine": JsonField("flag", True),
        "tie_word_embeddings": JsonField("flag", True),
    },
    "llama": {
        **_LLAMA,
        "vocab_size": JsonField("count", 32_000),
        "intermediate_size": JsonField("count", 11_008),
        "num_key_value_heads": JsonField("count", None, null=True),
        "head_dim": JsonField("count", None, null=True),
        "attention_bias": JsonField("flag", False),
        "mlp_bias": JsonField("flag", False),
        "sliding_window": JsonField("count", None, null=True),
    },
    "mistral": {
        **_LLAMA,
        "vocab_size": JsonField("count", 32_000),
        "intermediate_size": JsonField("count", 14_336),
        "num_key_value_heads": JsonField("count", 8),
        "head_dim": JsonField("count", None, null=True),
        "sliding_window": JsonField("count", 4_096, null=True),
    },
    "qwen2": {
        **_LLAMA,
        "vocab_size": JsonField("count", 151_936),
        "intermediate_size": JsonField("count", 22_016),
        "num_key_value_heads": JsonField("count", 32, null=True),
        "head_dim": JsonField("count"),
        "use_sliding_window": JsonField("flag", False),
        "sliding_window": JsonField("count", 4_096, null=True),
        "max_window_layers": JsonField("index", 28),
    },
}
"""Fields by kind of model."""
ROPE = {
    "rope_type": JsonField("text"),
    "type": JsonField("text", "default"),
    "rope_theta": JsonField("base"),
    "partial_rotary_factor": JsonField("number", None, null=True),
}
"""Fields of the rotary positions; others have no effect on the default type."""


def model_settings(place: Path, values: Mapping[str, Any]) -> JsonSettings:
    """Checked settings of a model, from the values of ``config.json``; `place` is the file, for messages.

    Raises
    ------
    UserError
        If the kind of the model is unknown, a value has a wrong type, or layers have separate settings.
    """
    kind = JsonField("text")
    kind_settings = JsonSettings(place, values, {"model_type": kind})
    if kind_settings["model_type"] not in FIELDS:
        raise kind_settings.refused(
            f"model_type = {kind_settings['model_type']!r}; read are {', '.join(sorted(FIELDS))}"
        )
    if (layers := values.get("per_layer_config")) is not None:
        raise kind_settings.refused(
            f"per_layer_config = {shown(layers)}: layers with settings of their own are not read"
        )
    return JsonSettings(place, values, {"model_type": kind, **FIELDS[kind_settings["model_type"]]})


def refuse_other_weights(settings: JsonSettings, values: Mapping[str, Any]) -> None:
    """Refuse a folder with other tensors than plain weights, by the values of ``config.json``.

    Raises
    ------
    UserError
        If the weights are quantised, or in a file of another name.
    """
    if (quantised := values.get("quantization_config")) is not None:
        named = isinstance(quantised, dict) and "quant_method" in quantised
        method = f".quant_method = {shown(quantised['quant_method'])}" if named else f" = {shown(quantised)}"
        raise settings.refused(
            f"quantization_config{method}: quantised weights of a folder are not read; "
            "save the model with weights of float32, float16 or bfloat16, or give a GGUF file"
        )
    if (weights := values.get("transformers_weights")) is not None:
        raise settings.refused(
            f"transformers_weights = {shown(weights)}: weights are read from model.safetensors or its shards alone"
        )
