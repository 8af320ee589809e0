"""Top module of an emitted block: conventional port names, and the stream fields of each port.

A plain block has ``clk``, ``rst`` and, for a stream ``x``, ports ``x_valid``, ``x_ready`` and one per field. A core has
AXI4-Stream names, as block designs recognise them: ``aclk``, ``aresetn``, ``s_axis_*`` for inputs, ``m_axis_*`` for
outputs. There a lane has as many whole bytes as the widest field of its stream, and a field `last` or `user` becomes
``tlast`` or ``tuser``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Shape, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..golden.block import Field, Spec, Stream
from .axi import bus as axi
from .ports import elements

_BYTE = 8


@dataclass(frozen=True)
class Wire:
    """Port of the top module for some fields of a stream; the first field has the lowest bits.

    Parameters
    ----------
    name : str
        Name in the Verilog.
    fields : tuple of str
        Names of the spec's stream fields.
    align : int
        A lane is sign-extended to a multiple of this number of bits.
    """

    name: str
    fields: tuple[str, ...]
    align: int = 1

    def room(self, field: Field) -> int:
        """Width of a field's lane in the port."""
        return -(-field.format.width // self.align) * self.align

    def width(self, stream: Stream) -> int:
        """Width of the port."""
        return sum(item.lanes * self.room(item) for item in stream.fields if item.name in self.fields)


@dataclass(frozen=True)
class Port:
    """Top module ports of one stream; a sideband has neither `valid` nor `ready`."""

    wires: tuple[Wire, ...]
    valid: str = ""
    ready: str = ""


def plain_port(name: str, stream: Stream) -> Port:
    """Ports of a plain block's stream ``x``: ``x_valid``, ``x_ready``, ``x_FIELD``; of a one-field sideband: ``x``."""
    if stream.follows:
        return _sideband(name, stream)
    return Port(
        tuple(Wire(f"{name}_{item.name}", (item.name,)) for item in stream.fields), f"{name}_valid", f"{name}_ready"
    )


def axis_port(name: str, stream: Stream) -> Port:
    """AXI4-Stream ports of a core's stream: ``s_axis_x_*`` or ``m_axis_x_*``; `i` and `o` have no suffix."""
    if stream.follows:
        return _sideband(name, stream)
    prefix = "s_axis" if stream.direction == "in" else "m_axis"
    if name not in ("i", "o"):
        prefix += f"_{name}"
    special = [item.name for item in stream.fields if item.name in ("last", "user")]
    numbers = tuple(item.name for item in stream.fields if item.name not in special)
    widest = max((item.format.width for item in stream.fields if item.name in numbers), default=0)
    wires = [Wire(f"{prefix}_tdata", numbers, -(-widest // _BYTE) * _BYTE)] if numbers else []
    wires += [Wire(f"{prefix}_t{field}", (field,)) for field in special]
    return Port(tuple(wires), f"{prefix}_tvalid", f"{prefix}_tready")


def ports_of(spec: Spec) -> dict[str, Port]:
    """Ports of each of a spec's streams, by stream name."""
    named = axis_port if spec.core else plain_port
    return {name: named(name, stream) for name, stream in spec.streams().items()}


def _sideband(name: str, stream: Stream) -> Port:
    single = len(stream.fields) == 1
    return Port(tuple(Wire(name if single else f"{name}_{item.name}", (item.name,)) for item in stream.fields))


def _lanes(value: Any, field: Field) -> list[Value]:
    """Lanes of a field as a list, also if the block has them as one number."""
    if field.lanes == 1 or not isinstance(value, Value):
        return elements(value, field)
    width = field.format.width
    return [value[first : first + width] for first in range(0, len(value), width)]


class TopWrapper(wiring.Component):
    """Connect the ports of a block to a top module's conventional ports.

    Parameters
    ----------
    block : Component
        The block, with the streams, buses and wires of `spec` as ports.
    spec : Spec
        Streams, buses, wires, and whether the block is a core.

    Attributes
    ----------
    clk, rst : In(1), of a plain block
        Clock, and synchronous reset, active high.
    aclk, aresetn : In(1), of a core
        Clock, and synchronous reset, active low.
    STREAM ports
        For each of `spec.streams()` the ports of `plain_port` or, for a core, `axis_port`: valid and payload in the
        stream's direction, ready against it; combinational connections to the block.
    BUS ports
        For each of `spec.buses` the pins of `axi.pins`, with the bus's prefix.
    WIRE ports
        Each of `spec.wires` (out) and `spec.input_wires` (in), as in the block.
    """

    def __init__(self, block: wiring.Component, spec: Spec) -> None:
        self._block, self._spec = block, spec
        self.clock, self.reset, self.reset_level = ("aclk", "aresetn", 0) if spec.core else ("clk", "rst", 1)
        self.ports = ports_of(spec)
        pins = {self.clock: In(1), self.reset: In(1)}
        for name, stream in spec.streams().items():
            port = self.ports[name]
            along, against = (In, Out) if stream.direction == "in" else (Out, In)
            if port.valid:
                pins |= {port.valid: along(1), port.ready: against(1)}
            pins |= {wire.name: along(wire.width(stream)) for wire in port.wires}
        self.buses = {name: axi.pins(getattr(block, name), prefix) for name, prefix in spec.buses.items()}
        for bus in self.buses.values():
            pins |= axi.members(bus)
        pins |= {name: block.signature.members[name] for name in (*spec.wires, *spec.input_wires)}
        super().__init__(pins)

    @property
    def pins(self) -> tuple[axi.TopPin, ...]:
        """All ports, in Verilog order."""
        members = self.signature.members.items()
        return tuple(
            axi.TopPin(name, "out" if member.flow is Out else "in", Shape.cast(member.shape).width)
            for name, member in members
        )

    @property
    def attributes(self) -> dict[str, dict[str, str]]:
        """Verilog attributes by wire, for block designs: a core's clock, reset, buses and interrupt.

        Monitor pins get the attribute that keeps them for a logic analyser.
        """
        if not self._spec.core:
            return {}
        streams = [port.valid.removesuffix("_tvalid") for port in self.ports.values() if port.valid]
        interfaces = ":".join([*streams, *dict.fromkeys(self._spec.buses.values())])

        def signal(kind: str, wire: str, pin: str, parameter: str) -> dict[str, str]:
            info = f"xilinx.com:signal:{kind}:1.0 {wire} {pin}"
            return {"X_INTERFACE_INFO": info, "X_INTERFACE_PARAMETER": parameter}

        attributes = {
            self.clock: signal(
                "clock", self.clock, "CLK", f"ASSOCIATED_BUSIF {interfaces}, ASSOCIATED_RESET {self.reset}"
            ),
            self.reset: signal("reset", self.reset, "RST", "POLARITY ACTIVE_LOW"),
        }
        if "interrupt" in self._spec.wires:
            attributes["interrupt"] = signal("interrupt", "interrupt", "INTERRUPT", "SENSITIVITY LEVEL_HIGH")
        attributes |= {name: {"mark_debug": "true"} for name in self._spec.wires if name.startswith("monitor_")}
        for prefix, parameters in self._spec.bus_parameters.items():
            pins = [pin.name for bus in self.buses.values() for pin in bus if pin.name.startswith(f"{prefix}_")]
            for name in pins:
                logical = name.removeprefix(f"{prefix}_").upper()
                attributes[name] = {"X_INTERFACE_INFO": f"xilinx.com:interface:aximm:1.0 {prefix} {logical}"}
            listed = ", ".join(f"{name} {value}" for name, value in parameters.items())
            attributes[pins[0]]["X_INTERFACE_PARAMETER"] = f"XIL_INTERFACENAME {prefix}, {listed}"
        return attributes

    def elaborate(self, platform: object) -> Module:
        # add the ports in the block's own module, not in a parent module, so that paths stay the same
        vars(self._block)["_MustUse__used"] = True  # as `Fragment.get` notes it
        m: Module = self._block.elaborate(platform)
        # a block with a reset port distributes the reset itself
        shares = "reset" in self._block.signature.members
        m.domains.sync = ClockDomain("sync", local=True, reset_less=shares)
        wire = {name: getattr(self, name) for name in self.signature.members}
        reset = wire[self.reset] if self.reset_level else ~wire[self.reset]
        m.d.comb += [
            ClockSignal().eq(wire[self.clock]),
            (self._block.reset if shares else ResetSignal()).eq(reset),
        ]
        for bus in self.buses.values():
            axi.wire_up(m, bus, wire)
        m.d.comb += [wire[name].eq(getattr(self._block, name)) for name in self._spec.wires]
        m.d.comb += [getattr(self._block, name).eq(wire[name]) for name in self._spec.input_wires]
        for name, stream in self._spec.streams().items():
            port, inner = self.ports[name], getattr(self._block, name)
            inward = stream.direction == "in"
            payload = inner if stream.follows else inner.payload
            if port.valid:
                m.d.comb += (
                    [inner.valid.eq(wire[port.valid]), wire[port.ready].eq(inner.ready)]
                    if inward
                    else [wire[port.valid].eq(inner.valid), inner.ready.eq(wire[port.ready])]
                )
            fields = {item.name: item for item in stream.fields}
            for pin in port.wires:
                offset = 0
                for field in (fields[name] for name in pin.fields):
                    for lane in _lanes(getattr(payload, field.name), field):
                        bits = wire[pin.name][offset : offset + pin.room(field)]
                        m.d.comb += lane.eq(bits) if inward else bits.eq(lane)
                        offset += pin.room(field)
        return m
