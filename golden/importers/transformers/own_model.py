"""A user's own transformer, by what names it: ``file.py:build``, a program's file, or an ONNX file."""

from __future__ import annotations

from pathlib import Path

from torch.export import ExportedProgram

from ...errors import UserError
from ...models.checkpoint import load_into
from ...models.layers import Shape
from ..layers.batch_size import check_batch_size
from ..layers.exported import exported
from ..layers.exported_graph import title_of
from ..layers.onnx_file import is_onnx
from ..layers.program import is_program, sample_shape
from ..layers.user_model import user_module
from .exported import walked
from .onnx_model import onnx_transformer
from .row_graph import FoundTransformer

_SIGNS = frozenset(("layer_norm", "rms_norm", "scaled_dot_product_attention", "bmm"))
"""Operators that only a transformer has here; it has one convolution at most, of its patches."""


def own_transformer(reference: str, shape: Shape | None, weights: Path | None = None) -> FoundTransformer | None:
    """Import a user's own transformer.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``, the file is executed; ``path/to/file.pt2``; or ``path/to/file.onnx``.
    shape : tuple of int, optional
        Of a sample of a module; without it nothing is imported.
    weights : Path, optional
        State dict for a module, by default its own weights.

    Returns
    -------
    FoundTransformer or None
        None if the model has convolutions or batch norms of a network of layers, or nothing of a transformer.

    Raises
    ------
    UserError
        If a file is wrong, or the model has something that no transformer here has.
    """
    if is_onnx(reference):
        if weights:
            raise UserError(f"--weights has no meaning with the transformer {reference}, which holds its own")
        return onnx_transformer(Path(reference))
    if not is_program(reference) and (":" not in reference or shape is None):
        return None
    module = user_module(reference)
    if isinstance(module, ExportedProgram):
        if weights:
            raise UserError(f"--weights has no meaning with the program {reference}, which holds its own")
        shape = sample_shape(module, reference)
    elif weights:
        load_into(module, weights)
    assert shape is not None, "said by the program or the user"
    program = exported(module, shape, reference)
    operators = [title_of(node).split(".")[1] for node in program.graph.nodes if "." in title_of(node)]
    layers = sum(one.startswith("conv") for one in operators) > 1 or any("batch_norm" in one for one in operators)
    if layers or _SIGNS.isdisjoint(operators):
        return None
    found = walked(program, shape, reference)
    if not isinstance(module, ExportedProgram):
        check_batch_size(module, shape, reference)
    return found
