"""The file `spec.json` of an emitted block or a package, read back into a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .block import Spec
from .cores.core import CoreSpec
from .errors import UserError
from .files import read_json
from .registry import BLOCKS
from .settings import restored

SPEC_FILE = "spec.json"
"""File in the folder of `fabtune emit` or `fabtune package`."""


def load_spec(path: Path | str) -> Spec:
    """Spec of a block from `spec.json`, equal to the emitted spec; `path` is the file or its folder.

    Raises `UserError` if the file is missing, or has no block, parameters or signature of this version of fabtune.
    """
    file = _file(path)
    settings = _read(file)
    name, parameters = settings.get("block"), settings.get("parameters")
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise UserError(f"{file} has no block with parameters: give a {SPEC_FILE} that fabtune wrote")
    if name not in BLOCKS:
        raise UserError(f"{file}: there is no block {name!r}; `fabtune list` shows all")
    try:
        spec = restored(BLOCKS[name], parameters)
    except UserError as refusal:
        raise UserError(f"{file}: {refusal}") from refusal
    if "signature" in settings and isinstance(spec, CoreSpec) and settings["signature"] != signature_text(spec):
        raise UserError(
            f"{file}: its signature is {settings['signature']}, these parameters have {signature_text(spec)}: "
            "another version of fabtune wrote it, package the core anew"
        )
    return spec


def top_module(path: Path | str) -> str:
    """Name of a package's top module, by default the block's.

    Raises `UserError` like `load_spec`.
    """
    settings = _read(_file(path))
    return str(settings.get("name", settings.get("block")))


def load_core(path: Path | str) -> CoreSpec:
    """Spec of a core, see `load_spec`.

    Raises `UserError` like `load_spec`, and for a block that is no core.
    """
    spec = load_spec(path)
    if not isinstance(spec, CoreSpec):
        raise UserError(f"{path}: {spec.name} is a block without registers, and no core")
    return spec


def signature_text(spec: CoreSpec) -> str:
    return f"0x{spec.signature:08X}"


def _file(path: Path | str) -> Path:
    return Path(path, SPEC_FILE) if Path(path).is_dir() else Path(path)


def _read(file: Path) -> dict[str, Any]:
    settings = read_json(file)
    if not isinstance(settings, dict):
        raise UserError(f"{file} has no block with parameters: give a {SPEC_FILE} that fabtune wrote")
    return settings
