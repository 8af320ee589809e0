"""Power report of a core in Vivado, with the activity of a simulated job."""

from __future__ import annotations

from . import tcl


def power_script(saif: str, instance: str) -> str:
    """Script that reads a core's activity and reports the power.

    ``saif`` is the SAIF file in the script's folder; ``instance`` is the core's path in the SAIF: ``TOP/CORE``.
    """
    return tcl.script("power", {"saif": saif, "instance": instance})
