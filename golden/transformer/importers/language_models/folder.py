"""Models of the library `transformers` from their folder, by their own names of settings and tensors.

Read are BERT, RoBERTa and DistilBERT, OPT, and Llama with those of its kind (SmolLM2, Qwen2, Mistral without a window).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError
from ...blocks import ActivationKind, SelfAttention
from ...builder import INPUTS, TransformerBuilder
from .checkpoint import Checkpoint

_ACTIVATIONS: dict[str, ActivationKind] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "relu2": "relu-squared",
    "silu": "silu",
    "swish": "silu",
}
_HEADS = ("pooler.", "cls.", "lm_head.", "classifier.", "vocab_", "score.", "qa_outputs.", "position_ids", "inv_freq")
"""Parts of the names of tensors that the last hidden state does not depend on."""


@dataclass(frozen=True)
class LanguageModel:
    """A language model from embeddings to the last hidden state, and its head beside it.

    Parameters
    ----------
    name : str
        Of the folder or file.
    builder : TransformerBuilder
        With all operations; a task adds its pooling and head.
    last : int
        Number of the operation that gives the last hidden state.
    words : array of float32, (vocabulary, features)
        Embeddings, which are looked up before the network, and are frozen.
    tensor_names : dict of (int, str) to str
        Name in the user's file of each tensor.
    causal : bool
        A decoder, whose last token has seen all.
    unused : tuple of str
        Tensors of the file that the last hidden state does not depend on.
    converted : tuple of str
        Types other than float32 that tensors had.
    head : array of float32, (vocabulary, features), optional
        Language-model head of a decoder: a row for each token that may come next. The words' own array where the model
        ties them. None for encoders, and where the file has none.
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

    def rows(self, tokens: NDArray[np.integer]) -> NDArray[np.float32]:
        """Look up the embeddings of tokens: one row each.

        Raises
        ------
        UserError
            If a token is not in the vocabulary.
        """
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(self.words):
            raise UserError(
                f"{self.name} has tokens from 0 to {len(self.words) - 1}, not {tokens.min()} to {tokens.max()}"
            )
        found: NDArray[np.float32] = self.words[tokens]
        return found


def read_folder(folder: Path) -> LanguageModel:
    """Import a model from its folder.

    Raises
    ------
    UserError
        If it is of another kind, or something in it has no place in the normal form.
    """
    return read_checkpoint(Checkpoint(folder))


def read_checkpoint(checkpoint: Checkpoint) -> LanguageModel:
    """Import a model from its settings and tensors.

    Raises
    ------
    UserError
        As `read_folder`.
    """
    return _Reader(checkpoint).read()


