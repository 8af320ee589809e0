"""Settings of a model, each of its declared type: one reader for all fields of a JSON object."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import UserError
from ....files import read_json

_SHOWN = 40


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and math.isfinite(value)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "count": (lambda value: _is_whole(value) and value >= 1, "a whole number of at least 1"),
    "index": (lambda value: _is_whole(value) and value >= 0, "a whole number of at least 0"),
    "eps": (lambda value: isinstance(value, float) and 0 <= value < 1, "a decimal number from 0 to less than 1"),
    "base": (lambda value: _is_number(value) and value >= 1, "a number of at least 1"),
    "number": (_is_number, "a number"),
    "flag": (lambda value: isinstance(value, bool), "true or false"),
    "text": (lambda value: isinstance(value, str), "a text"),
    "texts": (
        lambda value: isinstance(value, list) and all(isinstance(part, str) for part in value),
        "a list of texts",
    ),
    "object": (lambda value: isinstance(value, dict), "an object"),
}
"""Test of a value by kind of field, and the words for what it has to be."""


@dataclass(frozen=True)
class Field:
    """Setting with a type.

    Parameters
    ----------
    kind : str
        One of ``count``, ``index``, ``eps``, ``base``, ``number``, ``flag``, ``text``, ``texts``, ``object``.
    default : Any
        Value where the setting is missing.
    null : bool
        Whether it may be null, which is read as None.
    alias : str, optional
        Second name, whose value wins.
    """

    kind: str
    default: Any = None
    null: bool = False
    alias: str | None = None


class Settings:
    """Values of a JSON object by the names of their fields, each checked as the object is made.

    Parameters
    ----------
    place : Path
        File, for messages.
    values : mapping
    fields : mapping of str to Field
        Those that are read; others are left out.
    before : str
        What stands before the names in messages, as ``rope_parameters.`` of an object inside.

    Raises
    ------
    UserError
        If a value is not of its type.
    """

    def __init__(self, place: Path, values: Mapping[str, Any], fields: Mapping[str, Field], before: str = "") -> None:
        self.place, self._before = place, before
        self._values = {name: self._typed(name, field, values) for name, field in fields.items()}

    def _typed(self, name: str, field: Field, values: Mapping[str, Any]) -> Any:
        """Look up a value, or the default of a setting that is missing."""
        name = field.alias if field.alias is not None and field.alias in values else name
        if name not in values:
            return field.default
        value, (fits, words) = values[name], _KINDS[field.kind]
        if value is None and field.null:
            return None
        if not fits(value):
            raise self.refused(f"{name} = {shown(value)}, which is not {words}")
        return value

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def refused(self, reason: str) -> UserError:
        """Make the error of a setting, whose name is the first word."""
        return UserError(f"{self.place} has {self._before}{reason}")


def shown(value: Any) -> str:
    """Short form of a value for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON object of a folder.

    Raises
    ------
    UserError
        If the file is missing, or is none.
    """
    try:
        found = read_json(path)
    except UserError as error:
        raise UserError(f"{error}: give the folder of a model that transformers saved") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is no JSON object")
    return found
