"""Channels of a design: streams, and the channels of AXI buses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..hw.verilog import Emitted

_AXI_CHANNEL = re.compile(r"(\w+_(?:aw|w|b|ar|r))valid")


@dataclass(frozen=True)
class Channel:
    """Stream or AXI channel: names of `valid`, `ready` and payload wires; `inward` for inputs of the design."""

    valid: str
    ready: str
    payload: tuple[str, ...]
    inward: bool


def channels(design: Emitted, ways: Mapping[str, str]) -> list[Channel]:
    """Channels of a design; `ways` maps its ports to "input" or "output"."""
    result = [
        Channel(port.valid, port.ready, tuple(wire.name for wire in port.wires), ways[port.valid] == "input")
        for port in design.ports.values()
        if port.valid
    ]
    for match in filter(None, map(_AXI_CHANNEL.fullmatch, ways)):
        valid, ready = match[0], f"{match[1]}ready"
        rest = (name for name in ways if name.startswith(match[1]) and name not in (valid, ready))
        if ready in ways:
            result.append(Channel(valid, ready, tuple(rest), ways[valid] == "input"))
    return result


def valid_of(design: Emitted, ways: Mapping[str, str]) -> dict[str, str]:
    """The `valid` of each payload output: while low, no receiver reads the payload."""
    return {name: channel.valid for channel in channels(design, ways) if not channel.inward for name in channel.payload}
