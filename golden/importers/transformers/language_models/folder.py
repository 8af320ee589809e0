"""Models of `transformers` from their folder, with the pooling of sentence-transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import UserError
from ....files import read_json
from ....transformer.blocks import PoolKind
from .checkpoint import Checkpoint
from .families import read_checkpoint
from .language_model import LanguageModel
from .settings import JsonField, JsonSettings, read_settings, shown

_KINDS: dict[str, PoolKind] = {"cls": "first", "mean": "mean", "mean_sqrt_len_tokens": "mean", "lasttoken": "last"}
"""Supported modes. A mean and a sum divided by a root differ only in length, and rows are normalised to length 1."""
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Flags of old files, and the corresponding modes of new files."""
_MODULES = ("Transformer", "Pooling", "Normalize")


def read_folder(folder: Path) -> LanguageModel:
    """Language model of a folder.

    Raises
    ------
    UserError
        If the model is of an unknown kind, or a part has no normal form.
    """
    return replace(read_checkpoint(Checkpoint(folder)), pooling=pooling_of(folder))


def pooling_of(folder: Path) -> PoolKind:
    """Pooling of a folder; the mean by default.

    Raises
    ------
    UserError
        If the pooling is not the mean, the first or the last token, or another module follows.
    """
    modules = folder / "modules.json"
    folders = [folder / "1_Pooling"]
    if modules.is_file():
        folders = [folder / path for kind, path in _modules(modules) if kind == "Pooling"]
    elif not folders[0].is_dir():
        return "mean"
    if len(folders) != 1:
        raise UserError(f"{modules} has {len(folders)} modules of the type Pooling: one is read")
    config = folders[0] / "config.json"
    modes = _modes(config, read_settings(config))
    if len(modes) != 1 or modes[0] not in _KINDS:
        raise UserError(
            f"{config} has the pooling {' and '.join(modes)}; computed are {', '.join(_KINDS)}, one of them"
        )
    return _KINDS[modes[0]]


def _modules(path: Path) -> list[tuple[str, str]]:
    """Types and folders of the modules; unknown types are refused."""
    listed: Any = read_json(path)
    if not isinstance(listed, list) or not all(isinstance(module, dict) for module in listed):
        raise UserError(f"{path} is no list of modules: save the model with sentence-transformers")
    fields = {"type": JsonField("text", ""), "path": JsonField("text", "")}
    modules = [JsonSettings(path, module, fields) for module in listed]
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    for kind in kinds:
        if kind not in _MODULES:
            raise UserError(f"{path} has a module of the type {kind!r}; computed are {', '.join(_MODULES)}")
    return [(kind, module["path"]) for kind, module in zip(kinds, modules, strict=True)]


def _modes(place: Path, values: dict[str, Any]) -> list[str]:
    """Modes of pooling; their rows are concatenated."""
    flags = JsonSettings(place, values, {name: JsonField("flag", False) for name in _FLAGS})
    if "pooling_mode" not in values:
        return [mode for name, mode in _FLAGS.items() if flags[name]] or ["mean"]
    mode = values["pooling_mode"]
    modes = [mode] if isinstance(mode, str) else mode
    if not isinstance(modes, list) or not all(isinstance(part, str) for part in modes):
        raise UserError(f"{place} has pooling_mode = {shown(mode)}, which is neither a text nor a list of texts")
    return modes
