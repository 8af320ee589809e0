"""Programs of `torch.export` that a user gives instead of a module: a file, or what a function returns."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from ...errors import UserError
from ...models.layers import Shape

SUFFIX = ".pt2"
"""Suffix of a program's file."""


def is_program(reference: str) -> bool:
    """Tell whether a reference to a model is the name of a program's file."""
    return reference.endswith(SUFFIX)


def load_program(path: Path) -> ExportedProgram:
    """Load a program with PyTorch's own reader, which may run code of the file: it is trusted as a Python file is.

    Raises
    ------
    UserError
        If the file is absent or damaged.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about PyTorch's own code
            return torch.export.load(path)
    except Exception as error:  # the reader raises arbitrary exceptions on damaged files
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        raise UserError(f"{path} is not a program of torch.export, or is damaged: {reason}") from error


def sample_shape(program: ExportedProgram, name: str) -> Shape:
    """Shape of one sample as the program takes it.

    Raises
    ------
    UserError
        If the program has not one input of floats, whose first size alone may be open, and one output.
    """
    given = [one for one in program.graph_signature.input_specs if one.kind is InputKind.USER_INPUT]
    outputs = [one for one in program.graph_signature.output_specs if one.kind is OutputKind.USER_OUTPUT]
    for several, what in ((given, "takes {} inputs"), (outputs, "gives {} outputs")):
        if len(several) != 1:
            raise UserError(f"{name} {what.format(len(several))}: a network here has one")
    sample = _sample(program)
    if not isinstance(sample, Tensor) or sample.dtype not in (torch.float32, torch.float64):
        kind = str(sample.dtype)[6:] if isinstance(sample, Tensor) else type(sample).__name__
        raise UserError(f"{name} takes samples of {kind}, not of float32")
    sizes = tuple(sample.shape)[1:]
    if not sizes or not all(isinstance(size, int) for size in sizes):
        shown = " x ".join(str(size) if isinstance(size, int) else "?" for size in sizes)
        raise UserError(f"{name} takes samples of {shown or 'no'} shape: export it with fixed sizes, but for the batch")
    return sizes


def functional(program: ExportedProgram, name: str) -> ExportedProgram:
    """Program of operators that all give a new tensor, for a fixed number of samples: its own, or 2 where it takes any.

    Raises
    ------
    UserError
        If it does not take 2, or was exported in training mode.
    """
    sample = _sample(program)
    if not isinstance(sample.shape[0], int):
        try:
            again = torch.zeros(2, *sample.shape[1:], dtype=sample.dtype)
            program = torch.export.export(program.module(), (again,), strict=False)
        except Exception as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
            raise UserError(f"{name} takes no batch of 2 samples: {reason}") from error
    program = program.run_decompositions({})
    for one in program.graph_signature.output_specs:
        if one.kind is OutputKind.BUFFER_MUTATION:
            raise UserError(f"{name} changes {one.target} when it runs: export it in evaluation mode, after eval()")
    return program


def _sample(program: ExportedProgram) -> Tensor:
    names = program.graph_signature.user_inputs
    (sample,) = (node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names)
    found: Tensor = sample
    return found
