"""Families of language models, by their own names of settings and tensors.

Supported are BERT, RoBERTa and XLM-RoBERTa, DistilBERT, OPT, and the Llama family (Llama, SmolLM2, Mistral, Qwen2).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ....transformer.blocks import ActivationKind, SelfAttention
from ....transformer.builder import INPUTS, TransformerBuilder
from .checkpoint import Checkpoint
from .language_model import LanguageModel
from .settings import ROPE, JsonSettings, shown

_ACTIVATIONS: dict[str, ActivationKind] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "relu2": "relu-squared",
    "silu": "silu",
    "swish": "silu",
}
_HEADS = re.compile(
    r"(\w+\.)?(pooler|cls|lm_head|classifier|pre_classifier|vocab_\w+|score|qa_outputs)\..+|(.+\.)?(position_ids|inv_freq)"
)
"""Names of tensors without influence on the last hidden state."""
_WINDOWED, _WHOLE = "sliding_attention", "full_attention"
"""Layer types of Qwen2."""


def read_checkpoint(checkpoint: Checkpoint) -> LanguageModel:
    """Language model from settings and tensors.

    Raises
    ------
    UserError
        If a part of the model has no normal form.
    """
    return _Reader(checkpoint).read()


class _Reader:
    """Import of a model."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._from, self._settings = checkpoint, checkpoint.settings
        self._kind: str = self._settings["model_type"]
        self._features: int = self._settings["dim" if self._kind == "distilbert" else "hidden_size"]
        self._made = TransformerBuilder(checkpoint.name, self._features)
        self._names: dict[tuple[int, str], str] = {}
        self._types = self._layer_types()

    def read(self) -> LanguageModel:
        """Language model with all layers, and with the head of a decoder."""
        words, last, causal = _FAMILIES[self._kind](self)
        head = self._head(words) if causal else None
        return LanguageModel(
            self._from.name,
            self._made,
            last,
            words,
            self._names,
            causal,
            self._from.rest(_HEADS),
            self._from.converted,
            head,
            self._settings["pad_token_id"] if self._kind in _COUNTING else None,
        )

    def _head(self, words: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Head of a decoder; may equal the words' embeddings."""
        self._from.prefix = ""  # the head is outside the body's prefix
        tied: bool = self._settings["tie_word_embeddings"]
        if "lm_head.bias" in self._from:
            raise self._settings.refused("a lm_head.bias among its tensors: heads of words have no biases here")
        if "lm_head.weight" not in self._from:
            return words if tied else None
        head = self._from.tensor("lm_head.weight", *words.shape)
        if tied and not np.array_equal(head, words):
            raise self._settings.refused("tie_word_embeddings = true, but a lm_head.weight that is not the embeddings")
        return words if tied else head

    # -- layers by the names of their tensors -------------------------------------------------------------------------

    def _words(self, name: str) -> NDArray[np.float32]:
        return self._from.tensor(f"{name}.weight", self._settings["vocab_size"], self._features)

    def _linear(self, name: str, read: int, outputs: int, inputs: int, bias: bool = True) -> int:
        """Add a linear layer; the checkpoint decides on the bias."""
        weight = self._from.tensor(f"{name}.weight", outputs, inputs)
        has_bias = self._from.has_bias(name, bias)
        number = self._made.linear(name, read, weight, self._from.tensor(f"{name}.bias", outputs) if has_bias else None)
        self._named(number, name, weight="weight", **({"bias": "bias"} if has_bias else {}))
        return number

    def _layer_norm(self, name: str, read: int, eps: float) -> int:
        factor, bias = (self._from.tensor(f"{name}.{kind}", self._features) for kind in ("weight", "bias"))
        number = self._made.layer_norm(name, read, factor, bias, eps)
        self._named(number, name, factor="weight", bias="bias")
        return number

    def _rms_norm(self, name: str, read: int, eps: float) -> int:
        number = self._made.rms_norm(name, read, self._from.tensor(f"{name}.weight", self._features), eps)
        self._named(number, name, factor="weight")
        return number

    def _named(self, number: int, name: str, **kinds: str) -> None:
        self._names |= {(number, kind): self._from.full(f"{name}.{suffix}") for kind, suffix in kinds.items()}

    def _positions(
        self, name: str, read: int, skipped: int = 0, added: int = 0, more: NDArray[np.float32] | None = None
    ) -> int:
        """Add learned positions.

        Parameters
        ----------
        skipped : int
            Unused first rows.
        added : int
            Rows beyond the number in the settings.
        more : array of float32, (features,), optional
            Row added to all positions.
        """
        length: int = self._settings["max_position_embeddings"] + added
        if skipped >= length:
            raise self._settings.refused(f"max_position_embeddings = {length}: none of them comes behind the padding")
        rows = self._from.tensor(f"{name}.weight", length, self._features)[skipped:]
        number = self._made.positions(name, read, rows if more is None else rows + more)
        self._named(number, name, position="weight")
        return number

    def _attention(
        self,
        names: tuple[str, str, str],
        read: int,
        attention: SelfAttention,
        title: str,
        biases: bool = True,
    ) -> int:
        counts = attention.heads, attention.key_heads, attention.key_heads
        queries, keys, values = (
            self._linear(name, read, count * attention.width, self._features, biases)
            for name, count in zip(names, counts, strict=True)
        )
        return self._made.attention(title, (queries, keys, values), attention)

    def _activation(self, name: str) -> ActivationKind:
        named = self._settings[name]
        if named not in _ACTIVATIONS:
            raise self._settings.refused(f"{name} = {named!r}; computed are {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[named]

    def _heads(self, name: str) -> tuple[int, int]:
        """Number of heads, and features of each."""
        heads: int = self._settings[name]
        if self._features % heads:
            raise self._settings.refused(f"{name} = {heads}, heads which do not divide {self._features} features")
        return heads, self._features // heads

    def _require(self, name: str, value: bool, reason: str) -> None:
        """Refuse a flag with a value without support."""
        if self._settings[name] is not value:
            raise self._settings.refused(f"{name} = {str(not value).lower()}: {reason}")

    # -- families -----------------------------------------------------------------------------------------------------

    def _bert(self) -> tuple[NDArray[np.float32], int, bool]:
        settings = self._settings
        if settings["position_embedding_type"] not in (None, "absolute"):
            raise settings.refused(
                f"position_embedding_type = {settings['position_embedding_type']!r}; computed is 'absolute'"
            )
        for name in ("is_decoder", "add_cross_attention"):
            self._require(name, False, "encoders here look at all tokens, and at no other text")
        self._from.choose_prefix(("", "bert.", "roberta."), "embeddings.word_embeddings.weight")
        words = self._words("embeddings.word_embeddings")
        # token type 0: all tokens belong to a single sentence
        types = self._from.tensor(
            "embeddings.token_type_embeddings.weight", settings["type_vocab_size"], self._features
        )
        skipped = settings["pad_token_id"] + 1 if self._kind in _COUNTING else 0
        eps: float = settings["layer_norm_eps"]
        x = self._positions("embeddings.position_embeddings", INPUTS, skipped, more=types[0])
        x = self._layer_norm("embeddings.LayerNorm", x, eps)
        heads, width = self._heads("num_attention_heads")
        wide, kind = settings["intermediate_size"], self._activation("hidden_act")
        for layer in range(settings["num_hidden_layers"]):
            block = f"encoder.layer.{layer}"
            names = f"{block}.attention.self.query", f"{block}.attention.self.key", f"{block}.attention.self.value"
            mixed = self._attention(names, x, SelfAttention(heads, heads, width), f"{block}.attention")
            mixed = self._linear(f"{block}.attention.output.dense", mixed, self._features, self._features)
            x = self._made.residual(f"{block}.attention.output", x, mixed)
            x = self._layer_norm(f"{block}.attention.output.LayerNorm", x, eps)
            up = self._linear(f"{block}.intermediate.dense", x, wide, self._features)
            up = self._made.activation(f"{block}.intermediate", up, kind)
            down = self._linear(f"{block}.output.dense", up, self._features, wide)
            x = self._layer_norm(f"{block}.output.LayerNorm", self._made.residual(f"{block}.output", x, down), eps)
        return words, x, False

    def _distilbert(self) -> tuple[NDArray[np.float32], int, bool]:
        self._from.choose_prefix(("", "distilbert."), "embeddings.word_embeddings.weight")
        words, eps = self._words("embeddings.word_embeddings"), 1e-12
        x = self._positions("embeddings.position_embeddings", INPUTS)
        x = self._layer_norm("embeddings.LayerNorm", x, eps)
        heads, width = self._heads("n_heads")
        wide, kind = self._settings["hidden_dim"], self._activation("activation")
        for layer in range(self._settings["n_layers"]):
            block = f"transformer.layer.{layer}"
            names = f"{block}.attention.q_lin", f"{block}.attention.k_lin", f"{block}.attention.v_lin"
            mixed = self._attention(names, x, SelfAttention(heads, heads, width), f"{block}.attention")
            mixed = self._linear(f"{block}.attention.out_lin", mixed, self._features, self._features)
            x = self._layer_norm(f"{block}.sa_layer_norm", self._made.residual(f"{block}.sum", x, mixed), eps)
            up = self._made.activation(f"{block}.ffn", self._linear(f"{block}.ffn.lin1", x, wide, self._features), kind)
            down = self._linear(f"{block}.ffn.lin2", up, self._features, wide)
            x = self._layer_norm(f"{block}.output_layer_norm", self._made.residual(f"{block}.ffn.sum", x, down), eps)
        return words, x, False

    def _opt(self) -> tuple[NDArray[np.float32], int, bool]:
        settings = self._settings
        if settings["word_embed_proj_dim"] not in (None, self._features):
            raise settings.refused(
                f"word_embed_proj_dim = {settings['word_embed_proj_dim']}; computed is hidden_size = {self._features}"
            )
        self._require("is_causal", True, "decoders here see no later token")
        self._require("do_layer_norm_before", True, "norms behind the sums are not computed")
        self._require("_remove_final_layer_norm", False, "a decoder without its last norm is not computed")
        self._require("layer_norm_elementwise_affine", True, "norms without factors are not computed")
        self._from.choose_prefix(("decoder.", "model.decoder."), "embed_tokens.weight")
        words, eps, biases = self._words("embed_tokens"), 1e-5, settings["enable_bias"]
        x = self._positions("embed_positions", INPUTS, 2, added=2)
        heads, width = self._heads("num_attention_heads")
        wide, kind = settings["ffn_dim"], self._activation("activation_function")
        for layer in range(settings["num_hidden_layers"]):
            block = f"layers.{layer}"
            normed = self._layer_norm(f"{block}.self_attn_layer_norm", x, eps)
            names = f"{block}.self_attn.q_proj", f"{block}.self_attn.k_proj", f"{block}.self_attn.v_proj"
            attention = SelfAttention(heads, heads, width, True)
            mixed = self._attention(names, normed, attention, f"{block}.self_attn", biases)
            mixed = self._linear(f"{block}.self_attn.out_proj", mixed, self._features, self._features, biases)
            x = self._made.residual(f"{block}.sum", x, mixed)
            normed = self._layer_norm(f"{block}.final_layer_norm", x, eps)
            up = self._linear(f"{block}.fc1", normed, wide, self._features, biases)
            up = self._made.activation(f"{block}.activation", up, kind)
            down = self._linear(f"{block}.fc2", up, self._features, wide, biases)
            x = self._made.residual(f"{block}.second sum", x, down)
        return words, self._layer_norm("final_layer_norm", x, eps), True

    def _llama(self) -> tuple[NDArray[np.float32], int, bool]:
        settings = self._settings
        self._require("is_causal", True, "decoders here see no later token")
        heads, key_heads, width = self._head_sizes()
        base, windows = self._rotary_base(), self._windows(self._types)
        biases = {"qwen2": (True, False, False)}.get(self._kind, (False, False, False))
        if self._kind == "llama":
            biases = settings["attention_bias"], settings["attention_bias"], settings["mlp_bias"]
        self._from.choose_prefix(("", "model."), "embed_tokens.weight")
        words, eps = self._words("embed_tokens"), settings["rms_norm_eps"]
        wide, kind, x = settings["intermediate_size"], self._activation("hidden_act"), INPUTS
        for layer, window in enumerate(windows):
            block = f"layers.{layer}"
            normed = self._rms_norm(f"{block}.input_layernorm", x, eps)
            names = f"{block}.self_attn.q_proj", f"{block}.self_attn.k_proj", f"{block}.self_attn.v_proj"
            attention = SelfAttention(heads, key_heads, width, True, base, window=window)
            mixed = self._attention(names, normed, attention, f"{block}.self_attn", biases[0])
            mixed = self._linear(f"{block}.self_attn.o_proj", mixed, self._features, heads * width, biases[1])
            x = self._made.residual(f"{block}.sum", x, mixed)
            normed = self._rms_norm(f"{block}.post_attention_layernorm", x, eps)
            gate = self._linear(f"{block}.mlp.gate_proj", normed, wide, self._features, biases[2])
            up = self._linear(f"{block}.mlp.up_proj", normed, wide, self._features, biases[2])
            gated = self._made.gate(f"{block}.mlp", self._made.activation(f"{block}.mlp.act_fn", gate, kind), up)
            down = self._linear(f"{block}.mlp.down_proj", gated, self._features, wide, biases[2])
            x = self._made.residual(f"{block}.second sum", x, down)
        return words, self._rms_norm("norm", x, eps), True

    def _head_sizes(self) -> tuple[int, int, int]:
        """Heads of queries, heads of keys and values, and features of a head."""
        settings, heads = self._settings, self._settings["num_attention_heads"]
        key_heads = settings["num_key_value_heads"] or heads
        if heads % key_heads:
            raise settings.refused(f"num_key_value_heads = {key_heads}, which does not divide {heads} heads")
        if self._kind == "llama":
            self._heads("num_attention_heads")  # the library has this rule even with a head_dim
        width = settings["head_dim"] or self._features // heads
        if width < 1 or width % 2:
            raise settings.refused(f"heads of {width} features: rotary positions turn pairs of them")
        return heads, key_heads, width

    def _layer_types(self) -> list[str] | None:
        """Types of the layers, if the settings name them; only Qwen2 has sliding windows by layer."""
        settings = self._settings
        types: list[str] | None = settings["layer_types"]
        count = settings["n_layers" if self._kind == "distilbert" else "num_hidden_layers"]
        slides = self._kind == "qwen2" and settings["use_sliding_window"] and settings["sliding_window"]
        allowed = (_WHOLE, _WINDOWED) if slides else (_WHOLE,)
        if types is not None and (len(types) != count or not {*types} <= {*allowed}):
            raise settings.refused(f"layer_types = {shown(types)}; read are {count} of {', '.join(allowed)}")
        return types

    def _windows(self, types: list[str] | None) -> list[int | None]:
        """Length of the sliding window of each layer: the largest number of tokens of a text."""
        settings, layers = self._settings, range(self._settings["num_hidden_layers"])
        if self._kind != "qwen2":
            return [settings["sliding_window"] for _ in layers]
        first, slides = settings["max_window_layers"], settings["use_sliding_window"]
        windowed = [layer >= first if types is None else types[layer] == _WINDOWED for layer in layers]
        return [settings["sliding_window"] if slides and is_windowed else None for is_windowed in windowed]

    def _rotary_base(self) -> float:
        """Base of the rotary positions; scaled wavelengths are refused.

        As in the library, ``rope_scaling`` wins over ``rope_parameters``, and a base inside these objects over the
        outer base.
        """
        settings = self._settings
        name = "rope_scaling" if settings["rope_scaling"] else "rope_parameters"
        parameters: dict[str, object] = settings[name] or {}
        rope = JsonSettings(settings.place, parameters, ROPE, f"{name}.")
        if nested := [key for key, value in parameters.items() if isinstance(value, dict)]:
            raise rope.refused(f"{nested[0]}: rotary positions by the type of layer are not read")
        kind = rope["type"] if rope["rope_type"] is None else rope["rope_type"]
        if kind != "default":
            raise rope.refused(f"rope_type = {kind!r}; computed are rotary positions of the type 'default'")
        for source in (settings, rope):
            if source["partial_rotary_factor"] not in (None, 1):
                raise source.refused(
                    f"partial_rotary_factor = {source['partial_rotary_factor']}: rotary positions turn whole heads here"
                )
        base: float = rope["rope_theta"] or settings["rope_theta"]
        return float(base)


_FAMILIES: dict[str, Callable[[_Reader], tuple[NDArray[np.float32], int, bool]]] = {
    "bert": _Reader._bert,
    "roberta": _Reader._bert,
    "xlm-roberta": _Reader._bert,
    "distilbert": _Reader._distilbert,
    "opt": _Reader._opt,
    "llama": _Reader._llama,
    "mistral": _Reader._llama,
    "qwen2": _Reader._llama,
}
_COUNTING = ("roberta", "xlm-roberta")
"""Kinds that count positions without padding tokens."""
