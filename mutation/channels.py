"""Channels of a design: its streams, and the channels of its AXI buses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..hw.verilog import Emitted

_AXI_CHANNEL = re.compile(r"(\w+_(?:aw|w|b|ar|r))valid")


@dataclass(frozen=True)
class Channel:
    """Stream or channel of AXI: its `valid` and `ready`, its payload, and whether its words go into the design."""

    valid: str
    ready: str
    payload: tuple[str, ...]
    inward: bool


def channels(design: Emitted, ways: Mapping[str, str]) -> list[Channel]:
    """List the channels of a design.

    Parameters
    ----------
    design : Emitted
        The design.
    ways : mapping of str to str
        Its ports, each "input" or "output".
    """
    found = [
        Channel(port.valid, port.ready, tuple(wire.name for wire in port.wires), ways[port.valid] == "input")
        for port in design.ports.values()
        if port.valid
    ]
    for match in filter(None, map(_AXI_CHANNEL.fullmatch, ways)):
        valid, ready = match[0], f"{match[1]}ready"
        rest = (name for name in ways if name.startswith(match[1]) and name not in (valid, ready))
        if ready in ways:
            found.append(Channel(valid, ready, tuple(rest), ways[valid] == "input"))
    return found


def valid_of(design: Emitted, ways: Mapping[str, str]) -> dict[str, str]:
    """Name, for each output that is a channel's payload, the `valid` without which no neighbour takes it."""
    return {name: one.valid for one in channels(design, ways) if not one.inward for name in one.payload}
