"""Rules of a number source: words, loads, marks and replays against the golden model, position by position.

In a proof the period is so short that a table in the checker holds the whole golden sequence.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from ...golden.fixed import Integers
from ...golden.rng.pezo import PezoSpec
from ...golden.rng.pool import PoolSpec
from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker

Source = UrngSpec | ScaleSpec | PoolSpec | PezoSpec


def withholding(checker: Checker) -> Value:
    """High while a load suspends words: from the load's first bit to the bit marked last, gaps included."""
    load, under_way = checker.streams["load"], Signal(name="under_way")
    with checker.m.If(checker.moves("load")):
        checker.m.d.sync += under_way.eq(~load.payload.last)
    return checker.moves("load") | under_way


def turning(checker: Checker, cycles: int) -> Value:
    """High in the `cycles` cycles after a reset, mark or replay."""
    m, cycles_left = checker.m, Signal(range(cycles + 1), init=cycles, name="turns_left")
    with m.If(cycles_left != 0):
        m.d.sync += cycles_left.eq(cycles_left - 1)
    with m.Elif(checker.moves("o") & (checker.ports["replay"] | checker.ports["mark"]).any()):
        m.d.sync += cycles_left.eq(cycles)
    return cycles_left != 0


def offers(checker: Checker, cycles: int = 0) -> None:
    """Rules ``offered`` (a word in every cycle outside loads, marks and replays), ``load_taken``, and the handshake.

    Only a load may withdraw an offered word. `cycles` is the duration of a mark or replay.
    """
    away = withholding(checker)
    turns = turning(checker, cycles) if cycles else Const(0, 1)
    checker.handshake("o", withdrawn=checker.moves("load"))
    checker.rule("offered", checker.streams["o"].valid == ~(turns | away))
    checker.rule("load_taken", checker.streams["load"].ready == ~turns)


def sequence(checker: Checker, spec: Source, replays: bool) -> None:
    """Rules ``sequence`` (golden word of the position, after any load, mark or replay) and ``scan`` (a load scans out
    the old state).

    After a load shorter than the state there is no golden position, so the rules pause until the next complete load.
    `replays` is true if the block has inputs `replay` and `mark`.
    """
    m, port, load = checker.m, checker.streams["o"], checker.streams["load"]
    words = spec.run({}, spec.period)["o"]
    table = Array(spec.streams()["o"].pack(words, words))
    serial = [_number(spec.serial(position)) for position in range(spec.period)]
    size = len(spec.serial(0))
    position, mark = (Signal(range(spec.period), name=name) for name in ("position", "marked"))
    known, loading = Signal(init=1, name="known"), Signal(name="loading")
    # the shift chain holds the position's state; during a load, also the bits shifted in
    chain, entered = Signal(size, name="chain"), Signal(range(size + 1), name="entered")
    now = Signal(size, name="chain_now")
    m.d.comb += now.eq(Mux(loading, chain, Array(serial)[position]))
    word = Value.cast(port.payload)
    checker.rule("sequence", ~(port.valid & known) | (word == table[position]))
    whole = known | (entered == size)
    scan = checker.ports["scan"][0]
    if not size:
        checker.rule("scan", scan == load.payload.bit)
        whole = Const(1, 1)
    else:
        checker.rule("scan", ~(checker.moves("load") & whole) | (scan == now[-1]))
    upcoming = Cat(load.payload.bit, now[:-1])[:size]
    following = Signal.like(position, name="following")
    m.d.comb += following.eq(Mux(position == spec.period - 1, 0, position + 1))
    if replays:
        with m.If(checker.ports["replay"][0]):
            m.d.comb += following.eq(mark)
    with m.If(checker.moves("load")):
        m.d.sync += [loading.eq(~load.payload.last), chain.eq(upcoming)]
        m.d.sync += entered.eq(Mux(load.payload.last, 0, Mux(entered == size, size, entered + 1)))
        with m.If(load.payload.last):
            if size:
                m.d.sync += known.eq(0)
                for number, state in enumerate(serial):
                    with m.If((upcoming == state) & (entered + 1 >= size)):
                        m.d.sync += [known.eq(1), position.eq(number), mark.eq(number)]
    with m.Elif(checker.moves("o")):
        m.d.sync += position.eq(following)
        if replays:
            with m.If(checker.ports["mark"][0] | checker.ports["replay"][0]):
                m.d.sync += mark.eq(following)


def frozen(checker: Checker, bits: int, word: int) -> None:
    """Rule ``frozen``: after a load of all 0 the state stays 0, and the block repeats `word` until the next load."""
    m, load = checker.m, checker.streams["load"]
    zeros, stands = Signal(range(bits + 1), name="zeros_loaded"), Signal(name="stands_at_zero")
    with m.If(checker.moves("load")):
        more = Mux(load.payload.bit, 0, Mux(zeros == bits, bits, zeros + 1))
        m.d.sync += [zeros.eq(more), stands.eq(load.payload.last & (more == bits))]
        with m.If(load.payload.last):
            m.d.sync += zeros.eq(0)
    port = checker.streams["o"]
    checker.rule("frozen", ~(port.valid & stands) | (Value.cast(port.payload) == word))


def _number(bits: Integers) -> int:
    return sum(int(bit) << place for place, bit in enumerate(reversed(bits.tolist())))
