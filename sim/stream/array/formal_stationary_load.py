"""Rules of `stationary_load`: a row of a key is a column of its tile, a value's row a lane; no beat is lost or made.

A row is followed, any: a free input chooses it as it is taken. Its tile is counted by the words of the streams alone.
The bits of a number go the same way, so that the lowest one stands for all.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.fixed import Q8_16
from ....golden.stream.array.stationary_load import StationaryLoadSpec
from ....golden.stream.array.tile_array import Q4_14
from ....hw.primitives.mux_tree import mux_tree
from ...formal.checker import Checker

SPEC = StationaryLoadSpec(lanes=4, columns=2)


def check(checker: Checker, spec: StationaryLoadSpec) -> None:
    """Add the rules."""
    m, given = checker.m, checker.streams["i"].payload
    taken, number = checker.moves("i"), Signal(range(spec.lanes), name="number")
    turn, part = Signal.like(given.turn, name="tile_turn"), Signal.like(given.part, name="tile_part")
    final = number == Mux(given.turn, spec.columns - 1, spec.lanes - 1)
    alike = (given.turn == turn) & (given.turn | (given.part == part))
    checker.assume(~checker.streams["i"].valid | (number == 0) | alike)
    with m.If(taken):
        m.d.sync += [number.eq(Mux(final, 0, number + 1)), turn.eq(given.turn), part.eq(given.part)]
    drained = 2 * spec.beats + spec.latency
    owed = checker.balance(
        "o_beats",
        [(taken & final, spec.beats)],
        [(checker.streams["o"].valid, checker.moves("o"), 1)],
        capacity=2 * spec.beats + 1,
        drained=drained,
    )
    # a beat does not wait until it is wanted
    checker.passes("o_offered", (owed != 0) & ~checker.streams["o"].valid, spec.latency)
    _follow(checker, spec, owed, number)
    checker.progress(drained + spec.beats)


def _follow(checker: Checker, spec: StationaryLoadSpec, owed: Signal, number: Signal) -> None:
    """Follow a row to the beats of its tile."""
    m, given, o = checker.m, checker.streams["i"].payload, checker.streams["o"]
    checker.ports["choose"] = choose = Signal(name="choose")
    followed, ahead, beat = Signal(name="followed"), Signal.like(owed, name="ahead"), Signal(range(spec.beats + 1))
    own, turn = Signal.like(number, name="own_number"), Signal(name="own_turn")
    values = [Signal(name=f"own_value{lane}") for lane in range(spec.lanes)]
    wires = Value.cast(given.value)
    zero = Value.cast(given.zero)
    parts = [list(range(at * spec.columns, (at + 1) * spec.columns)) for at in range(spec.parts)]
    with m.If(checker.moves("i") & choose & ~followed):
        m.d.sync += [followed.eq(1), own.eq(number), turn.eq(given.turn)]
        m.d.sync += ahead.eq(owed - checker.moves("o"))
        lanes = [Mux(zero[lane // spec.columns], 0, wires[Q8_16.width * lane]) for lane in range(spec.lanes)]
        m.d.sync += [into.eq(lane) for into, lane in zip(values, lanes, strict=True)]
        # a value's features of its part, in the places of the first
        with m.If(~given.turn):
            for column in range(spec.columns):
                m.d.sync += values[column].eq(mux_tree(given.part, [lanes[one[column]] for one in parts]))
    with m.Elif(followed & checker.moves("o")):
        m.d.sync += [ahead.eq(ahead - ahead.any()), beat.eq(beat + ((ahead == 0) & (beat != spec.beats)))]
    weights = Value.cast(o.payload)
    lower, upper = ([weights[Q4_14.width * (half * spec.columns + c)] for c in range(spec.columns)] for half in (0, 1))
    for at in range(spec.beats):
        due = followed & o.valid & (ahead == 0) & (beat == at)
        key = (mux_tree(own, lower) == values[2 * at]) & (mux_tree(own, upper) == values[2 * at + 1])
        chosen = Mux(own[0], Cat(upper), Cat(lower))
        value = (own[1:] != at) | (chosen == Cat(values[: spec.columns]))
        checker.rule(f"o_tile_{at}", ~due | Mux(turn, key, value))
