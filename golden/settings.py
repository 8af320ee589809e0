"""Construction of a spec from text: a preset and ``name=value`` settings for the spec's fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, get_origin, get_type_hints

from .block import Spec
from .errors import UserError


def build(
    kind: type[Spec], settings: Iterable[str] = (), preset: str | None = None, given: Mapping[str, Any] | None = None
) -> Spec:
    """Spec of a block from a preset, or from the field values `given`, and settings.

    A setting is ``name=value``. A name is a field, a dotted path to a field of a nested spec, or the unique last part
    of a path. Raises `UserError` if a name, preset or value is unknown; the text lists the known ones.
    """
    values: dict[str, Any] = {**(preset_of(kind, preset) if given is None else given)}
    paths = fields_of(kind)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UserError(f"--set {setting!r} is not name=value")
        path = _resolve(name.strip(), paths, kind)
        values[path] = _parse(text.strip(), paths[path], path)
    return _make(kind, values)


def preset_of(kind: type[Spec], preset: str | None) -> dict[str, object]:
    """Values of a preset; none for None.

    Raises `UserError` if the block has no such preset.
    """
    if preset is not None and preset not in kind.presets:
        known = ", ".join(kind.presets) or "none"
        raise UserError(f"{kind.name} has no preset {preset!r}; it has: {known}")
    return {} if preset is None else kind.presets[preset]


def fields_of(kind: type[Spec], prefix: str = "") -> dict[str, Any]:
    """Settable fields with their types; nested fields by dotted path."""
    hints = get_type_hints(kind)
    hints_of: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        hint = hints[item.name]
        if isinstance(hint, type) and issubclass(hint, Spec):
            hints_of |= fields_of(hint, f"{prefix}{item.name}.")
        else:
            hints_of[prefix + item.name] = hint
    return hints_of


def _resolve(name: str, paths: Mapping[str, Any], kind: type[Spec]) -> str:
    if name in paths:
        return name
    ends = [path for path in paths if path.endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UserError(f"{name!r} is ambiguous in {kind.name}: say {' or '.join(ends)}")
    raise UserError(f"{kind.name} has no parameter {name!r}; it has: {', '.join(paths)}")


def _parse(text: str, hint: Any, path: str) -> Any:
    if hint is bool:
        if text.lower() not in ("true", "false"):
            raise UserError(f"{path} = {text!r} is neither true nor false")
        return text.lower() == "true"
    try:
        if hint is int:
            return int(text, 0)
        if hint is float:
            return float(text)
        if get_origin(hint) is tuple:
            return tuple(int(part, 0) for part in text.replace(",", " ").split())
    except ValueError:
        if hint is float:
            raise UserError(f"{path} = {text!r} is not a number") from None
        kinds = "an integer" if hint is int else "integers with commas between them"
        raise UserError(f"{path} = {text!r} is not {kinds} (0x and 0b are read too)") from None
    return text


def _make(kind: type[Spec], values: Mapping[str, Any]) -> Spec:
    direct: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        head, dot, rest = path.partition(".")
        if dot:
            inner.setdefault(head, {})[rest] = value
        else:
            direct[head] = value
    hints = get_type_hints(kind)
    nested = {name: _make(hints[name], parts) for name, parts in inner.items()}
    return kind(**direct, **nested)


def restored(kind: type[Spec], parameters: Mapping[str, Any]) -> Spec:
    """Spec of a block from all its parameters, nested as in JSON or from `dataclasses.asdict`.

    Raises `UserError` if a parameter is missing, unknown, of another type, or refused by the spec.
    """
    paths, values = fields_of(kind), _flat(parameters)
    for path in values:
        if path not in paths:
            raise UserError(f"{kind.name} has no parameter {path!r}; it has: {', '.join(paths)}")
    for path in paths:
        if path not in values:
            raise UserError(f"the parameter {path!r} of {kind.name} is missing")
    return _make(kind, {path: _typed(value, paths[path], path) for path, value in values.items()})


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in parameters.items():
        values |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return values


def _typed(value: Any, hint: Any, path: str) -> Any:
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or any(type(part) is not int for part in value):
            raise UserError(f"{path} = {value!r} is not a list of integers")
        return tuple(value)
    kinds: tuple[type, ...] = {bool: (bool,), int: (int,), float: (int, float)}.get(hint, (str,))
    if type(value) not in kinds:
        names = {bool: "true or false", int: "an integer", float: "a number"}
        raise UserError(f"{path} = {value!r} is not {names.get(hint, 'a text')}")
    return value


def settings_of(spec: Spec) -> tuple[str, ...]:
    """Settings of all parameters; `build` makes an equal spec."""
    settings = []
    for path in fields_of(type(spec)):
        value = attrgetter(path)(spec)
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, tuple):
            value = ",".join(map(str, value))
        settings.append(f"{path}={value}")
    return tuple(settings)
