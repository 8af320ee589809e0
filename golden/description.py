"""Description of a block from its spec: parameters, ports, and registers of a core."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from docstring_parser import DocstringStyle, parse

from .axi.register_map import RegisterMap
from .block import Field, Spec
from .cores.core import CoreSpec
from .settings import fields_of


def describe(spec: Spec) -> dict[str, Any]:
    """Description of a block for JSON.

    Returns
    -------
    dict
        ``summary`` and ``presets``. ``parameters``: by dotted path ``value`` and ``meaning``. ``ports``: by name
        ``direction``, ``meaning``, ``follows`` (a sideband's stream, or empty), and ``fields`` with ``format`` and
        ``meaning``. For a core ``registers`` and ``codes``, see `RegisterMap.canonical`.
    """
    parameters = {}
    for path in fields_of(type(spec)):
        owner, _, name = path.rpartition(".")
        meanings = parameters_of(type(attrgetter(owner)(spec) if owner else spec))
        value = attrgetter(path)(spec)
        parameters[path] = {"value": list(value) if isinstance(value, tuple) else value, "meaning": meanings[name]}
    ports = {
        name: {
            "direction": port.direction,
            "follows": port.follows,
            "meaning": port.doc,
            "fields": {item.name: {"format": format_of(item), "meaning": item.doc} for item in port.fields},
        }
        for name, port in spec.streams().items()
    }
    registers = spec.registers.map.canonical() if isinstance(spec, CoreSpec) else {}
    return {"summary": spec.summary, "presets": spec.presets, "parameters": parameters, "ports": ports} | registers


def parameters_of(kind: type[Spec]) -> dict[str, str]:
    """Meaning of each parameter, from the docstrings of a spec's class and its bases."""
    meanings: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if not issubclass(owner, Spec) or not owner.__doc__:
            continue
        for parameter in parse(owner.__doc__, DocstringStyle.NUMPYDOC).params:
            meaning = " ".join((parameter.description or "").split())
            meanings |= dict.fromkeys(parameter.arg_name.replace(" ", "").split(","), meaning)
    return meanings


def format_of(item: Field) -> str:
    """Text of a field's format: ``31 x Q1.7``, ``16 bits``, ``27 bits, signed``."""
    number, lanes = item.format, f"{item.lanes} x " if item.lanes > 1 else ""
    if number.fraction:
        return f"{lanes}{number}"
    bits = f"{number.width} bit{'s' if number.width > 1 else ''}"
    return f"{lanes}{bits}{', signed' if number.signed else ''}"


def parameter_rows(description: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Rows of a table of parameters from a description: name, value, meaning."""
    for path, about in description["parameters"].items():
        value = about["value"]
        short = f"{len(value)} values" if isinstance(value, list) and len(value) > 4 else str(value)
        yield path, short, about["meaning"]


def port_rows(description: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Rows of a table of ports from a description: name, direction, format, meaning; fields follow their port."""
    for name, port in description["ports"].items():
        yield name, port["direction"], f"with {port['follows']}" if port["follows"] else "stream", port["meaning"]
        for field, about in port["fields"].items():
            yield f"{name}.{field}", "", about["format"], about["meaning"]


def register_rows(registers: RegisterMap) -> Iterator[tuple[str, str, str, str]]:
    """Rows of a table of registers: offset, name, access, meaning; fields follow their register."""
    for register in registers:
        yield f"0x{register.offset:02X}", register.name, register.access, register.summary
        for item in register.fields:
            yield "", f"{register.name}.{item.name}", item.place, item.summary


def code_rows(registers: RegisterMap) -> Iterator[tuple[str, str, str]]:
    """Rows of a table of codes: kind, such as commands or errors, number, name."""
    for codes in registers.codes:
        for code in codes:
            yield codes.__name__.lower(), str(code.value), code.name.lower()


def tables(spec: Spec) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Non-empty tables of a block: columns and rows of parameters, ports, presets, registers, codes."""
    description = describe(spec)
    presets = ((name, ", ".join(f"{key}={value}" for key, value in of.items())) for name, of in spec.presets.items())
    candidates: list[tuple[tuple[str, ...], Iterator[tuple[str, ...]]]] = [
        (("parameter", "value", "meaning"), parameter_rows(description)),
        (("port", "direction", "format", "meaning"), port_rows(description)),
        (("preset", "settings"), presets),
    ]
    if isinstance(spec, CoreSpec):
        registers = spec.registers.map
        candidates += [(("offset", "register", "access", "meaning"), register_rows(registers))]
        candidates += [(("code of", "number", "name"), code_rows(registers))]
    for columns, rows in candidates:
        if table := list(rows):
            yield columns, table
