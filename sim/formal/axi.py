"""Building blocks of AXI4 proofs: legal bursts of a manager, and memories with any legal response behaviour."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from amaranth.hdl import Cat, Mux, Signal, Value

from ...golden.axi.bus import PAGE
from .checker import Checker


class Bus(NamedTuple):
    """Shape of a bus: bits of a byte address, bits of a beat, maximum number of beats in a burst."""

    address: int
    data: int
    burst: int

    @property
    def low(self) -> int:
        """Number of address bits within a beat."""
        return (self.data // 8 - 1).bit_length()


def legal_command(checker: Checker, name: str, bus: Bus) -> None:
    """Assume legal transfer commands on a stream: an aligned address, at least one beat."""
    port = checker.streams[name]
    checker.assume(~port.valid | ((port.payload.address[: bus.low] == 0) & (port.payload.beats != 0)))


def legal_bursts(checker: Checker, name: str, bus: Bus) -> Value:
    """Check the bursts of an address channel; returns a flag, high in the first cycle of a burst's offer.

    Rule ``NAME_legal``: aligned, at most `burst` beats, within a 4 KiB page, not across a multiple of the maximal
    burst.
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

    Assumption: beats come only for accepted bursts, in order, each burst's last beat marked. Rules: `legal_bursts`, and
    ``NAME_r_room`` (always ready, at most `most` beats outstanding).

    Attributes
    ----------
    owed : Signal
        Number of outstanding beats of accepted bursts.
    new, ends, bad : Value
        High in the first cycle of a burst's offer; with a burst's last beat; with a beat in error.
    quiet : Value
        High while nothing is offered or outstanding.
    """

    def __init__(self, checker: Checker, name: str, bus: Bus, most: int) -> None:
        m, ar, r = checker.m, checker.streams[f"{name}_ar"], checker.streams[f"{name}_r"]
        asked, comes = checker.moves(f"{name}_ar"), checker.moves(f"{name}_r")
        self.new = legal_bursts(checker, f"{name}_ar", bus)
        self.owed = Signal(range(most + bus.burst + 1), name=f"{name}_r_owed")
        # one bit per outstanding beat, 1 for a burst's last beat; bit 0 is the next beat
        marks = Signal(most + bus.burst, name=f"{name}_r_marks")
        rest, remaining = Signal.like(marks, name=f"{name}_r_rest"), Signal.like(self.owed, name=f"{name}_r_left")
        m.d.comb += [rest.eq(Mux(comes, marks >> 1, marks)), remaining.eq(self.owed - comes)]
        length = ar.payload.length[: (bus.burst - 1).bit_length()]
        m.d.sync += [
            marks.eq(rest | Mux(asked, 1 << (remaining + length), 0)),
            self.owed.eq(remaining + Mux(asked, length + 1, 0)),
        ]
        checker.assume(~r.valid | ((self.owed != 0) & (r.payload.last == marks[0])))
        checker.lemma(f"{name}_r_room", r.ready & (self.owed <= most))
        shaped = [(self.owed == count) & ~marks[count:].any() & marks[count - 1] for count in range(1, len(marks) + 1)]
        checker.lemma(f"{name}_r_marks", Cat((self.owed == 0) & ~marks.any(), *shaped).any())
        self.bursts = sum(marks, Value.cast(0))
        self.ends, self.bad = comes & r.payload.last, comes & r.payload.response[1]
        self.quiet = ~ar.valid & (self.owed == 0)


class Writes:
    """Memory that accepts the bursts of a write port, and answers after any delay and with any response.

    Assumption: an answer comes only after its burst's address and last beat were accepted. Rules: `legal_bursts`,
    ``NAME_w_last`` (beats only for announced bursts, all bytes strobed, `last` on exactly the final beat),
    ``NAME_w_whole`` (`valid` stays high within a burst), ``NAME_b_room`` (always ready, at most `most` bursts
    unanswered).

    Attributes
    ----------
    new, ends, bad, quiet : Value
        As in `Reads`; `ends` is high with a burst's answer.
    unsent, done, taken : Signal
        Number of announced bursts whose last beat is not sent; of unanswered bursts with all beats sent; of unanswered
        bursts whose address is accepted.
    """

    def __init__(self, checker: Checker, name: str, bus: Bus, most: int) -> None:
        m, aw, w, b = checker.m, *(checker.streams[f"{name}_{part}"] for part in ("aw", "w", "b"))
        announced, sends, answered = (checker.moves(f"{name}_{part}") for part in ("aw", "w", "b"))
        self.new = legal_bursts(checker, f"{name}_aw", bus)
        sent = sends & w.payload.last
        # numbers of bursts: announced but not sent; sent but unanswered; address accepted but unanswered
        counts = [Signal(range(most + 3), name=f"{name}_{part}") for part in ("unsent", "done", "taken")]
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
            m.d.sync += [register.eq(following) for register, following in pairwise(lengths)]
        with m.If(self.new):
            place = unsent - sent
            for number, part in enumerate(lengths):
                with m.If(place == number):
                    m.d.sync += part.eq(aw.payload.length)
        # announced from the first cycle of the address's offer: beats may start in the same cycle
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
    """Prove a manager's ports `error` and `error_address`: they hold the first bad response.

    Rules: ``error_seen`` (the exact code, at once), ``error_held``, ``error_address``. `bad` is high when a bad
    response is processed; `response` is the response's code, `address` the byte address of its burst.
    """
    m, block = checker.m, checker.block
    first, before, place = Signal(2, name="first"), Signal(2, name="before"), Signal(len(address), name="place")
    with m.If(bad & (first == 0)):
        m.d.sync += [first.eq(response), place.eq(address)]
    m.d.sync += before.eq(block.error)
    checker.lemma("error_seen", block.error == first)
    checker.rule("error_held", (before == 0) | (block.error == before))
    checker.rule("error_address", ~block.error.any() | (block.error_address == place))
