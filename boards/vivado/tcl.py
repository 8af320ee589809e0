"""Tcl scripts for Vivado: files of ``templates`` with settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_TEMPLATES = Path(__file__).with_name("templates")


def script(name: str, settings: Mapping[str, str], procedures: Sequence[str] = ()) -> str:
    """Text of ``templates/NAME.tcl``; settings (Tcl variables) and procedures stand between description and commands.

    Values must not contain unbalanced braces. ``procedures`` are files of ``templates``, each with a procedure that the
    script calls.
    """
    head, _, rest = _template(name).partition("\n\n")
    values = "".join(f"set {key} {{{value}}}\n" for key, value in settings.items())
    return "\n".join([f"{head}\n", values, *map(_template, procedures), rest])


def _template(name: str) -> str:
    return (_TEMPLATES / f"{name}.tcl").read_text(encoding="utf-8")
