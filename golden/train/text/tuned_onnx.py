"""A tuned sentence classifier as an ONNX file: tokens and their mask to logits."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UserError
from ...files import whole
from .classifier import TextClassifier, loaded
from .tuned_folder import write_folder
from .tuned_sentences import TunedSentences

SUFFIX = ".onnx"
LARGEST = 2**31 - 2**20
"""Most bytes of tensors: an ONNX file of protocol buffers ends below 2 GiB."""
_INPUTS = ["input_ids", "attention_mask"]


def refuse_onnx(source: Path, target: Path) -> None:
    """Refuse an ONNX file for a model, before any work.

    Raises
    ------
    UserError
        If the model is no folder, the name has another suffix, or a package is missing.
    """
    if not source.is_dir():
        raise UserError(f"{source} is no folder of transformers, from which the graph is made: take --to gguf")
    if target.suffix != SUFFIX:
        raise UserError(f"{target}: a file of --to onnx ends in {SUFFIX}")
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        raise UserError("--to onnx of a language model needs two packages: pip install onnx onnxscript")


def write_onnx(tuned: TunedSentences, source: Path, target: Path) -> None:
    """Write a file from the model of the library, with inputs `input_ids` and `attention_mask`, (n, tokens).

    Its output `logits` is (n, classes). An older file is replaced.

    Raises
    ------
    UserError
        As by `refuse_onnx`, or if the tensors are too many for a file.
    """
    refuse_onnx(source, target)
    size = 4 * (tuned.sentences.words.size + sum(values.size for values in tuned.integers.values()))
    if size > LARGEST:
        raise UserError(
            f"the tensors have {size:,} bytes, and an ONNX file has fewer than 2 GiB: take --to transformers"
        )
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad(), whole(target) as unfinished, _quiet():
        folder = Path(scratch, "model")
        write_folder(tuned, source, folder, {})
        tokens = torch.zeros(2, 5, dtype=torch.int64)
        shape = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
        program: Any = torch.onnx.export(
            _Classifier(tuned, folder),
            (tokens, torch.ones_like(tokens)),
            dynamo=True,
            input_names=_INPUTS,
            output_names=["logits"],
            dynamic_shapes=(shape, shape),
            verbose=False,
        )
        program.save(unfinished)


class _Classifier(nn.Module):
    """Logits from tokens and their mask, by the library's model of a folder."""

    def __init__(self, tuned: TunedSentences, folder: Path) -> None:
        super().__init__()
        sentences = tuned.sentences
        self._words: list[int] | None = None
        if sentences.wording is not None:
            self._words = sentences.wording.word_tokens(sentences.tokenizer)
            self.model = loaded(folder, "model", "AutoModelForCausalLM", dtype=torch.float32).eval()
            return
        self.model = TextClassifier(folder, sentences.prompts)
        head = len(sentences.network.operations) - 1
        self.model.head.weight.copy_(torch.from_numpy(tuned.floats[head, "weight"]))
        self.model.head.bias.copy_(torch.from_numpy(tuned.floats[head, "bias"]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits, (n, classes)."""
        tokens = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._words is None:
            logits: Tensor = self.model(tokens)
            return logits
        outputs: Tensor = self.model(**tokens, use_cache=False).logits
        last = (torch.arange(input_ids.shape[1]) * attention_mask).argmax(1)
        return outputs[torch.arange(input_ids.shape[0]), last][:, self._words]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings about PyTorch's own code."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
