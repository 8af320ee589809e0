"""Rules of `tile_array`: each row meets the weights of its own tile, and its sums come `latency` cycles later.

A free input picks an arbitrary beat of weights. Its tile and its position are counted from the stream handshakes.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.stream.array.tile_array import TileArraySpec
from ...formal.checker import Checker
from ...formal.inside import probe_of
from ...formal.pipeline import check_stages

SPEC = TileArraySpec(lanes=6, columns=1)
CUT = ("multipliers",)


def check(checker: Checker, spec: TileArraySpec) -> None:
    m, (w, x) = checker.m, (checker.streams[name] for name in ("w", "x"))
    moves = check_stages(checker, spec, "x")
    swap, beat = checker.moves("x") & x.payload.swap, checker.moves("w")
    # beats loaded for tiles that are not active yet: at most a whole tile and the first beat of the next tile
    ahead = Signal(range(2 * spec.beats), name="ahead")
    m.d.sync += ahead.eq(ahead + beat - Mux(swap, spec.beats, 0))
    checker.lemma("ahead", ahead <= spec.beats + 1)
    checker.rule("x_taken", x.ready == moves & (~x.payload.swap | (ahead >= spec.beats)))
    checker.rule("w_taken", w.ready == moves & (ahead <= spec.beats))
    _follow(checker, spec, probe_of(checker.block.columns[-1]).weights, ahead, moves)
    checker.progress(1)


def _follow(checker: Checker, spec: TileArraySpec, weights: list[Signal], ahead: Signal, moves: Value) -> None:
    """Follow the chosen beat into the weight registers while rows of its tile pass."""
    m, w, x = checker.m, checker.streams["w"], checker.streams["x"]
    checker.ports["choose"] = choose = Signal(name="choose")
    row, beat = checker.moves("x"), checker.moves("w")
    swap = row & x.payload.swap
    place, chosen_position = Signal(spec.beats, name="place", init=1), Signal(spec.beats, name="own_place")
    word = Signal(len(Value.cast(w.payload)), name="word")
    # `before`: swaps until the chosen tile becomes active; `active`: the array uses this tile
    before, active = Signal(range(3), name="before"), Signal(name="active")
    with m.If(beat):
        m.d.sync += place.eq(place.rotate_left(1))
    with m.If(beat & choose & ~chosen_position.any()):
        m.d.sync += [chosen_position.eq(place), word.eq(w.payload), before.eq(1 + (ahead >= spec.beats) - swap)]
    with m.Elif(swap):
        m.d.sync += [active.eq(before == 1), before.eq(before - before.any())]
    mine = row & Mux(swap, before == 1, active)
    passing = Signal(spec.beats + 1, name="passing")
    with m.If(moves):
        m.d.sync += passing.eq(Cat(mine, passing[:-1]))
    for number, (even, odd) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
        holds = ~(chosen_position[number] & passing[1 + number]) | (Cat(even, odd) == word)
        checker.rule(f"weights_{number}", holds)
