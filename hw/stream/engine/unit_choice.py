"""Choice of the unit at work: its registers, and the streams that go to it alone or come from it alone."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Shape, Signal, Value

from ...primitives.registers import replicas

_COLUMNS = 8
"""Values of a word that one copy of the unit's number chooses: it is slow where all of a wide array wait for one."""


class Unit(IntEnum):
    """Block that reads and writes the activation memory, one at a time."""

    OUTSIDE = 0
    VALUES = 1
    NORM = 2
    POOL = 3
    ROTARY = 4
    ATTENTION = 5


class UnitChoice:
    """Registers of the unit at work, and streams of it.

    Parameters
    ----------
    m : Module
        Module of the registers.
    columns : int
        Values of a word.

    Attributes
    ----------
    unit : Signal
        The unit.
    following : Signal
        The unit of the next cycle; who sequences assigns it, otherwise it stays.
    works : dict of Unit to Signal
        A flag for each unit, beside its number: handshakes begin with it.
    """

    def __init__(self, m: Module, columns: int) -> None:
        self.unit, self.following = Signal(Unit), Signal(Unit)
        self.works = {unit: Signal(name=f"works_{unit.name.lower()}", init=unit == Unit.OUTSIDE) for unit in Unit}
        self._of_values = replicas(-(-columns // _COLUMNS), "unit_of_values", Unit)
        m.d.comb += self.following.eq(self.unit)
        m.d.sync += [register.eq(self.following) for register in (self.unit, *self._of_values)]
        m.d.sync += [flag.eq(self.following == unit) for unit, flag in self.works.items()]

    def choose(self, m: Module, given: Any, users: dict[Unit, Any]) -> None:
        """Give a stream's words to the unit at work, each of its fields that the unit has."""
        m.d.comb += given.ready.eq(Cat(stream.ready & self.works[unit] for unit, stream in users.items()).any())
        for unit, stream in users.items():
            m.d.comb += [stream.valid.eq(given.valid & self.works[unit]), *alike(stream.payload, given.payload)]

    def merge(self, m: Module, into: Any, givers: dict[Unit, Any]) -> None:
        """Take a stream's words from the unit at work; no other one has any, so that all may see that there is room."""
        m.d.comb += into.valid.eq(Cat(stream.valid & self.works[unit] for unit, stream in givers.items()).any())
        m.d.comb += [stream.ready.eq(into.ready) for stream in givers.values()]
        # places are chosen by the flags: the number, which chooses the values, reaches far
        for name, field in into.payload.shape().members.items():
            having = {unit: stream for unit, stream in givers.items() if name in stream.payload.shape().members}
            given = {unit: Value.cast(getattr(stream.payload, name)) for unit, stream in having.items()}
            taken = Value.cast(getattr(into.payload, name))
            if name == "value":
                self._values(m, taken, given)
                continue
            flags = {unit: self.works[unit].replicate(Shape.cast(field).width) for unit in given}
            m.d.comb += taken.eq(reduce(or_, (value & flags[unit] for unit, value in given.items())))

    def _values(self, m: Module, taken: Value, given: dict[Unit, Value]) -> None:
        """Choose the values, a part of them by each copy of the unit's number."""
        width = len(taken) // len(self._of_values)
        for number, chosen in enumerate(self._of_values):
            part = slice(number * width, (number + 1) * width)
            with m.Switch(chosen):
                for unit, value in given.items():
                    with m.Case(unit):
                        m.d.comb += taken[part].eq(value[part])


def alike(into: Any, given: Any) -> Iterator[Any]:
    """Assignments of all fields that both have."""
    for name in into.shape().members:
        if name in given.shape().members:
            yield Value.cast(getattr(into, name)).eq(Value.cast(getattr(given, name)))
