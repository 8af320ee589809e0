"""Reset registers with a bounded number of loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Const, Elaboratable, Fragment, Module, Signal, Value
from amaranth.hdl._xfrm import LHSMaskCollector

LOADS = 2000
"""Maximum number of loads of a reset register."""
KEPT = {"keep": "true"}
"""Attribute that stops synthesis from merging a register with an equal register."""


class ResetTree(Elaboratable):
    """Reset a component through several reset registers, the leaves; each drives some of the component's registers.

    A module with at most `LOADS` loads, submodules included, gets one leaf; small neighbours share a leaf, larger
    modules get several. All leaves have the same value, and synthesis does not merge them. Registers declared
    ``reset_less`` are no loads. The domain ``sync`` must have no reset of its own, or each register would need a gate
    for two resets.

    Parameters
    ----------
    part : Component
        The component, entirely in the domain ``sync``.
    root : Value
        Registered reset of the leaves, active high.

    Attributes
    ----------
    active : Signal
        The first leaf: follows `root` by one cycle, and is high at power-up. The component resets at the end of each
        cycle in which it is high.
    loads : list of int
        Number of loads of each leaf, after elaboration.
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
        """Assign a module with its submodules to the newest leaf, and to further leaves as needed."""
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
    """Registers with a reset in a module, without its submodules: signal, first bit and end bit, in reverse order."""
    collector = LHSMaskCollector()
    collector.visit_stmt(fragment.statements.get("sync", []))
    for signal, first, last in reversed(list(collector.chunks())):
        if not signal.reset_less:
            yield signal, first, len(signal) if last is None else last


def _loads(fragment: Fragment) -> int:
    """Number of register bits with a reset, submodules included."""
    direct = sum(last - first for _, first, last in _registers(fragment))
    return direct + sum(_loads(each) for each, *_ in fragment.subfragments)


def _reset(signal: Signal, first: int, last: int) -> Any:
    value = Const(signal.init, signal.shape())
    return signal.eq(value) if last - first == len(signal) else signal[first:last].eq(value[first:last])
