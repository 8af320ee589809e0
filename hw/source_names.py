"""Names of signals from the Python source, for signals that Amaranth cannot name.

Amaranth reads a name from the bytecode instruction that stores a call's result. Tuple assignments, such as
``write, read = Signal(), Signal()``, lists and arguments lack this instruction. Their names are found by the call's
position in the source.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from amaranth import tracer

_Place = tuple[int | None, int | None, int | None, int | None]


@contextlib.contextmanager
def replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace a function of Amaranth, or of one of its classes, within a context."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


def names_from_source() -> AbstractContextManager[None]:
    """Within a context, let Amaranth also name signals that are not assigned to a single variable."""
    original = tracer.get_var_name

    def get_var_name(depth: int = 2, default: Any = tracer._raise_exception) -> Any:
        try:
            return original(depth + 1)
        except tracer.NameNotFound:
            if name := _name_at(sys._getframe(depth)):
                return name
            if default is tracer._raise_exception:
                raise
            return default

    return replaced(tracer, "get_var_name", get_var_name)


def _name_at(frame: FrameType) -> str | None:
    """Name of the variable to which the current call of a frame is assigned."""
    instruction = frame.f_lasti // 2  # instructions have two bytes
    first, last, column, end = next(itertools.islice(frame.f_code.co_positions(), instruction, None))
    return _names_of(frame.f_code.co_filename).get((first, column, last, end))


@cache
def _names_of(file: str) -> dict[_Place, str]:
    """For each call in a file, by source position, the name of the variable to which it is assigned."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # interactive or generated code
        return {}
    names: dict[_Place, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            _assigned(node.targets[0], node.value, names)
        elif isinstance(node, ast.AnnAssign) and node.value:
            _assigned(node.target, node.value, names)
        elif isinstance(node, ast.keyword) and node.arg:
            _add(node.arg, node.value, names)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                    _add(key.value, value, names)
    for node in ast.walk(tree):
        # a memory port that is passed as an argument is named like its memory
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(method, ast.Attribute) and method.attr.endswith("_port"):
            memory = method.value
            if isinstance(memory, ast.Name | ast.Attribute):
                names.setdefault(_place(node), f"{_last(memory)}_{method.attr}")
    return names


def _assigned(target: ast.expr, value: ast.expr, names: dict[_Place, str]) -> None:
    if isinstance(target, ast.Tuple):
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            for each, element in zip(target.elts, value.elts, strict=True):
                _assigned(each, element, names)
    elif isinstance(target, ast.Name | ast.Attribute):
        _add(_last(target), value, names)


def _add(name: str, value: ast.expr, names: dict[_Place, str]) -> None:
    """Set the name of a call, of the calls in a list or tuple, and of a comprehension's results."""
    if isinstance(value, ast.Call):
        names[_place(value)] = name
    elif isinstance(value, ast.List | ast.Tuple):
        for each in value.elts:
            _add(name, each, names)
    elif isinstance(value, ast.ListComp | ast.GeneratorExp):
        _add(name, value.elt, names)
    elif isinstance(value, ast.IfExp):
        _add(name, value.body, names)
        _add(name, value.orelse, names)
    elif isinstance(value, ast.Starred):
        _add(name, value.value, names)


def _last(target: ast.Name | ast.Attribute) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr


def _place(call: ast.Call) -> _Place:
    return call.lineno, call.col_offset, call.end_lineno, call.end_col_offset
