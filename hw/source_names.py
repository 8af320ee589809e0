"""Names of signals from the source, where Amaranth finds none.

It reads a name from the instruction behind a call, which stores the result. There is none where several variables are
assigned at once, ``write, read = Signal(), Signal()``, in a list, or for an argument: these are found by the place of
the call in the source.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from amaranth import tracer

_Place = tuple[int | None, int | None, int | None, int | None]


@contextlib.contextmanager
def names_from_source() -> Iterator[None]:
    """Let Amaranth name what is assigned in other ways than to one variable, too, as long as this lasts."""
    original = tracer.get_var_name

    def get_var_name(depth: int = 2, default: Any = tracer._raise_exception) -> Any:
        try:
            return original(depth + 1)
        except tracer.NameNotFound:
            if found := _name_at(sys._getframe(depth)):
                return found
            if default is tracer._raise_exception:
                raise
            return default

    tracer.get_var_name = get_var_name
    try:
        yield
    finally:
        tracer.get_var_name = original


def _name_at(frame: FrameType) -> str | None:
    """Name what the call that a frame is at is assigned to."""
    instruction = frame.f_lasti // 2  # of two bytes each
    first, last, column, end = next(itertools.islice(frame.f_code.co_positions(), instruction, None))
    return _names_of(frame.f_code.co_filename).get((first, column, last, end))


@cache
def _names_of(file: str) -> dict[_Place, str]:
    """Names of the calls of a file that are assigned to something, by first and last place of the call."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # typed in, or made by a program
        return {}
    found: dict[_Place, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            _assigned(node.targets[0], node.value, found)
        elif isinstance(node, ast.AnnAssign) and node.value:
            _assigned(node.target, node.value, found)
        elif isinstance(node, ast.keyword) and node.arg:
            _add(node.arg, node.value, found)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                    _add(key.value, value, found)
    for node in ast.walk(tree):
        # a port that is an argument: of the memory that it is of
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(method, ast.Attribute) and method.attr.endswith("_port"):
            memory = method.value
            if isinstance(memory, ast.Name | ast.Attribute):
                found.setdefault(_place(node), f"{_last(memory)}_{method.attr}")
    return found


def _assigned(target: ast.expr, value: ast.expr, found: dict[_Place, str]) -> None:
    if isinstance(target, ast.Tuple):
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            for each, its in zip(target.elts, value.elts, strict=True):
                _assigned(each, its, found)
    elif isinstance(target, ast.Name | ast.Attribute):
        _add(_last(target), value, found)


def _add(name: str, value: ast.expr, found: dict[_Place, str]) -> None:
    """Give a name to a call, to those of a list or tuple, and to what a comprehension makes."""
    if isinstance(value, ast.Call):
        found[_place(value)] = name
    elif isinstance(value, ast.List | ast.Tuple):
        for each in value.elts:
            _add(name, each, found)
    elif isinstance(value, ast.ListComp | ast.GeneratorExp):
        _add(name, value.elt, found)
    elif isinstance(value, ast.IfExp):
        _add(name, value.body, found)
        _add(name, value.orelse, found)
    elif isinstance(value, ast.Starred):
        _add(name, value.value, found)


def _last(target: ast.Name | ast.Attribute) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr


def _place(call: ast.Call) -> _Place:
    return call.lineno, call.col_offset, call.end_lineno, call.end_col_offset
