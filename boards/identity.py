"""Identity of a core, which tells settings apart in one design: names and the revisions of their IPs."""

from __future__ import annotations

import re

from ..golden.block import Spec
from ..golden.cores.core import CoreSpec
from ..golden.errors import UserError

_LARGEST_REVISION = (1 << 31) - 1
"""Vivado reads a revision as a signed number of 32 bits, and stops at one that is none."""


def design_name(spec: Spec, suffix: str | None = None, preset: str | None = None) -> str:
    """Name of the top module, the IP and the kernel of a block: its own with what tells it from others of its kind.

    Parameters
    ----------
    spec : Spec
    suffix : str, optional
        What follows the block's name and ``_``.
    preset : str, optional
        The preset whose settings the block has, if it has one's. Without a suffix a core has the preset's name there,
        or its signature in hexadecimal digits, and a block without registers nothing.

    Raises
    ------
    UserError
        If the suffix is none.
    """
    if suffix is not None and not re.fullmatch(r"\w+", suffix, re.ASCII):
        raise UserError(f"{suffix!r} is no end of a name: letters, digits and _")
    if suffix is None and isinstance(spec, CoreSpec):
        suffix = re.sub(r"\W", "_", preset, flags=re.ASCII) if preset else f"{spec.signature:08x}"
    return spec.name if suffix is None else f"{spec.name}_{suffix}"


def revision(spec: CoreSpec) -> int:
    """Revision of a core's IP: another one for other settings or registers."""
    return spec.signature & _LARGEST_REVISION
