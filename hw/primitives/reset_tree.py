"""Reset tree: a part's registers share their reset among registers of it, so that none of these drives too many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Const, Elaboratable, Fragment, Module, Signal, Value
from amaranth.hdl._xfrm import LHSMaskCollector

LOADS = 2000
"""Registers that one reset register drives at most."""
KEPT = {"keep": "true"}
"""Attribute of a register that synthesis must not merge with another of the same value."""


class ResetTree(Elaboratable):
    """Resets a part by registers, the leaves of a tree, each of which has some of the part's registers as loads.

    A module with all that it contains has one leaf where that is within `LOADS`, several small neighbours share one,
    and a larger module has several. All leaves have the same value, and synthesis keeps them apart. Registers that are
    declared ``reset_less`` are no loads. The domain ``sync`` has no reset of its own where a tree is used, or each
    register would have a gate for both.

    Parameters
    ----------
    part : Component
        The part; all of it is in the domain ``sync``.
    root : Value
        Reset for the leaves, active high, from a register.
    loads : int
        See `LOADS`.

    Attributes
    ----------
    part : Component
        The part.
    active : Signal
        The first leaf: high in the cycles at whose end the part is reset, one cycle after `root`. High at power-up.
    loads : list of int
        Loads of each leaf, once the tree is elaborated.
    """

    def __init__(self, part: Any, root: Value, loads: int = LOADS) -> None:
        self.part, self._root, self._most = part, root, loads
        self.active = self._leaf(0)

    def elaborate(self, platform: object) -> Fragment:
        self.loads, self._leaves = [0], [self.active]
        fragment = Fragment.get(self.part, platform)
        self._share(fragment)
        fragment.add_statements("sync", [leaf.eq(self._root) for leaf in self._leaves])
        return fragment

    def _share(self, fragment: Fragment) -> None:
        """Give a module, with all that it contains, to the last leaf, or to that and new ones."""
        registers = list(_registers(fragment))
        if (whole := _loads(fragment)) <= self._most < self.loads[-1] + whole:
            self._next()
        while registers:
            resets, room = [], self._most - self.loads[-1]
            while registers and room:
                signal, first, last = registers.pop()
                if last - first > room:
                    registers.append((signal, first + room, last))
                    last = first + room
                resets.append(_reset(signal, first, last))
                self.loads[-1] += last - first
                room -= last - first
            inserted = Module()
            with inserted.If(self._leaves[-1]):
                inserted.d.sync += resets
            fragment.add_statements("sync", Fragment.get(inserted, None).statements["sync"])
            if registers:
                self._next()
        for each, *_ in fragment.subfragments:
            self._share(each)

    def _next(self) -> None:
        self._leaves.append(self._leaf(len(self._leaves)))
        self.loads.append(0)

    @staticmethod
    def _leaf(number: int) -> Signal:
        return Signal(init=1, name=f"reset_leaf_{number}", attrs=KEPT)


def _registers(fragment: Fragment) -> Iterator[tuple[Signal, int, int]]:
    """Registers of a module itself that have a reset, the last first: with the first bit, and that behind the last."""
    found = LHSMaskCollector()
    found.visit_stmt(fragment.statements.get("sync", []))
    for signal, first, last in reversed(list(found.chunks())):
        if not signal.reset_less:
            yield signal, first, len(signal) if last is None else last


def _loads(fragment: Fragment) -> int:
    """Bits of the registers within that have a reset."""
    own = sum(last - first for _, first, last in _registers(fragment))
    return own + sum(_loads(each) for each, *_ in fragment.subfragments)


def _reset(signal: Signal, first: int, last: int) -> Any:
    value = Const(signal.init, signal.shape())
    return signal.eq(value) if last - first == len(signal) else signal[first:last].eq(value[first:last])
