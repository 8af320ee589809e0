"""AXI4 interfaces as streams inside a core, and their conventional pins at its edge.

A channel's payload has named fields. Fields that never change (size, burst type, cache, protection, identifier) exist
only as constant pins at the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ...golden.axi.bus import ADDRESS_BITS

Direction = Literal["in", "out"]


class Response(IntEnum):
    """Response codes of AXI4."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


def _stream(**fields: int) -> stream.Signature:
    return stream.Signature(data.StructLayout(fields))


class _Bus(wiring.Signature):
    """Signature that is equal to any signature of the same class with the same members."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.members == other.members


class Read(_Bus):
    """Read channels of AXI4, with the manager's directions; a byte address has `address` bits, a beat `data` bits.

    Members
    -------
    ar : Out, stream of ``address``, ``length`` (8 bits)
        Bursts: byte address of the first beat, number of beats minus 1.
    r : In, stream of ``data``, ``response`` (2 bits), ``last`` (1 bit)
        Beats of the bursts in order, with their `Response`; `last` marks a burst's last beat.
    """

    def __init__(self, address: int = ADDRESS_BITS, data: int = 128) -> None:
        super().__init__(
            {"ar": Out(_stream(address=address, length=8)), "r": In(_stream(data=data, response=2, last=1))}
        )


class Write(_Bus):
    """Write channels of AXI4, with the manager's directions; a byte address has `address` bits, a beat `data` bits.

    Members
    -------
    aw : Out, stream of ``address``, ``length`` (8 bits)
        Bursts: byte address of the first beat, number of beats minus 1.
    w : Out, stream of ``data``, ``strobe`` (1 bit per byte), ``last`` (1 bit)
        Beats of the bursts in order; `last` marks a burst's last beat.
    b : In, stream of ``response`` (2 bits)
        `Response` to each burst, in order.
    """

    def __init__(self, address: int = ADDRESS_BITS, data: int = 128) -> None:
        super().__init__(
            {
                "aw": Out(_stream(address=address, length=8)),
                "w": Out(_stream(data=data, strobe=data // 8, last=1)),
                "b": In(_stream(response=2)),
            }
        )


class Lite(_Bus):
    """AXI4-Lite with 32-bit words and `address` bits of a byte address, with the manager's directions.

    Members
    -------
    aw, ar : Out, stream of ``address``
        Byte address of the word to write, and to read.
    w : Out, stream of ``data`` (32 bits), ``strobe`` (4 bits)
        Word to write, and a strobe per byte.
    b : In, stream of ``response`` (2 bits)
        `Response` to each write, in order.
    r : In, stream of ``data`` (32 bits), ``response`` (2 bits)
        Word of each read, in order, and its `Response`.
    """

    def __init__(self, address: int = 8) -> None:
        super().__init__(
            {
                "aw": Out(_stream(address=address)),
                "w": Out(_stream(data=32, strobe=4)),
                "b": In(_stream(response=2)),
                "ar": Out(_stream(address=address)),
                "r": In(_stream(data=32, response=2)),
            }
        )


@dataclass(frozen=True)
class TopPin:
    """Port of the emitted top module: Verilog name, direction seen from the top module, and number of bits."""

    name: str
    direction: Direction
    width: int


@dataclass(frozen=True)
class BusPin(TopPin):
    """Port of the emitted top module that belongs to a bus.

    Parameters
    ----------
    value : Value, int or None
        Signal or constant that drives an output, or signal driven by an input; None for an ignored input.
    """

    value: Any


ADDRESS_PINS = 64
"""Number of address pins at a memory port: Vitis requires 64, even if fewer bits are used."""
_NAMES = {"address": "addr", "length": "len", "strobe": "strb", "response": "resp"}
"""Abbreviations of AXI for the names of fields."""


def pins(bus: wiring.PureInterface, prefix: str) -> list[BusPin]:
    """List the pins of a component's bus.

    Parameters
    ----------
    bus : interface of `Read`, `Write` or `Lite`
        Port of the component: a manager's ``Out(Read())``, a subordinate's ``In(Lite())``.
    prefix : str
        Prefix of the names: ``m_axi_gmem0`` gives ``m_axi_gmem0_araddr`` and so on; `Read` and `Write` may share it.
    """
    signature = bus.signature
    full = not isinstance(signature.flip() if _flipped(signature) else signature, Lite)
    listed = []
    for channel, member in signature.members.items():
        port = getattr(bus, channel)
        along: Direction = "out" if member.flow is Out else "in"
        against: Direction = "in" if member.flow is Out else "out"
        start = f"{prefix}_{channel}"
        if full and channel != "w":
            # with a single identifier transfers stay in order, so the returned identifier is ignored
            listed.append(BusPin(f"{start}id", along, 1, 0 if along == "out" else None))
        for field, _ in port.payload.shape():
            value = Value.cast(port.payload[field])
            if full and field == "address":
                value = Cat(value, Const(0, ADDRESS_PINS - len(value)))
            listed.append(BusPin(start + _NAMES.get(field, field), along, len(value), value))
        if full and channel in ("aw", "ar"):
            listed += [BusPin(start + name, along, width, value) for name, width, value in _constants(bus)]
        listed += [BusPin(f"{start}valid", along, 1, port.valid), BusPin(f"{start}ready", against, 1, port.ready)]
    return listed


def members(pins: Iterable[BusPin]) -> dict[str, Member]:
    """Members of a component whose ports are these pins."""
    return {pin.name: (Out if pin.direction == "out" else In)(pin.width) for pin in pins}


def wire_up(m: Module, pins: Iterable[BusPin], wires: Mapping[str, Value]) -> None:
    """Connect the top module's ports, by name, to the signals and constants of their pins."""
    for pin in pins:
        if pin.direction == "out":
            m.d.comb += wires[pin.name].eq(pin.value)
        elif pin.value is not None:
            m.d.comb += pin.value.eq(wires[pin.name])


def _flipped(signature: wiring.Signature) -> bool:
    return isinstance(signature, wiring.FlippedSignature)


def _constants(bus: wiring.PureInterface) -> list[tuple[str, int, int]]:
    payload = bus.w.payload if hasattr(bus, "w") else bus.r.payload
    whole_beats = (len(Value.cast(payload.data)) // 8).bit_length() - 1
    incrementing, bufferable_modifiable, data_secure_unprivileged = 1, 0b0011, 0
    return [
        ("size", 3, whole_beats),
        ("burst", 2, incrementing),
        ("cache", 4, bufferable_modifiable),
        ("prot", 3, data_secure_unprivileged),
    ]
