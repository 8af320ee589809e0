"""Rules of `stationary_load`: a key row becomes a column of its tile, a value row a lane; no beat is lost or invented.

A free input picks an arbitrary row, which the rules follow into its tile. Only bit 0 of each number is compared: all
bits take the same path.
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
    m, row_word = checker.m, checker.streams["i"].payload
    taken, number = checker.moves("i"), Signal(range(spec.lanes), name="number")
    turn, part = Signal.like(row_word.turn, name="tile_turn"), Signal.like(row_word.part, name="tile_part")
    final = number == Mux(row_word.turn, spec.columns - 1, spec.lanes - 1)
    alike = (row_word.turn == turn) & (row_word.turn | (row_word.part == part))
    checker.assume(~checker.streams["i"].valid | (number == 0) | alike)
    with m.If(taken):
        m.d.sync += [number.eq(Mux(final, 0, number + 1)), turn.eq(row_word.turn), part.eq(row_word.part)]
    drained = 2 * spec.beats + spec.latency
    outstanding = checker.balance("o_beats", [(taken & final, spec.beats)], "o", 2 * spec.beats + 1, drained)
    # a beat is offered without waiting for `ready`
    checker.passes("o_offered", (outstanding != 0) & ~checker.streams["o"].valid, spec.latency)
    _follow(checker, spec, outstanding, number)
    checker.progress(drained + spec.beats)


def _follow(checker: Checker, spec: StationaryLoadSpec, pending: Signal, number: Signal) -> None:
    """Follow the chosen row to the beats of its tile."""
    m, row_word, o = checker.m, checker.streams["i"].payload, checker.streams["o"]
    checker.ports["choose"] = choose = Signal(name="choose")
    followed, ahead, beat = Signal(name="followed"), Signal.like(pending, name="ahead"), Signal(range(spec.beats + 1))
    row_number, turn = Signal.like(number, name="own_number"), Signal(name="own_turn")
    values = [Signal(name=f"own_value{lane}") for lane in range(spec.lanes)]
    wires = Value.cast(row_word.value)
    zero = Value.cast(row_word.zero)
    parts = [list(range(at * spec.columns, (at + 1) * spec.columns)) for at in range(spec.parts)]
    with m.If(checker.moves("i") & choose & ~followed):
        m.d.sync += [followed.eq(1), row_number.eq(number), turn.eq(row_word.turn)]
        m.d.sync += ahead.eq(pending - checker.moves("o"))
        lanes = [Mux(zero[lane // spec.columns], 0, wires[Q8_16.width * lane]) for lane in range(spec.lanes)]
        m.d.sync += [into.eq(lane) for into, lane in zip(values, lanes, strict=True)]
        # of a value row only one part is used: it moves to the first columns
        with m.If(~row_word.turn):
            for column in range(spec.columns):
                m.d.sync += values[column].eq(mux_tree(row_word.part, [lanes[segment[column]] for segment in parts]))
    with m.Elif(followed & checker.moves("o")):
        m.d.sync += [ahead.eq(ahead - ahead.any()), beat.eq(beat + ((ahead == 0) & (beat != spec.beats)))]
    weights = Value.cast(o.payload)
    lower, upper = ([weights[Q4_14.width * (half * spec.columns + c)] for c in range(spec.columns)] for half in (0, 1))
    for at in range(spec.beats):
        due = followed & o.valid & (ahead == 0) & (beat == at)
        key = (mux_tree(row_number, lower) == values[2 * at]) & (mux_tree(row_number, upper) == values[2 * at + 1])
        chosen = Mux(row_number[0], Cat(upper), Cat(lower))
        value = (row_number[1:] != at) | (chosen == Cat(values[: spec.columns]))
        checker.rule(f"o_tile_{at}", ~due | Mux(turn, key, value))
