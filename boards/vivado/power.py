"""Power report of a core in Vivado, with the activity of a simulated job."""

from __future__ import annotations

from . import tcl


def power_script(saif: str, instance: str) -> str:
    """Make the script that reads a core's activity and reports its power.

    Parameters
    ----------
    saif : str
        Name of the SAIF, in the script's folder.
    instance : str
        Place of the core in it: ``TOP/CORE``.
    """
    return tcl.script("power", {"saif": saif, "instance": instance})
