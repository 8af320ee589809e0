"""Tcl scripts for Vivado: the files of ``templates``, into which `script` puts settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_TEMPLATES = Path(__file__).with_name("templates")


def script(name: str, settings: Mapping[str, str]) -> str:
    """Put settings as Tcl variables between a script's description and its commands.

    Parameters
    ----------
    name : str
        File in ``templates``, without its suffix.
    settings : mapping of str to str
        Values by variable; they must not hold braces.
    """
    head, _, rest = (_TEMPLATES / f"{name}.tcl").read_text(encoding="utf-8").partition("\n\n")
    return f"{head}\n\n" + "".join(f"set {key} {{{value}}}\n" for key, value in settings.items()) + f"\n{rest}"
