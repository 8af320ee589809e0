"""Drivers of a block's streams: sources, sinks, and the sidebands that go with either."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from .monitors import HandshakeMonitor


class MismatchError(AssertionError):
    """A word that is not the expected one."""


def compare(test: str, name: str, number: int, got: list[int], expected: list[list[int]]) -> None:
    """Compare one word of a port with those that are expected of it, where any are.

    Raises
    ------
    MismatchError
        If it is another.
    """
    if number < len(expected) and got != expected[number]:
        raise MismatchError(f"{test}: {name}, word {number}: {got}, golden {expected[number]}")


class DrivenWire:
    """Input of the top module that is written only where its value changes: a write takes cocotb longest.

    Parameters
    ----------
    wire : handle
    """

    def __init__(self, wire: Any) -> None:
        self.width: int = len(wire)
        self._wire, self._value = wire, -1

    def drive(self, value: int) -> None:
        """Set the level."""
        if value != self._value:
            self._wire.value = self._value = value


class StreamDriver:
    """One stream: a source of the block's input, or a sink of its output.

    Parameters
    ----------
    dut : handle
        The top module.
    test : str
        Name of the test, for messages.
    name : str
        Name of the stream.
    plan : dict
        Its part of the bench plan: direction, names of the wires.
    rng : Random
        Source of the payload while nothing is on offer.

    Attributes
    ----------
    done, left : int
        Transfers of this phase, and those still to come.
    """

    def __init__(self, dut: Any, test: str, name: str, plan: dict[str, Any], rng: Random) -> None:
        self.name, self._test, self.is_input = name, test, plan["direction"] == "in"
        own, other = ("valid", "ready") if self.is_input else ("ready", "valid")
        self._own, self._other, self._random = DrivenWire(getattr(dut, plan[own])), getattr(dut, plan[other]), rng
        self._wires = [DrivenWire(getattr(dut, wire)) for wire in plan["wires"]] if self.is_input else []
        self._monitor = HandshakeMonitor(dut, test, plan["valid"], plan["ready"], plan["wires"])
        self.start([], 0)

    def start(self, words: list[list[int]], want: int, expected: list[list[int]] | None = None) -> None:
        """Begin a phase: words to send, or how many to take and, where it ends at the first other one, which."""
        self.words, self.want, self.got, self._expected = words, want, list[list[int]](), expected or []
        self.done, self.left, self._active = 0, len(words) if self.is_input else want, False
        self._monitor.forget()

    @property
    def under_way(self) -> bool:
        """Whether the phase's first word is on offer, or was."""
        return self._active or self.done > 0

    @property
    def offers(self) -> bool:
        """Whether the block has a word on offer here."""
        return not self.is_input and self._monitor.valid

    def drive(self, willing: bool) -> None:
        """Offer a word, or room for one, from when the clock falls; a word once offered stays on offer."""
        if self.is_input:
            self._active = self.left > 0 and (willing or self._active)
            # what stands on the wires meanwhile is anything
            idle = (self._random.getrandbits(wire.width) for wire in self._wires)
            _put(self._wires, self.words[self.done] if self._active else idle)
        else:
            self._active = willing
        self._own.drive(int(self._active))

    def sample(self) -> bool:
        """Check one cycle, just before the clock rises; returns whether a word moves."""
        if self.is_input:
            moved = self._active and bool(int(self._other.value))
            self._active = self._active and not moved
        elif self.want:
            word = self._monitor.sample()
            moved = word is not None
            if word:
                compare(self._test, self.name, self.done, word, self._expected)
                self.got.append(word)
        else:  # a generator that is loaded withdraws the number on offer, which nothing asked for
            moved = self._active and self._monitor.valid
        self.done += moved
        self.left -= moved
        assert self.left >= 0, f"{self._test}: {self.name} gave a word that nothing had asked for"
        return moved


class Sideband:
    """Wires that go with each transfer of a stream, its leader, without a handshake of their own."""

    def __init__(self, dut: Any, plan: dict[str, Any], leader: StreamDriver) -> None:
        self.is_input, self._leader = plan["direction"] == "in", leader
        wires = [getattr(dut, wire) for wire in plan["wires"]]
        self._wires, self._pins = wires, [DrivenWire(wire) for wire in wires] if self.is_input else []
        self.start([])

    def start(self, words: list[list[int]]) -> None:
        """Begin a phase: a word for each of the leader's transfers."""
        self.words, self.got = words, list[list[int]]()

    def drive(self) -> None:
        """Show the word of the leader's next transfer, from when the clock falls."""
        if self.is_input:
            left = self._leader.done < len(self.words)
            _put(self._pins, self.words[self._leader.done] if left else [0] * len(self._pins))

    def sample(self, moved: bool) -> None:
        """Keep the word where the leader moves."""
        if moved and not self.is_input:
            self.got.append([int(wire.value) for wire in self._wires])


def _put(pins: list[DrivenWire], word: Iterable[int]) -> None:
    for pin, value in zip(pins, word, strict=True):
        pin.drive(value)
