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
"""Name of the file in the folder of `fabtune emit` or `fabtune package`."""


def load_spec(path: Path | str) -> Spec:
    """Read a block and its parameters from the file `spec.json`.

    Parameters
    ----------
    path : Path or str
        The file, or the folder that it is in.

    Returns
    -------
    Spec
        Equal to the one that the folder was written for.

    Raises
    ------
    UserError
        If there is no such file, or it is of no block, parameters or signature that this version of fabtune has.
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
    """Read the name of the top module of a package, by default the block's.

    Raises
    ------
    UserError
        As `load_spec`.
    """
    settings = _read(_file(path))
    return str(settings.get("name", settings.get("block")))


def load_core(path: Path | str) -> CoreSpec:
    """Read a core's spec, as `load_spec` does.

    Raises
    ------
    UserError
        As `load_spec`, and for a block that is no core.
    """
    spec = load_spec(path)
    if not isinstance(spec, CoreSpec):
        raise UserError(f"{path}: {spec.name} is a block without registers, and no core")
    return spec


def signature_text(spec: CoreSpec) -> str:
    """Write a core's signature as the file has it."""
    return f"0x{spec.signature:08X}"


def _file(path: Path | str) -> Path:
    return Path(path, SPEC_FILE) if Path(path).is_dir() else Path(path)


def _read(file: Path) -> dict[str, Any]:
    found = read_json(file)
    if not isinstance(found, dict):
        raise UserError(f"{file} has no block with parameters: give a {SPEC_FILE} that fabtune wrote")
    return found
