"""Folder of a model as `transformers` saves it: settings, tensors by name, and a record of the used tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....errors import UserError
from ....models.checkpoint import load_state
from .settings import model_settings, read_settings, refuse_other_weights

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


class Checkpoint:
    """Settings and tensors of a folder, with a record of the tensors read.

    Parameters
    ----------
    folder : Path
        With ``config.json`` and ``model.safetensors``, or shards with ``model.safetensors.index.json``.

    Attributes
    ----------
    settings : Settings
        Contents of ``config.json``.
    name : str
        Name of the folder.
    prefix : str
        Prefix of all tensor names.

    Raises
    ------
    UserError
        If a file is missing or damaged, the settings are refused, or the folder has an adapter.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        refuse_adapter(folder)
        path = folder / "config.json"
        values = read_settings(path)
        self.settings = model_settings(path, values)
        refuse_other_weights(self.settings, values)
        self._files: dict[str, Path] = {}
        self._tensors: dict[str, Tensor] = {}
        self._load()
        self._used: set[str] = set()
        self._kinds: set[str] = set()
        self.prefix = ""

    def _load(self) -> None:
        whole, index = self.folder / "model.safetensors", self.folder / "model.safetensors.index.json"
        if whole.is_file():
            names = [whole.name]
        elif index.is_file():
            listed = read_settings(index).get("weight_map")
            if not isinstance(listed, dict):
                raise UserError(f"{index} has no weight_map")
            names = sorted({str(file) for file in listed.values()})
        else:
            raise UserError(f"{self.folder} has no model.safetensors: save the model with safe_serialization=True")
        for name in names:
            path = self.folder / name
            if path.parent != self.folder or not path.is_file():
                raise UserError(f"{index} names {name}, which is not in the folder")
            loaded = load_state(path)
            self._tensors |= loaded
            self._files |= dict.fromkeys(loaded, path)

    def choose_prefix(self, prefixes: Iterable[str], name: str) -> None:
        """Choose the prefix of all names by the presence of the tensor `name`.

        Raises
        ------
        UserError
            If no prefix fits.
        """
        for prefix in prefixes:
            if prefix + name in self._files:
                self.prefix = prefix
                return
        raise UserError(f"{self.folder} has no tensor {name}")

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self._files

    def has_bias(self, layer: str, by_settings: bool) -> bool:
        """True if a linear layer has a bias; folders follow the settings."""
        return by_settings

    def full(self, name: str) -> str:
        """Name of a tensor in the file."""
        return self.prefix + name

    def tensor(self, name: str, *shape: int) -> NDArray[np.float32]:
        """Tensor as float32, without loss from float16 and bfloat16; `name` is without the prefix.

        Raises
        ------
        UserError
            If the tensor is missing, of another shape or type, or has NaN or infinity.
        """
        full = self.full(name)
        if full not in self._files:
            raise UserError(f"{self.folder} has no tensor {full}")
        values, kind = self._values(full)
        if values.shape != shape:
            raise UserError(f"{self._files[full]}: tensor {full} is of {values.shape}, not of {shape}")
        if not np.isfinite(values).all():
            raise UserError(f"{self._files[full]}: tensor {full} has NaN or infinity")
        self._used.add(full)
        self._kinds.add(kind)
        return values

    def _values(self, full: str) -> tuple[NDArray[np.float32], str]:
        """Tensor as float32, and the type in the file."""
        read = self._tensors[full]
        kind = str(read.dtype).removeprefix("torch.")
        if kind not in _TYPES:
            raise UserError(f"{self._files[full]}: tensor {full} is of {kind}, not of {', '.join(_TYPES)}")
        return read.float().numpy(), kind

    @property
    def converted(self) -> tuple[str, ...]:
        """Types of the tensors other than float32."""
        return tuple(sorted(self._kinds - {"float32"}))

    def rest(self, known: re.Pattern[str]) -> tuple[str, ...]:
        """Names of unread tensors, all with a known pattern.

        Raises
        ------
        UserError
            If a name has another pattern: the computation would lack the tensor.
        """
        unread = sorted(set(self._files) - self._used)
        for name in unread:
            if not known.fullmatch(name):
                raise UserError(
                    f"{self._files[name]}: tensor {name} has no place in a {self.settings['model_type']} model "
                    "with these settings"
                )
        return tuple(unread)


def refuse_adapter(folder: Path) -> None:
    """Refuse a folder with an adapter of the library peft: `transformers` may add or ignore the adapter.

    Raises
    ------
    UserError
        If the folder has an adapter.
    """
    if (adapter := folder / "adapter_config.json").is_file():
        raise UserError(
            f"{adapter} makes this a model with an adapter, which is not read: "
            "merge it (merge_and_unload of peft), and save the model to another folder"
        )
