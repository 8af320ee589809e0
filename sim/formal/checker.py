"""Checker of a component: its ports, rules to prove of them, and assumptions about what drives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Assume, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

BROKEN = "broken_"
"""Prefix of the outputs that are high while a rule is broken."""


class Checker:
    """A component with free inputs, and rules about its ports.

    The reset is a free input too: rules hold for resets at any time, and what counts words is reset with the block.

    Parameters
    ----------
    block : Component
        The component to check.

    Attributes
    ----------
    m : Module
        Holds the block and the checks. Checks may read signals within the block.
    ports : dict of str to Signal
        Each port of the block, and one output for each rule, by name.
    streams : dict of str to interface
        The block's streams by path, for instance ``bus_ar``.
    inputs, outputs : list of str
        Names of the streams into and out of the block.
    lemmas : list of str
        Names of the rules on which others build.
    """

    def __init__(self, block: wiring.Component) -> None:
        self.m, self.block = Module(), block
        self.ports: dict[str, Signal] = {}
        self.streams: dict[str, Any] = {}
        self.inputs, self.outputs = list[str](), list[str]()
        self._checked = set[str]()
        self._lemmas = Value.cast(1)
        self.lemmas = list[str]()
        self.m.submodules.block = block
        self._connect("", block.signature, block)

    def _connect(self, prefix: str, signature: Any, interface: Any) -> None:
        """Give each leaf of an interface a port of its own; the members of a flipped signature are flipped."""
        for name, member in signature.members.items():
            inner, name = getattr(interface, name), prefix + name
            if member.is_port:
                value, inward = Value.cast(inner), member.flow is In
                self.ports[name] = port = Signal(value.shape(), name=name)
                self.m.d.comb += value.eq(port) if inward else port.eq(value)
                continue
            if hasattr(inner, "payload"):
                self.streams[name] = inner
                (self.inputs if member.flow is In else self.outputs).append(name)
            self._connect(f"{name}_", member.signature, inner)

    @contextmanager
    def lemmas_end(self) -> Iterator[None]:
        """Leave lemmas that are added within to the rules within: what does not need them is proved faster without."""
        before = self._lemmas
        yield
        self._lemmas = before

    def inner(self, name: str, port: Any) -> None:
        """Give a stream between parts of the block a name in `streams`; its handshake is not checked."""
        self.streams[name] = port
        self._checked.add(name)

    def rule(self, name: str, holds: Value) -> None:
        """Add a rule to prove: `holds` is 1 in every cycle."""
        wire = Signal(name=f"{BROKEN}{name}")
        if wire.name in self.ports:
            raise ValueError(f"there is a rule {name} already")
        self.m.d.comb += wire.eq(~holds & self._lemmas)
        self.ports[wire.name] = wire

    def lemma(self, name: str, holds: Value) -> None:
        """Add a rule on which those that are added later may build: they are about what happens before it is broken."""
        self.lemmas_together({name: holds})

    def lemmas_together(self, holds: dict[str, Value]) -> None:
        """Add lemmas that build on each other: each is about the cycles up to the first in which any of them is broken.

        The first rule to break is then seen, whichever it is; that none does is proved by induction over the cycles,
        for each of them by itself.
        """
        first, whole = next(iter(holds)), Value.cast(1)
        kept = Signal(name=f"{first}_kept", init=1)
        before, self._lemmas = self._lemmas, self._lemmas & kept
        for name, value in holds.items():
            self.rule(name, value)
            self.lemmas.append(name)
            whole &= value
        self._lemmas = hold = Signal(name=f"{first}_holds")
        # a signal, as each rule that is added later would have all of it as gates of its own
        self.m.d.comb += hold.eq(before & kept & whole)
        self.m.d.sync += kept.eq(kept & whole)

    def assume(self, holds: Value) -> None:
        """Assume that `holds` is 1 in every cycle up to the one that is looked at."""
        self.m.d.comb += Assume(holds)

    def moves(self, name: str) -> Value:
        """Tell whether a word of a stream is transferred in this cycle."""
        port = self.streams[name]
        return port.valid & port.ready

    def payload(self, name: str) -> Any:
        """Give a stream's payload."""
        return self.streams[name].payload

    def handshake(self, name: str, unless: Value | int = 0, withdrawn: Value | int = 0) -> None:
        """Check that `valid`, once high, stays high with the same payload until `ready`.

        A rule of an output, an assumption about an input. `handshakes` does this for all streams that have no check of
        their own.

        Parameters
        ----------
        name : str
            The stream.
        unless : Value
            High in a cycle after which the word on offer may be withdrawn or replaced.
        withdrawn : Value
            High in a cycle in which the word on offer in the one before may be gone or replaced.
        """
        port, payload = self.streams[name], Value.cast(self.streams[name].payload)
        self._checked.add(name)
        waits, before = Signal(name=f"{name}_waits"), Signal(len(payload), name=f"{name}_before")
        self.m.d.sync += [waits.eq(port.valid & ~port.ready & ~Value.cast(unless)), before.eq(payload)]
        free = ~waits | Value.cast(withdrawn)
        held, stable = free | port.valid, free | (payload.as_unsigned() == before)
        if name in self.inputs:
            self.assume(held & stable)
        else:
            self.rule(f"{name}_held", held)
            self.rule(f"{name}_stable", stable)

    def handshakes(self) -> None:
        """Check the handshake of every stream that has no check yet."""
        for name in self.streams:
            if name not in self._checked:
                self.handshake(name)

    def balance(
        self,
        name: str,
        gains: Iterable[tuple[Value, int]],
        spends: Iterable[tuple[Value, Value, int]],
        capacity: int,
        drained: int = 0,
        also: Value | int = 1,
    ) -> Signal:
        """Prove that no word is lost, and none made: what goes in, less what comes out, is within bounds.

        Rules ``NAME_made`` (no word is on offer that is not owed), ``NAME_lost`` (no more is owed than the block can
        hold: words that are lost stay owed) and, with `drained`, ``NAME_stuck`` (a block that is left to drain comes to
        owe nothing, in the end not one word).

        Parameters
        ----------
        name : str
            Prefix of the rules.
        gains : iterable of (event, words)
            What is owed from the next cycle on.
        spends : iterable of (offer, event, words)
            High while words are on offer; high as they are transferred.
        capacity : int
            Most words owed at a time.
        drained : int
            Cycles without a gain and with all outputs ready, after which nothing is owed.
        also : Value
            High in cycles that count for it: where the block waits for another input too, that this one is valid.

        Returns
        -------
        Signal
            What is owed.
        """
        m, gains, spends = self.m, list(gains), list(spends)
        owed = Signal(range(capacity + sum(words for _, words in gains) + 1), name=f"{name}_owed")
        gained = sum((Mux(event, words, 0) for event, words in gains), Value.cast(0))
        spent = sum((Mux(event, words, 0) for _, event, words in spends), Value.cast(0))
        m.d.sync += owed.eq(owed + gained - spent)
        for number, (offer, _, words) in enumerate(spends):
            self.rule(f"{name}_made" + (f"_{number}" if number else ""), ~offer | (owed >= words))
        self.rule(f"{name}_lost", owed <= capacity)
        if drained:
            busy = Cat(event for event, _ in gains).any()
            self.rule(
                f"{name}_stuck", ~self.lasts(f"{name}_quiet", self.all_ready & ~busy & also, drained) | (owed == 0)
            )
        return owed

    def words(
        self,
        given: str,
        taken: str,
        capacity: int,
        drained: int = 0,
        also: Value | int = 1,
        only: str = "",
        name: str = "",
    ) -> Signal:
        """Prove that each word of one stream becomes one of another, see `balance`.

        Parameters
        ----------
        given, taken : str
            An input and an output.
        capacity, drained, also : int, int, Value
            As `balance` has them.
        only : str
            One-bit field of both payloads: only words in which it is set count, as the last ones of packets.
        name : str
            Prefix of the rules, by default made of `taken` and `only`.
        """
        ends = [self.payload(name)[only] if only else 1 for name in (given, taken)]
        return self.balance(
            name or f"{taken}_{only or 'words'}",
            [(self.moves(given) & ends[0], 1)],
            [(self.streams[taken].valid & ends[1], self.moves(taken) & ends[1], 1)],
            capacity,
            drained,
            also,
        )

    def in_order(self, given: str, taken: str, capacity: int, fields: Iterable[str] = ()) -> None:
        """Prove that the words of an output are those of an input, unchanged and in order, see `becomes`.

        Parameters
        ----------
        given, taken : str
            An input and an output.
        capacity : int
            Most words inside.
        fields : iterable of str
            Fields that both payloads have; by default the payload as a whole.
        """
        names = tuple(fields)
        enters, leaves = (
            Cat(*(self.payload(port)[field] for field in names)) if names else Value.cast(self.payload(port))
            for port in (given, taken)
        )
        self.becomes(given, taken, capacity, enters, leaves)

    def becomes(self, given: str, taken: str, capacity: int, expected: Value, offered: Value) -> None:
        """Prove what each word of an input becomes at an output, in order.

        One word is followed, which any: a free input chooses it as it goes in. Rule ``TAKEN_in_order``.

        Parameters
        ----------
        given, taken : str
            An input and an output; a word of one becomes a word of the other.
        capacity : int
            Most words inside.
        expected : Value
            What becomes of the word at the input, in the cycle of its transfer.
        offered : Value
            What is compared with it, while the word is at the output.
        """
        m, name = self.m, f"{taken}_in_order"
        self.ports[f"{name}_choose"] = choose = Signal(name=f"{name}_choose")
        ahead, inside = Signal(range(capacity + 1), name=f"{name}_ahead"), Signal(name=f"{name}_inside")
        words = Signal(range(capacity + 2), name=f"{name}_words")
        word = Signal(len(expected), name=f"{name}_word")
        gain, spend = self.moves(given), self.moves(taken)
        m.d.sync += words.eq(words + gain - spend)
        due = inside & (ahead == 0)
        with m.If(inside):
            m.d.sync += [ahead.eq(ahead - (spend & ~due)), inside.eq(~(spend & due))]
        with m.Elif(gain & choose):
            m.d.sync += [inside.eq(1), ahead.eq(words - spend), word.eq(expected)]
        self.rule(name, ~(due & self.streams[taken].valid) | (offered.as_unsigned() == word))

    def packets(self, name: str, least: int, most: int) -> Signal:
        """Check the lengths of a stream's packets, whose final word is marked ``last``: an input's are assumed.

        Parameters
        ----------
        name : str
            The stream.
        least, most : int
            Words of the shortest and of the longest packet.

        Returns
        -------
        Signal
            Words of the packet in progress that have been transferred.
        """
        port, count = self.streams[name], Signal(range(most + 1), name=f"{name}_count")
        with self.m.If(self.moves(name)):
            self.m.d.sync += count.eq(Mux(port.payload.last, 0, count + 1))
        holds = ~port.valid | Mux(port.payload.last, count + 1 >= least, count + 1 < most)
        if name in self.inputs:
            self.assume(holds)
        else:
            self.rule(f"{name}_packet", holds)
        return count

    @property
    def all_ready(self) -> Value:
        """Whether every output's receiver is ready."""
        return _all(self.streams[name].ready for name in self.outputs)

    def takes(self, name: str, when: Value) -> None:
        """Prove that a word of an input is taken, whatever the outputs' receivers do. Rule ``NAME_taken``.

        Parameters
        ----------
        name : str
            The input.
        when : Value
            High in cycles in which the block has room, for instance while it is empty.
        """
        port = self.streams[name]
        self.rule(f"{name}_taken", ~(port.valid & when) | port.ready)

    def progress(self, within: int, also: Value | int = 1) -> None:
        """Prove that the block cannot hang: with all inputs valid and all outputs ready, a word moves before long.

        Rule ``progress``.

        Parameters
        ----------
        within : int
            Cycles without a transfer that are too many.
        also : Value
            High in cycles that count.
        """
        willing = _all(self.streams[name].valid for name in self.inputs) & self.all_ready & also
        still = _all(~self.moves(name) for name in (*self.inputs, *self.outputs))
        self.passes("progress", willing & still, within)

    def passes(self, name: str, condition: Value, cycles: int) -> None:
        """Prove that a condition does not hold in so many cycles in succession.

        Parameters
        ----------
        name : str
            The rule.
        condition : Value
            For instance: words are owed and wanted, and none comes.
        cycles : int
            Cycles that are too many.
        """
        self.rule(name, ~self.lasts(f"{name}_cycles", condition, cycles))

    def lasts(self, name: str, condition: Value, cycles: int) -> Value:
        """Tell whether a condition held in all of the last cycles."""
        count = Signal(range(cycles + 1), name=name)
        self.m.d.sync += count.eq(Mux(condition, Mux(count == cycles, cycles, count + 1), 0))
        return count == cycles


def _all(values: Iterable[Value]) -> Value:
    found = Value.cast(1)
    for value in values:
        found = found & value
    return found
