"""Names of a core and revisions of its IP, by which a design tells cores of different settings apart."""

from __future__ import annotations

import re

from ..golden.block import Spec
from ..golden.cores.core import CoreSpec
from ..golden.errors import UserError

_LARGEST_REVISION = (1 << 31) - 1
"""Vivado reads a revision as a signed 32-bit number, and stops at a larger number."""


def design_name(spec: Spec, suffix: str | None = None, preset: str | None = None) -> str:
    """Name of a block's top module, IP and kernel: the block's name, ``_`` and a suffix.

    Without a suffix a core appends the preset's name, or else the signature in hexadecimal digits; a block without
    registers appends nothing. A `UserError` for a suffix with other characters than letters, digits and ``_``.
    """
    if suffix is not None and not re.fullmatch(r"\w+", suffix, re.ASCII):
        raise UserError(f"{suffix!r} is no end of a name: letters, digits and _")
    if suffix is None and isinstance(spec, CoreSpec):
        suffix = re.sub(r"\W", "_", preset, flags=re.ASCII) if preset else f"{spec.signature:08x}"
    return spec.name if suffix is None else f"{spec.name}_{suffix}"


def revision(spec: CoreSpec) -> int:
    """Revision of a core's IP, different for other settings or registers."""
    return spec.signature & _LARGEST_REVISION
