"""Pieces of the proofs of AXI4: what a manager promises of its bursts, and memories that answer in any legal way."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from amaranth.hdl import Cat, Mux, Signal, Value

from ...golden.axi.bus import PAGE
from .checker import Checker


class Bus(NamedTuple):
    """Shape of a bus and of its bursts.

    Parameters
    ----------
    address : int
        Bits of a byte address.
    data : int
        Bits of a beat.
    burst : int
        Most beats of a burst.
    """

    address: int
    data: int
    burst: int

    @property
    def low(self) -> int:
        """Address bits within a beat."""
        return (self.data // 8 - 1).bit_length()


def legal_command(checker: Checker, name: str, bus: Bus) -> None:
    """Assume of a stream of transfer commands what its documentation asks: an aligned address, at least one beat."""
    port = checker.streams[name]
    checker.assume(~port.valid | ((port.payload.address[: bus.low] == 0) & (port.payload.beats != 0)))


def legal_bursts(checker: Checker, name: str, bus: Bus) -> Value:
    """Check that bursts of an address channel are legal; tell whether a new one appears.

    Rule ``NAME_legal``: aligned, at most the longest, within a page of 4 KiB, and not across a multiple of the longest.
    """
    port, burst = checker.streams[name], checker.payload(name)
    first = burst.address[bus.low :]
    page = PAGE // (bus.data // 8)
    fits = [first[: (limit - 1).bit_length()] + burst.length < limit for limit in (page, bus.burst)]
    legal = (burst.address[: bus.low] == 0) & (burst.length < bus.burst) & fits[0] & fits[1]
    checker.lemma(f"{name}_legal", ~port.valid | legal)
    waited = Signal(name=f"{name}_waited")
    checker.m.d.sync += waited.eq(port.valid & ~port.ready)
    return port.valid & ~waited


class Reads:
    """Memory that answers the bursts of a read port, after any delay and with any response.

    Assumed: a beat comes only for a burst that was accepted, bursts in order, the last beat of each marked. Rules:
    `legal_bursts`, ``NAME_r_room`` (always ready, and no more beats are outstanding than `most`).

    Parameters
    ----------
    checker : Checker
        Of the manager.
    name : str
        Path of the port.
    bus : Bus
        Its shape.
    most : int
        Most beats outstanding.

    Attributes
    ----------
    owed : Signal
        Beats of accepted bursts that have not come.
    new : Value
        High in the first cycle of a burst's offer.
    ends : Value
        High as a burst's last beat comes.
    bad : Value
        High as a beat comes with an error.
    quiet : Value
        Nothing is on offer or outstanding.
    """

    def __init__(self, checker: Checker, name: str, bus: Bus, most: int) -> None:
        m, ar, r = checker.m, checker.streams[f"{name}_ar"], checker.streams[f"{name}_r"]
        asked, comes = checker.moves(f"{name}_ar"), checker.moves(f"{name}_r")
        self.new = legal_bursts(checker, f"{name}_ar", bus)
        self.owed = Signal(range(most + bus.burst + 1), name=f"{name}_r_owed")
        # the beats to come, the next one lowest: 1 for the last of a burst
        marks = Signal(most + bus.burst, name=f"{name}_r_marks")
        rest, left = Signal.like(marks, name=f"{name}_r_rest"), Signal.like(self.owed, name=f"{name}_r_left")
        m.d.comb += [rest.eq(Mux(comes, marks >> 1, marks)), left.eq(self.owed - comes)]
        length = ar.payload.length[: (bus.burst - 1).bit_length()]
        m.d.sync += [
            marks.eq(rest | Mux(asked, 1 << (left + length), 0)),
            self.owed.eq(left + Mux(asked, length + 1, 0)),
        ]
        checker.assume(~r.valid | ((self.owed != 0) & (r.payload.last == marks[0])))
        checker.lemma(f"{name}_r_room", r.ready & (self.owed <= most))
        shaped = [(self.owed == count) & ~marks[count:].any() & marks[count - 1] for count in range(1, len(marks) + 1)]
        checker.lemma(f"{name}_r_marks", Cat((self.owed == 0) & ~marks.any(), *shaped).any())
        self.bursts = sum(marks, Value.cast(0))
        self.ends, self.bad = comes & r.payload.last, comes & r.payload.response[1]
        self.quiet = ~ar.valid & (self.owed == 0)


class Writes:
    """Memory that takes the bursts of a write port, and answers after any delay and with any response.

    Assumed: an answer comes only for a burst whose address and last beat were accepted. Rules: `legal_bursts`,
    ``NAME_w_last`` (a beat is on offer only for a burst that was announced, all bytes strobed, and `last` marks exactly
    a burst's final one), ``NAME_w_whole`` (`valid` does not fall within a burst), ``NAME_b_room`` (always ready, and no
    more bursts are without an answer than `most`).

    Parameters
    ----------
    checker : Checker
        Of the manager.
    name : str
        Path of the port.
    bus : Bus
        Its shape.
    most : int
        Most bursts without an answer.

    Attributes
    ----------
    new, bad, quiet : Value
        As `Reads` has them.
    ends : Value
        High as a burst's answer comes.
    unsent, done, taken : Signal
        Bursts announced whose last beat is not accepted; that are not answered but sent; and but their address taken.
    """

    def __init__(self, checker: Checker, name: str, bus: Bus, most: int) -> None:
        m, aw, w, b = checker.m, *(checker.streams[f"{name}_{each}"] for each in ("aw", "w", "b"))
        announced, sends, answered = (checker.moves(f"{name}_{each}") for each in ("aw", "w", "b"))
        self.new = legal_bursts(checker, f"{name}_aw", bus)
        sent = sends & w.payload.last
        # bursts by how far they are: announced but not sent, sent, accepted; the last two until they are answered
        counts = [Signal(range(most + 3), name=f"{name}_{each}") for each in ("unsent", "done", "taken")]
        self.unsent, self.done, self.taken = unsent, done, taken = counts
        m.d.sync += [
            unsent.eq(unsent + self.new - sent),
            done.eq(done + sent - answered),
            taken.eq(taken + announced - answered),
        ]
        lengths = [Signal(range(bus.burst), name=f"{name}_length{at}") for at in range(most + 1)]
        at = Signal(range(bus.burst), name=f"{name}_w_at")
        with m.If(sends):
            m.d.sync += at.eq(Mux(w.payload.last, 0, at + 1))
        with m.If(sent):
            m.d.sync += [one.eq(other) for one, other in pairwise(lengths)]
        with m.If(self.new):
            place = unsent - sent
            for number, each in enumerate(lengths):
                with m.If(place == number):
                    m.d.sync += each.eq(aw.payload.length)
        # a burst is announced in the cycle in which its address comes on offer: its beats may come with it
        length = Mux(unsent == 0, aw.payload.length, lengths[0])
        due = (unsent != 0) | self.new
        fits = due & (w.payload.last == (at == length)) & w.payload.strobe.all()
        checker.lemma(f"{name}_w_last", ~w.valid | fits)
        checker.rule(f"{name}_w_whole", (at == 0) | w.valid)
        checker.assume(~b.valid | ((done != 0) & (taken != 0)))
        checker.lemma(f"{name}_b_room", b.ready & (unsent + done <= most))
        self.ends, self.bad = answered, answered & b.payload.response[1]
        self.quiet = ~aw.valid & (unsent == 0) & (done == 0) & (taken == 0)


def first_error(checker: Checker, bad: Value, response: Value, address: Value) -> None:
    """Prove of a manager's ports `error` and `error_address` that they tell the first bad response, and keep it.

    Rules ``error_seen`` (at once, and no other code), ``error_held``, ``error_address``.

    Parameters
    ----------
    checker : Checker
        Of the manager.
    bad : Value
        High as a bad response is looked at.
    response, address : Value
        Its code, and the byte address of its burst.
    """
    m, block = checker.m, checker.block
    first, before, place = Signal(2, name="first"), Signal(2, name="before"), Signal(len(address), name="place")
    with m.If(bad & (first == 0)):
        m.d.sync += [first.eq(response), place.eq(address)]
    m.d.sync += before.eq(block.error)
    checker.lemma("error_seen", block.error == first)
    checker.rule("error_held", (before == 0) | (block.error == before))
    checker.rule("error_address", ~block.error.any() | (block.error_address == place))
