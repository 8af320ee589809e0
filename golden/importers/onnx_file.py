"""Reader of ONNX files, safe for a stranger's file: no code runs, and nothing outside the file's folder is read."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from .graph import first_line

if TYPE_CHECKING:
    import onnx

LARGEST_FILE = 1 << 29
"""Limit in bytes of a file, and of its external tensors: four times the parameters of the largest board."""
OPSETS = range(7, 29)
"""Supported versions of the operators: from 7 on shapes broadcast as today; ONNX 1.23 has 28."""
STANDARD = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""
MOST_NODES = 10_000
"""Limit of nodes of a file: a hundred times a large network here."""


def is_onnx(reference: str) -> bool:
    """True for the name of an ONNX file."""
    return reference.endswith(".onnx")


def onnx_model(path: Path) -> tuple[onnx.ModelProto, int]:
    """Model and opset of an ONNX file with operators of `OPSETS`; external tensors may be in other files of the folder.

    Raises
    ------
    UserError
        If the package onnx is missing, or the file is too large, damaged, or of another version.
    """
    if find_spec("onnx") is None:
        raise UserError(f"{path} needs the package onnx: pip install 'fabtune[onnx]'")
    model = _loaded(path)
    return model, _opset(model, path)


def _loaded(path: Path) -> onnx.ModelProto:
    import onnx

    if not path.is_file():
        raise UserError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise UserError(f"{path} has {size} bytes, more than the limit of {LARGEST_FILE}")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except Exception as error:  # protobuf's exceptions have no common class of their own
        raise UserError(f"{path} is not an ONNX file, or is damaged: {first_line(error)}") from error
    if not model.graph.node:
        raise UserError(f"{path} has no node: it is not an ONNX file, or empty")
    if len(model.graph.node) > MOST_NODES:
        raise UserError(f"{path} has {len(model.graph.node)} nodes, more than the limit of {MOST_NODES}")
    if any(function.domain in STANDARD for function in model.functions):
        raise UserError(f"{path} has a function of its own in the domain of ONNX: the names of operators are taken")
    _read_outside(model, path)
    return model


def _opset(model: onnx.ModelProto, path: Path) -> int:
    versions = {opset.version for opset in model.opset_import if opset.domain in STANDARD}
    if len(versions) != 1:
        raise UserError(f"{path} has {len(versions)} opsets of ONNX's own operators: a file has one")
    (version,) = versions
    if version not in OPSETS:
        raise UserError(
            f"{path} has opset {version}; {OPSETS[0]} to {OPSETS[-1]} are read: convert it with onnx.version_converter"
        )
    return int(version)


def _read_outside(model: onnx.ModelProto, path: Path) -> None:
    """Read external tensors, only from the model's folder and up to the limit."""
    from onnx import external_data_helper as external

    for node in model.graph.node:
        if any(external.uses_external_data(attribute.t) for attribute in node.attribute):
            raise UserError(f"{path}: node {node.name!r} has a tensor in another file: only initializers may")
    folder, total = path.resolve().parent, 0
    for tensor in model.graph.initializer:
        if not external.uses_external_data(tensor):
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file_path = (folder / entries.get("location", "")).resolve()
        if not file_path.is_relative_to(folder) or not file_path.is_file():
            where = entries.get("location", "")
            raise UserError(f"{path}: tensor {tensor.name} is in {where!r}, which is no file of the model's folder")
        offset, size = (int(entries.get(key, "0") or 0) for key in ("offset", "length"))
        size = size or file_path.stat().st_size - offset
        total += size
        if total > LARGEST_FILE:
            raise UserError(f"{path}: its tensors outside have more than the limit of {LARGEST_FILE} bytes")
        if min(offset, size) < 0 or offset + size > file_path.stat().st_size:
            raise UserError(f"{path}: tensor {tensor.name} is beyond the end of {entries['location']}")
        with file_path.open("rb") as file:
            file.seek(offset)
            tensor.raw_data = file.read(size)
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]
