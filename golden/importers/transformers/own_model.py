"""Import of a user's own transformer from ``file.py:build``, an exported program (``.pt2``) or an ONNX file."""

from __future__ import annotations

from pathlib import Path

from torch import nn
from torch.export import ExportedProgram

from ...errors import UserError
from ...models.checkpoint import load_into
from ...models.layers import Shape
from ..batch_size import check_batch_size
from ..exported import exported, sample_shape
from ..exported_graph import title_of
from ..onnx_file import is_onnx, onnx_model
from ..user_module import is_program, user_module
from .exported_operations import ExportedOperations
from .onnx_operations import transformer_of_file
from .row_graph import FoundTransformer

_SIGNS = frozenset(("layer_norm", "rms_norm", "scaled_dot_product_attention", "bmm"))
"""ATen operators that only transformers have. A transformer has at most one convolution, for its patches."""
_NODES = frozenset(("Attention", "LayerNormalization", "RMSNormalization", "Gelu", "Erf"))
"""ONNX node types that only transformers have."""


def own_transformer(reference: str, shape: Shape | None, weights: Path | None = None) -> FoundTransformer | None:
    """Transformer of a user's file; None if the file is a network of layers, such as convolutions or batch norms.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``, to be executed; ``path/to/file.pt2``; or ``path/to/file.onnx``.
    shape : tuple of int, optional
        Shape of a module's sample; required for the import of a module.
    weights : Path, optional
        State dict for a module, by default the module's weights.

    Raises
    ------
    UserError
        If a file is wrong, or the model has an unsupported operation.
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
    layers = sum(operator.startswith("conv") for operator in operators) > 1 or any(
        "batch_norm" in operator for operator in operators
    )
    if layers or _SIGNS.isdisjoint(operators):
        return None
    return _found(module, program, shape, reference)


def transformer_of(module: nn.Module, input_shape: Shape, name: str) -> FoundTransformer:
    """Transformer of a user's module.

    Parameters
    ----------
    module : nn.Module
        Takes a batch of samples; not modified.
    input_shape : tuple of int
        Shape of a sample: an image, or rows of (tokens, features).
    name : str
        Origin of the module for messages: ``model.py:build``.

    Raises
    ------
    UserError
        If the module cannot be exported, or an operator has no normal form; the error names the operator's line.
    """
    return _found(module, exported(module, input_shape, name), input_shape, name)


def _found(module: nn.Module | ExportedProgram, program: ExportedProgram, shape: Shape, name: str) -> FoundTransformer:
    transformer = ExportedOperations(program, shape, name).run()
    if not isinstance(module, ExportedProgram):
        check_batch_size(module, shape, name)
    return transformer


def onnx_transformer(path: Path) -> FoundTransformer | None:
    """Transformer of an ONNX file; None if the file is a network of layers, such as convolutions or batch norms.

    Raises
    ------
    UserError
        If the file is damaged, or a node has no normal form.
    """
    model, opset = onnx_model(path)
    kinds = [node.op_type for node in model.graph.node]
    outputs = {output.name for output in model.graph.output}
    inner = any(node.op_type == "Softmax" and node.output[0] not in outputs for node in model.graph.node)
    if kinds.count("Conv") > 1 or "BatchNormalization" in kinds or not (inner or not _NODES.isdisjoint(kinds)):
        return None
    return transformer_of_file(model, str(path), opset)
