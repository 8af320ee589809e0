"""A tuned sentence classifier as a whole folder that `transformers` loads."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import UserError
from ...files import read_json, whole_folder
from ...models.checkpoint import save_state
from .integer_tuning import folder_state
from .model_card import HEAD, model_card
from .tuned_sentences import TunedSentences

RECORD = "fabtune.json"
"""File that marks a folder of `write_folder`, with the facts of the run."""
CARD = "README.md"
_TEXTS = (".json", ".txt", ".model", ".jinja", "")
"""Suffixes of the files that are copied: settings, tokenizer, licence. Other weights would be those before tuning."""
_OWN = {"config.json", "model.safetensors.index.json", RECORD}
_MODULE = re.compile(r"\d+_\w+")
"""Name of the folder of a module of sentence-transformers: ``1_Pooling``."""
_PRIVATE = {"layout", "base", "folder", "model", "network", "drift"}
_LM_HEAD = "lm_head.weight"
_MARK = {"format": "pt"}
"""Metadata without which `transformers` reads no safetensors file."""


def refuse_folder(source: Path, target: Path, force: bool) -> None:
    """Refuse a folder for a model, before any work.

    Raises
    ------
    UserError
        If the model is no folder, or the target exists. Forced, only a folder of `write_folder` is replaced.
    """
    if not source.is_dir():
        raise UserError(f"{source} is no folder of transformers, whose settings a folder needs: take --to gguf")
    if target.exists() and not force:
        raise UserError(f"{target} exists: choose another folder, or --force to replace it")
    if target.exists() and not (target / RECORD).is_file():
        raise UserError(f"{target} is no folder that fabtune has written, and is not replaced: choose another")
    if source.resolve() == target.resolve():
        raise UserError(f"{target} is the model's own folder: choose another")


def write_folder(
    tuned: TunedSentences, source: Path, target: Path, facts: Mapping[str, str], force: bool = False
) -> None:
    """Write a whole folder: settings and tokenizer of the source, tuned weights in float32, and a model card.

    A head of prompts is a file of its own, `HEAD`. With label words the tuned rows are part of the language-model head;
    where it was the embeddings, it becomes a tensor of its own.

    Raises
    ------
    UserError
        As by `refuse_folder`, or if a file cannot be read.
    """
    refuse_folder(source, target, force)
    tensors, head = _tensors(tuned, folder_state(source))
    settings = _settings(source, _LM_HEAD in tensors)
    with whole_folder(target) as folder:
        _copy_texts(source, folder)
        save_state(folder / "model.safetensors", tensors, _MARK, force=True)
        if head:
            save_state(folder / HEAD, head, _MARK, force=True)
        public = {"base_model": source.resolve().name, **_public(facts)}
        for name, content in (("config.json", settings), (RECORD, public)):
            (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        (folder / CARD).write_text(model_card(tuned.sentences, source.resolve().name, public), encoding="utf-8")


def _public(facts: Mapping[str, str]) -> dict[str, str]:
    """Facts of a run without the user's folders, and without what is for fabtune alone."""
    public = {name: facts[name] for name in sorted(facts) if name not in _PRIVATE}
    if (data := public.get("data", "")).startswith("csv:"):
        public["data"] = f"csv:{Path(data.removeprefix('csv:')).resolve().name}"
    return public


def _tensors(
    tuned: TunedSentences, state: Mapping[str, Tensor]
) -> tuple[dict[str, NDArray[np.generic]], dict[str, NDArray[np.generic]]]:
    """Tensors of the model by the user's names, and weight and bias of a head of prompts."""
    changed = tuned.tensors(state)
    floats = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    tensors: dict[str, NDArray[np.generic]] = {name: tensor.numpy() for name, tensor in floats.items()}
    tensors |= {name: values for name, values in changed.items() if name in state}
    head = {name: values for name, values in changed.items() if name not in state}
    own: dict[str, NDArray[Any]] = {name.rpartition(".")[2]: values for name, values in head.items()}
    if tuned.sentences.wording is None:
        return tensors, own
    tensors[_LM_HEAD] = with_label_words(tuned, tensors.get(_LM_HEAD), own["weight"])
    return tensors, {}


def with_label_words(
    tuned: TunedSentences, before: NDArray[Any] | None, rows: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Language-model head with the tuned rows of the label words; `before` is None where it is the embeddings."""
    wording = tuned.sentences.wording
    assert wording is not None
    head = np.array(tuned.sentences.words if before is None else before, np.float32)
    head[wording.word_tokens(tuned.sentences.tokenizer)] = rows
    return head


def _settings(source: Path, own_head: bool) -> dict[str, Any]:
    """Settings with the type of the written weights; a head with its own tensor is not the embeddings."""
    settings: dict[str, Any] = read_json(source / "config.json")
    types = [name for name in ("dtype", "torch_dtype") if name in settings] or ["dtype"]
    settings |= dict.fromkeys(types, "float32")
    return settings | ({"tie_word_embeddings": False} if own_head else {})


def _copy_texts(source: Path, target: Path) -> None:
    """Copy settings and tokenizer, and the settings of the modules of sentence-transformers."""
    files = [path for path in source.iterdir() if path.suffix in _TEXTS and path.name not in _OWN]
    modules = [path / "config.json" for path in source.iterdir() if _MODULE.fullmatch(path.name)]
    for path in (*files, *modules):
        if path.is_file() and not path.name.startswith("."):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
