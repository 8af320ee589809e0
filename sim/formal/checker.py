"""Checker of a component: its ports, the rules to prove, and assumptions about its environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Assume, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

BROKEN = "broken_"
"""Prefix of rule outputs, high while a rule is broken."""


class Checker:
    """A component with free inputs, and rules about its ports.

    The reset is a free input too: rules hold for resets at any time. Counters of rules are reset with the block.

    Attributes
    ----------
    m : Module
        Contains the block and the checks. Checks may read signals inside the block.
    ports : dict of str to Signal
        All ports of the block and an output for each rule, by name.
    streams : dict of str to interface
        Streams of the block by path, for instance ``bus_ar``.
    inputs, outputs : list of str
        Names of the streams into and out of the block.
    lemmas : list of str
        Names of rules used by other rules.
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
        """Create a top-level port for each leaf of an interface."""
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
        """Context: lemmas added inside apply only to rules added inside, as unneeded lemmas slow proofs down."""
        before = self._lemmas
        yield
        self._lemmas = before

    def inner(self, name: str, port: Any) -> None:
        """Register a stream between submodules in `streams`, without a handshake check."""
        self.streams[name] = port
        self._checked.add(name)

    def rule(self, name: str, holds: Value) -> None:
        """Add a rule: `holds` is 1 in every cycle."""
        wire = Signal(name=f"{BROKEN}{name}")
        if wire.name in self.ports:
            raise ValueError(f"there is a rule {name} already")
        self.m.d.comb += wire.eq(~holds & self._lemmas)
        self.ports[wire.name] = wire

    def lemma(self, name: str, holds: Value) -> None:
        """Add a rule that later rules may assume: they are then proved up to the first cycle that breaks it."""
        self.lemmas_together({name: holds})

    def lemmas_together(self, holds: dict[str, Value]) -> None:
        """Add mutually dependent lemmas: each is proved up to the first cycle that breaks any of them.

        Induction over the cycles: no lemma breaks first, hence none breaks. Each lemma is proved separately.
        """
        first, whole = next(iter(holds)), Value.cast(1)
        kept = Signal(name=f"{first}_kept", init=1)
        before, self._lemmas = self._lemmas, self._lemmas & kept
        for name, value in holds.items():
            self.rule(name, value)
            self.lemmas.append(name)
            whole &= value
        self._lemmas = hold = Signal(name=f"{first}_holds")
        # a signal: otherwise every later rule would duplicate these gates
        self.m.d.comb += hold.eq(before & kept & whole)
        self.m.d.sync += kept.eq(kept & whole)

    def assume(self, holds: Value) -> None:
        """Assume `holds` in every cycle up to and including the checked cycle."""
        self.m.d.comb += Assume(holds)

    def moves(self, name: str) -> Value:
        """High in a cycle with a transfer on a stream."""
        port = self.streams[name]
        return port.valid & port.ready

    def payload(self, name: str) -> Any:
        """Payload of a stream."""
        return self.streams[name].payload

    def handshake(self, name: str, unless: Value | int = 0, withdrawn: Value | int = 0) -> None:
        """Check that `valid`, once high, stays high with the same payload until `ready`.

        For an output this is a rule, for an input an assumption. The offered word may change in the cycle after
        `unless` is high, and in a cycle with `withdrawn` high. `handshakes` covers all streams without a call of this
        function.
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
        """Check the handshake of every stream without a check."""
        for name in self.streams:
            if name not in self._checked:
                self.handshake(name)

    def balance(
        self,
        name: str,
        gains: Iterable[tuple[Value, int]],
        spends: str | Iterable[tuple[Value, Value, int]],
        capacity: int,
        drained: int = 0,
        also: Value | int = 1,
    ) -> Signal:
        """Prove that no word is lost or invented: outstanding words stay within bounds. Returns their number.

        Rules: ``NAME_made`` (every offered word is outstanding), ``NAME_lost`` (outstanding words fit the block's
        capacity; lost words stay outstanding) and, with `drained`, ``NAME_stuck`` (an idle block drains completely).

        Parameters
        ----------
        gains : iterable of (event, words)
            The words are outstanding from the cycle after the event on.
        spends : str or iterable of (offer, event, words)
            `offer` is high while the words are offered, `event` at their transfer. A stream's name: its words.
        capacity : int
            Maximum number of outstanding words.
        drained : int
            Number of cycles without a gain and with all outputs ready, after which no word is outstanding; 0: no rule.
        also : Value
            High in cycles that count for `drained`, for instance while another required input is valid.
        """
        if isinstance(spends, str):
            spends = [(self.streams[spends].valid, self.moves(spends), 1)]
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
        """Prove that each word of stream `given` becomes a word of stream `taken`, see `balance`.

        With `only`, a one-bit field of both payloads, only words with this bit count, for instance the last words of
        packets. `name` is the prefix of the rules, by default from `taken` and `only`.
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
        """Prove that an output carries the words of an input, unchanged and in order, see `becomes`.

        `fields` limits the comparison to some fields of both payloads.
        """
        names = tuple(fields)
        enters, leaves = (
            Cat(*(self.payload(port)[field] for field in names)) if names else Value.cast(self.payload(port))
            for port in (given, taken)
        )
        self.becomes(given, taken, capacity, enters, leaves)

    def becomes(self, given: str, taken: str, capacity: int, expected: Value, offered: Value) -> None:
        """Prove the mapping of input words to output words, in order. Rule ``TAKEN_in_order``.

        A free input picks an arbitrary word at input `given`, which is then followed to output `taken`, with at most
        `capacity` words inside. `expected` is its output value, in the cycle of the input transfer; `offered` is the
        value to compare, while the word is at the output.
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
        """Check that a stream's packets, ended by ``last``, have `least` to `most` words.

        An assumption for inputs, a rule for outputs. Returns the number of words of the current packet transferred so
        far.
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
        """High if every output's receiver is ready."""
        return _all(self.streams[name].ready for name in self.outputs)

    def takes(self, name: str, when: Value) -> None:
        """Prove that an input accepts a word while `when` is high, whatever the receivers do. Rule ``NAME_taken``."""
        port = self.streams[name]
        self.rule(f"{name}_taken", ~(port.valid & when) | port.ready)

    def progress(self, within: int, also: Value | int = 1) -> None:
        """Prove by rule ``progress`` that the block cannot hang: with all inputs valid and outputs ready, a word moves.

        The rule is broken after `within` successive cycles without a transfer; `also` must be high in all of them.
        """
        willing = _all(self.streams[name].valid for name in self.inputs) & self.all_ready & also
        still = _all(~self.moves(name) for name in (*self.inputs, *self.outputs))
        self.passes("progress", willing & still, within)

    def passes(self, name: str, condition: Value, cycles: int) -> None:
        """Prove that a condition, such as a wait, never holds in `cycles` successive cycles."""
        self.rule(name, ~self.lasts(f"{name}_cycles", condition, cycles))

    def lasts(self, name: str, condition: Value, cycles: int) -> Value:
        """High if a condition held in each of the last `cycles` cycles."""
        count = Signal(range(cycles + 1), name=name)
        self.m.d.sync += count.eq(Mux(condition, Mux(count == cycles, cycles, count + 1), 0))
        return count == cycles


def _all(values: Iterable[Value]) -> Value:
    conjunction = Value.cast(1)
    for value in values:
        conjunction = conjunction & value
    return conjunction
