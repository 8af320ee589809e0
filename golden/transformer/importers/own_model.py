"""A user's own transformer, by what names it: ``file.py:build``, or an ONNX file."""

from __future__ import annotations

from pathlib import Path

from ...errors import UserError
from ...models.checkpoint import load_into
from ...models.importers.exported import exported
from ...models.importers.exported_graph import title_of
from ...models.importers.onnx_file import is_onnx
from ...models.importers.user_model import user_module
from ...models.layers import Shape
from .exported import walked
from .row_graph import FoundTransformer

_SIGNS = frozenset(("layer_norm", "rms_norm", "scaled_dot_product_attention", "gelu", "silu", "bmm", "rsqrt", "erf"))
"""Operators that only a transformer has here."""


def own_transformer(reference: str, shape: Shape | None, weights: Path | None = None) -> FoundTransformer | None:
    """Import a user's own transformer.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``; the file is executed.
    shape : tuple of int, optional
        Of a sample.
    weights : Path, optional
        State dict, by default the module's own weights.

    Returns
    -------
    FoundTransformer or None
        None if nothing in the model is a transformer's alone.

    Raises
    ------
    UserError
        If a file is wrong, or the model has something that no transformer here has.
    """
    if is_onnx(reference) or ":" not in reference:
        return None
    if shape is None:
        raise UserError(f"{reference} does not say which samples it takes: give --input, such as 3x32x32 or 64x384")
    module = user_module(reference)
    if weights:
        load_into(module, weights)
    program = exported(module, shape, reference)
    operators = {title_of(node).split(".")[1] for node in program.graph.nodes if "." in title_of(node)}
    return walked(program, shape, reference) if operators.intersection(_SIGNS) else None