class _Reader:
    """Walk through one model."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._from = checkpoint
        self._kind = str(checkpoint.setting("model_type"))
        self._features = checkpoint.count("hidden_size", "dim")
        self._made = TransformerBuilder(checkpoint.name, self._features)
        self._names: dict[tuple[int, str], str] = {}

    def read(self) -> LanguageModel:
        if self._kind not in _FAMILIES:
            raise self._from.refused(f"model_type = {self._kind!r}; read are {', '.join(sorted(_FAMILIES))}")
        words, last, causal = _FAMILIES[self._kind](self)
        head = self._head(words) if causal else None
        unused = self._from.rest(_HEADS)
        name, names = self._from.name, self._names
        return LanguageModel(name, self._made, last, words, names, causal, unused, self._from.converted, head)

    def _head(self, words: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Read the head of a decoder, which may be its words' embeddings."""
        self._from.prefix = ""  # it stands beside the body
        tied = bool(self._from.setting("tie_word_embeddings", default=self._kind == "opt"))
        if "lm_head.bias" in self._from:
            raise self._from.refused("a lm_head.bias among its tensors: heads of words have no biases here")
        if "lm_head.weight" not in self._from:
            return words if tied else None
        head = self._from.tensor("lm_head.weight", *words.shape)
        if tied and not np.array_equal(head, words):
            raise self._from.refused("tie_word_embeddings = true, but a lm_head.weight that is not the embeddings")
        return words if tied else head

    # -- layers by the names of their tensors -------------------------------------------------------------------------

    def _linear(self, name: str, read: int, outputs: int, inputs: int) -> int:
        """Add a linear layer, with a bias if the file has one."""
        has_bias = f"{name}.bias" in self._from
        weight = self._from.tensor(f"{name}.weight", outputs, inputs)
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
        self._names |= {(number, kind): self._from.full(f"{name}.{own}") for kind, own in kinds.items()}

    def _positions(self, name: str, read: int, skipped: int = 0, more: NDArray[np.float32] | None = None) -> int:
        """Add learned positions, of which a model may leave out the first ones, and a row that all words share."""
        rows = self._from.tensor(f"{name}.weight", -1, self._features)[skipped:]
        number = self._made.positions(name, read, rows if more is None else rows + more)
        self._named(number, name, position="weight")
        return number

    def _attention(self, names: tuple[str, str, str], read: int, attention: SelfAttention, title: str) -> int:
        counts = attention.heads, attention.key_heads, attention.key_heads
        queries, keys, values = (
            self._linear(name, read, count * attention.width, self._features)
            for name, count in zip(names, counts, strict=True)
        )
        return self._made.attention(title, (queries, keys, values), attention)

    def _activation(self, *names: str) -> ActivationKind:
        named = self._from.setting(*names)
        if named not in _ACTIVATIONS:
            raise self._from.refused(f"{names[0]} = {named!r}; computed are {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[named]

    def _heads(self, *names: str) -> tuple[int, int]:
        """Heads and features of each."""
        heads = self._from.count(*names)
        if self._features % heads:
            raise self._from.refused(f"{heads} heads, which do not divide {self._features} features")
        return heads, self._features // heads

    # -- families -----------------------------------------------------------------------------------------------------

    def _bert(self) -> tuple[NDArray[np.float32], int, bool]:
        if self._from.settings.get("position_embedding_type", "absolute") != "absolute":
            raise self._from.refused(f"positions of type {self._from.settings['position_embedding_type']!r}")
        if self._from.settings.get("is_decoder") or self._from.settings.get("add_cross_attention"):
            raise self._from.refused("is_decoder or cross-attention, which encoders here do not have")
        self._from.choose_prefix(("", "bert.", "roberta."), "embeddings.word_embeddings.weight")
        words = self._from.tensor("embeddings.word_embeddings.weight", -1, self._features)
        # of two sentences the first: all tokens here are of one
        types = self._from.tensor("embeddings.token_type_embeddings.weight", -1, self._features)
        skipped = int(self._from.setting("pad_token_id", default=1)) + 1 if self._kind != "bert" else 0
        eps = float(self._from.setting("layer_norm_eps"))
        x = self._positions("embeddings.position_embeddings", INPUTS, skipped, types[0])
        x = self._layer_norm("embeddings.LayerNorm", x, eps)
        heads, width = self._heads("num_attention_heads")
        wide, kind = self._from.count("intermediate_size"), self._activation("hidden_act")
        for layer in range(self._from.count("num_hidden_layers")):
            at = f"encoder.layer.{layer}"
            names = tuple(f"{at}.attention.self.{one}" for one in ("query", "key", "value"))
            mixed = self._attention(names, x, SelfAttention(heads, heads, width), f"{at}.attention")  # type: ignore[arg-type]
            mixed = self._linear(f"{at}.attention.output.dense", mixed, self._features, self._features)
            x = self._made.residual(f"{at}.attention.output", x, mixed)
            x = self._layer_norm(f"{at}.attention.output.LayerNorm", x, eps)
            up = self._linear(f"{at}.intermediate.dense", x, wide, self._features)
            up = self._made.activation(f"{at}.intermediate", up, kind)
            down = self._linear(f"{at}.output.dense", up, self._features, wide)
            x = self._layer_norm(f"{at}.output.LayerNorm", self._made.residual(f"{at}.output", x, down), eps)
        return words, x, False

    def _distilbert(self) -> tuple[NDArray[np.float32], int, bool]:
        self._from.choose_prefix(("", "distilbert."), "embeddings.word_embeddings.weight")
        words, eps = self._from.tensor("embeddings.word_embeddings.weight", -1, self._features), 1e-12
        x = self._positions("embeddings.position_embeddings", INPUTS)
        x = self._layer_norm("embeddings.LayerNorm", x, eps)
        heads, width = self._heads("n_heads")
        wide, kind = self._from.count("hidden_dim"), self._activation("activation")
        for layer in range(self._from.count("n_layers")):
            at = f"transformer.layer.{layer}"
            names = f"{at}.attention.q_lin", f"{at}.attention.k_lin", f"{at}.attention.v_lin"
            mixed = self._attention(names, x, SelfAttention(heads, heads, width), f"{at}.attention")
            mixed = self._linear(f"{at}.attention.out_lin", mixed, self._features, self._features)
            x = self._layer_norm(f"{at}.sa_layer_norm", self._made.residual(f"{at}.sum", x, mixed), eps)
            up = self._made.activation(f"{at}.ffn", self._linear(f"{at}.ffn.lin1", x, wide, self._features), kind)
            down = self._linear(f"{at}.ffn.lin2", up, self._features, wide)
            x = self._layer_norm(f"{at}.output_layer_norm", self._made.residual(f"{at}.ffn.sum", x, down), eps)
        return words, x, False

    def _opt(self) -> tuple[NDArray[np.float32], int, bool]:
        if self._from.setting("word_embed_proj_dim", default=self._features) != self._features:
            raise self._from.refused(f"word_embed_proj_dim = {self._from.settings['word_embed_proj_dim']}")
        if not self._from.settings.get("do_layer_norm_before", True) or self._from.settings.get(
            "_remove_final_layer_norm"
        ):
            raise self._from.refused("norms behind the sums (do_layer_norm_before = false)")
        self._from.choose_prefix(("decoder.", "model.decoder."), "embed_tokens.weight")
        words, eps = self._from.tensor("embed_tokens.weight", -1, self._features), 1e-5
        x = self._positions("embed_positions", INPUTS, 2)
        heads, width = self._heads("num_attention_heads")
        wide, kind = self._from.count("ffn_dim"), self._activation("activation_function")
        for layer in range(self._from.count("num_hidden_layers")):
            at = f"layers.{layer}"
            normed = self._layer_norm(f"{at}.self_attn_layer_norm", x, eps)
            names = f"{at}.self_attn.q_proj", f"{at}.self_attn.k_proj", f"{at}.self_attn.v_proj"
            mixed = self._attention(names, normed, SelfAttention(heads, heads, width, True), f"{at}.self_attn")
            mixed = self._linear(f"{at}.self_attn.out_proj", mixed, self._features, self._features)
            x = self._made.residual(f"{at}.sum", x, mixed)
            normed = self._layer_norm(f"{at}.final_layer_norm", x, eps)
            up = self._made.activation(
                f"{at}.activation", self._linear(f"{at}.fc1", normed, wide, self._features), kind
            )
            x = self._made.residual(f"{at}.second sum", x, self._linear(f"{at}.fc2", up, self._features, wide))
        return words, self._layer_norm("final_layer_norm", x, eps), True

    def _llama(self) -> tuple[NDArray[np.float32], int, bool]:
        self._from.choose_prefix(("", "model."), "embed_tokens.weight")
        words, eps = (
            self._from.tensor("embed_tokens.weight", -1, self._features),
            float(self._from.setting("rms_norm_eps")),
        )
        heads = self._from.count("num_attention_heads")
        key_heads = self._from.count("num_key_value_heads", default=heads)
        width = self._from.count("head_dim", default=self._features // heads)
        attention = SelfAttention(heads, key_heads, width, True, self._rotary_base())
        if self._from.settings.get("sliding_window") and self._from.settings.get("use_sliding_window", True):
            raise self._from.refused(f"sliding_window = {self._from.settings['sliding_window']}")
        wide, kind, x = self._from.count("intermediate_size"), self._activation("hidden_act"), INPUTS
        for layer in range(self._from.count("num_hidden_layers")):
            at = f"layers.{layer}"
            normed = self._rms_norm(f"{at}.input_layernorm", x, eps)
            names = f"{at}.self_attn.q_proj", f"{at}.self_attn.k_proj", f"{at}.self_attn.v_proj"
            mixed = self._attention(names, normed, attention, f"{at}.self_attn")
            mixed = self._linear(f"{at}.self_attn.o_proj", mixed, self._features, heads * width)
            x = self._made.residual(f"{at}.sum", x, mixed)
            normed = self._rms_norm(f"{at}.post_attention_layernorm", x, eps)
            gate = self._linear(f"{at}.mlp.gate_proj", normed, wide, self._features)
            up = self._linear(f"{at}.mlp.up_proj", normed, wide, self._features)
            gated = self._made.gate(f"{at}.mlp", self._made.activation(f"{at}.mlp.act_fn", gate, kind), up)
            down = self._linear(f"{at}.mlp.down_proj", gated, self._features, wide)
            x = self._made.residual(f"{at}.second sum", x, down)
        return words, self._rms_norm("norm", x, eps), True

    def _rotary_base(self) -> float:
        """Base of the rotary positions; wavelengths that are scaled are refused."""
        given = self._from.settings.get("rope_parameters") or self._from.settings.get("rope_scaling") or {}
        kind = given.get("rope_type", given.get("type", "default"))
        if kind != "default" or given.get("partial_rotary_factor", 1) != 1:
            raise self._from.refused(f"rotary positions of type {kind!r}, and not the default")
        return float(given.get("rope_theta") or self._from.setting("rope_theta", default=10_000.0))


_FAMILIES: dict[str, Callable[[_Reader], tuple[NDArray[np.float32], int, bool]]] = {
    "bert": _Reader._bert,
    "roberta": _Reader._bert,
    "distilbert": _Reader._distilbert,
    "opt": _Reader._opt,
    "llama": _Reader._llama,
    "mistral": _Reader._llama,
    "qwen2": _Reader._llama,
}
