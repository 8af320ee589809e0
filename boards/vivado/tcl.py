"""Tcl scripts for Vivado: the files of ``templates``, into which `script` puts settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_TEMPLATES = Path(__file__).with_name("templates")


def script(name: str, settings: Mapping[str, str], procedures: Sequence[str] = ()) -> str:
    """Put settings as Tcl variables, and procedures, between a script's description and its commands.

    Parameters
    ----------
    name : str
        File in ``templates``, without its suffix.
    settings : mapping of str to str
        Values by variable; they must not hold unbalanced braces.
    procedures : sequence of str
        Files in ``templates`` with a procedure that the script calls.
    """
    head, _, rest = _template(name).partition("\n\n")
    values = "".join(f"set {key} {{{value}}}\n" for key, value in settings.items())
    return "\n".join([f"{head}\n", values, *map(_template, procedures), rest])


def _template(name: str) -> str:
    return (_TEMPLATES / f"{name}.tcl").read_text(encoding="utf-8")
