"""Selection of the active unit, and multiplexers of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Shape, Signal, Value

from ...primitives.registers import replicas

_COLUMNS = 8
"""Number of values that a copy of the select register serves, to limit fanout."""


class Unit(IntEnum):
    """Block with access to the activation memory; one is active at a time."""

    OUTSIDE = 0
    VALUES = 1
    NORM = 2
    POOL = 3
    ROTARY = 4
    ATTENTION = 5


class UnitChoice:
    """Select registers for the active unit; demultiplexers and multiplexers of streams.

    Attributes
    ----------
    unit : Signal
        Active unit.
    following : Signal
        Active unit of the next cycle, assigned by the sequencer; by default `unit`.
    works : dict of Unit to Signal
        One-hot flags of `unit`, fast enough for handshakes.
    """

    def __init__(self, m: Module, columns: int) -> None:
        self.unit, self.following = Signal(Unit), Signal(Unit)
        self.works = {unit: Signal(name=f"works_{unit.name.lower()}", init=unit == Unit.OUTSIDE) for unit in Unit}
        self._of_values = replicas(-(-columns // _COLUMNS), "unit_of_values", Unit)
        m.d.comb += self.following.eq(self.unit)
        m.d.sync += [register.eq(self.following) for register in (self.unit, *self._of_values)]
        m.d.sync += [flag.eq(self.following == unit) for unit, flag in self.works.items()]

    def choose(self, m: Module, source: Any, users: dict[Unit, Any]) -> None:
        """Demultiplex a stream to the active unit; each unit gets the fields that its port has."""
        m.d.comb += source.ready.eq(Cat(stream.ready & self.works[unit] for unit, stream in users.items()).any())
        for unit, stream in users.items():
            m.d.comb += [stream.valid.eq(source.valid & self.works[unit]), *alike(stream.payload, source.payload)]

    def merge(self, m: Module, into: Any, givers: dict[Unit, Any]) -> None:
        """Multiplex the active unit's stream into `into`. All units get `ready`, as inactive units offer no words."""
        m.d.comb += into.valid.eq(Cat(stream.valid & self.works[unit] for unit, stream in givers.items()).any())
        m.d.comb += [stream.ready.eq(into.ready) for stream in givers.values()]
        # one-hot flags select addresses; copies of the binary select register, for the high fanout, select values
        for name, field in into.payload.shape().members.items():
            having = {unit: stream for unit, stream in givers.items() if name in stream.payload.shape().members}
            fields = {unit: Value.cast(getattr(stream.payload, name)) for unit, stream in having.items()}
            taken = Value.cast(getattr(into.payload, name))
            if name == "value":
                self._values(m, taken, fields)
                continue
            flags = {unit: self.works[unit].replicate(Shape.cast(field).width) for unit in fields}
            m.d.comb += taken.eq(reduce(or_, (value & flags[unit] for unit, value in fields.items())))

    def _values(self, m: Module, taken: Value, values: dict[Unit, Value]) -> None:
        """Multiplex values; each copy of the select register serves a slice."""
        width = len(taken) // len(self._of_values)
        for number, chosen in enumerate(self._of_values):
            part = slice(number * width, (number + 1) * width)
            with m.Switch(chosen):
                for unit, value in values.items():
                    with m.Case(unit):
                        m.d.comb += taken[part].eq(value[part])


def alike(into: Any, source: Any) -> Iterator[Any]:
    """Assignments of all fields that both payloads have."""
    for name in into.shape().members:
        if name in source.shape().members:
            yield Value.cast(getattr(into, name)).eq(Value.cast(getattr(source, name)))
