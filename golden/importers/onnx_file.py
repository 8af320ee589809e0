"""Import of an ONNX file: of a stranger's file nothing is executed, and nothing is read beyond its own folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from .graph import first_line

if TYPE_CHECKING:
    import onnx

LARGEST_FILE = 1 << 29
"""Bytes of a file, and of its tensors outside, that are read: four times the parameters that any board holds."""
OPSETS = range(7, 29)
"""Versions of the operators that are read: from 7 on shapes broadcast as they do today; 28 is that of ONNX 1.23."""
STANDARD = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""
MOST_NODES = 10_000
"""Nodes of a file: a hundred times those of a large network here."""


def is_onnx(reference: str) -> bool:
    """Tell whether a reference to a model is the name of an ONNX file."""
    return reference.endswith(".onnx")


def onnx_model(path: Path) -> tuple[onnx.ModelProto, int]:
    """Read a file, and the version of its operators.

    Parameters
    ----------
    path : Path
        ONNX, with operators of `OPSETS`. Tensors may stand in other files of its folder.

    Raises
    ------
    UserError
        If the package onnx is not there, or the file is too large, damaged, or of another version.
    """
    if find_spec("onnx") is None:
        raise UserError(f"{path} needs the package onnx: pip install 'fabtune[onnx]'")
    model = _loaded(path)
    return model, _opset(model, path)


def _loaded(path: Path) -> onnx.ModelProto:
    """Read a file and check it as the standard says."""
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
    """Version of the standard's operators."""
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
    """Read tensors that stand in other files: only such in the folder of the model, and no more than the limit."""
    from onnx import external_data_helper as external

    for node in model.graph.node:
        if any(external.uses_external_data(one.t) for one in node.attribute):
            raise UserError(f"{path}: node {node.name!r} has a tensor in another file: only initializers may")
    folder, total = path.resolve().parent, 0
    for tensor in model.graph.initializer:
        if not external.uses_external_data(tensor):
            continue
        given = {entry.key: entry.value for entry in tensor.external_data}
        place = (folder / given.get("location", "")).resolve()
        if not place.is_relative_to(folder) or not place.is_file():
            where = given.get("location", "")
            raise UserError(f"{path}: tensor {tensor.name} is in {where!r}, which is no file of the model's folder")
        offset, size = (int(given.get(key, "0") or 0) for key in ("offset", "length"))
        size = size or place.stat().st_size - offset
        total += size
        if total > LARGEST_FILE:
            raise UserError(f"{path}: its tensors outside have more than the limit of {LARGEST_FILE} bytes")
        if min(offset, size) < 0 or offset + size > place.stat().st_size:
            raise UserError(f"{path}: tensor {tensor.name} is beyond the end of {given['location']}")
        with place.open("rb") as file:
            file.seek(offset)
            tensor.raw_data = file.read(size)
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]
