"""Stream drivers: sources, sinks, and sidebands, which accompany a source or a sink."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from .monitors import HandshakeMonitor


class MismatchError(AssertionError):
    """A word differs from the golden model's."""


def compare(test: str, name: str, number: int, got: list[int], expected: list[list[int]]) -> None:
    """Compare a port's word with the expected word at the same index, if any; raises `MismatchError`."""
    if number < len(expected) and got != expected[number]:
        raise MismatchError(f"{test}: {name}, word {number}: {got}, golden {expected[number]}")


class DrivenWire:
    """Input wire that is written only when the value changes, because writes dominate cocotb's run time."""

    def __init__(self, wire: Any) -> None:
        self.width: int = len(wire)
        self._wire, self._value = wire, -1

    def drive(self, value: int) -> None:
        if value != self._value:
            self._wire.value = self._value = value


class StreamDriver:
    """One stream: a source for an input, or a sink for an output.

    `plan` is the stream's entry in the bench plan; `rng` draws the payload while no word is offered.

    Attributes
    ----------
    done, left : int
        Numbers of transfers in this phase: so far, and remaining.
    """

    def __init__(self, dut: Any, test: str, name: str, plan: dict[str, Any], rng: Random) -> None:
        self.name, self._test, self.is_input = name, test, plan["direction"] == "in"
        driven, sampled = ("valid", "ready") if self.is_input else ("ready", "valid")
        self._own, self._other, self._random = DrivenWire(getattr(dut, plan[driven])), getattr(dut, plan[sampled]), rng
        self._wires = [DrivenWire(getattr(dut, wire)) for wire in plan["wires"]] if self.is_input else []
        self._monitor = HandshakeMonitor(dut, test, plan["valid"], plan["ready"], plan["wires"])
        self.start([], 0)

    def start(self, words: list[list[int]], want: int, expected: list[list[int]] | None = None) -> None:
        """Begin a phase: `words` are the words to send, or the number to take; `expected` are the words to compare."""
        self.words, self.want, self.got, self._expected = words, want, list[list[int]](), expected or []
        self.done, self.left, self._active = 0, len(words) if self.is_input else want, False
        self._monitor.forget()

    @property
    def under_way(self) -> bool:
        """High once the phase's first word was offered."""
        return self._active or self.done > 0

    @property
    def offers(self) -> bool:
        """True while the block offers a word on an output."""
        return not self.is_input and self._monitor.valid

    def drive(self, willing: bool) -> None:
        """At the falling edge offer a word, or raise `ready`; an offered word stays offered."""
        if self.is_input:
            self._active = self.left > 0 and (willing or self._active)
            # the payload is random while no word is offered
            idle = (self._random.getrandbits(wire.width) for wire in self._wires)
            _put(self._wires, self.words[self.done] if self._active else idle)
        else:
            self._active = willing
        self._own.drive(int(self._active))

    def sample(self) -> bool:
        """Check a cycle, just before the rising edge; returns True for a transfer."""
        if self.is_input:
            moved = self._active and bool(int(self._other.value))
            self._active = self._active and not moved
        elif self.want:
            word = self._monitor.sample()
            moved = word is not None
            if word:
                compare(self._test, self.name, self.done, word, self._expected)
                self.got.append(word)
        else:  # a generator may withdraw an unrequested number when loaded
            moved = self._active and self._monitor.valid
        self.done += moved
        self.left -= moved
        assert self.left >= 0, f"{self._test}: {self.name} gave a word that nothing had asked for"
        return moved


class Sideband:
    """Wires that accompany each transfer of a leading stream, without a handshake."""

    def __init__(self, dut: Any, plan: dict[str, Any], leader: StreamDriver) -> None:
        self.is_input, self._leader = plan["direction"] == "in", leader
        wires = [getattr(dut, wire) for wire in plan["wires"]]
        self._wires, self._pins = wires, [DrivenWire(wire) for wire in wires] if self.is_input else []
        self.start([])

    def start(self, words: list[list[int]]) -> None:
        """Begin a phase: a word for each transfer of the leader."""
        self.words, self.got = words, list[list[int]]()

    def drive(self) -> None:
        """At the falling edge drive the word for the leader's next transfer."""
        if self.is_input:
            pending = self._leader.done < len(self.words)
            _put(self._pins, self.words[self._leader.done] if pending else [0] * len(self._pins))

    def sample(self, moved: bool) -> None:
        """Record the word at a transfer of the leader."""
        if moved and not self.is_input:
            self.got.append([int(wire.value) for wire in self._wires])


def _put(pins: list[DrivenWire], word: Iterable[int]) -> None:
    for pin, value in zip(pins, word, strict=True):
        pin.drive(value)
