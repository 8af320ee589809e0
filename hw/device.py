"""Facts of a device that the RTL depends on: the `platform` that Amaranth gives to each `elaborate`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A device to generate for.

    Parameters
    ----------
    uram : bool
        It has UltraRAM.
    """

    uram: bool = True


def ram_style(platform: object, style: str) -> str:
    """Choose the kind of a memory: ``ultra`` becomes ``block`` on a device without UltraRAM.

    Parameters
    ----------
    platform : Device or None
        Device, as `elaborate` gets it; None: one that has all kinds.
    style : "distributed", "block" or "ultra"
        Kind that suits the memory.
    """
    lacks = isinstance(platform, Device) and not platform.uram
    return "block" if style == "ultra" and lacks else style
