"""Rules of `array_path`: the array never overruns the partial sums, and results leave on the stream of their tile kind.

Nothing can wait after the array, so a row enters only with a free result slot and once its accumulator is written.
Array and partial sums have rules of their own.
"""

from __future__ import annotations

from itertools import combinations

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.lib import data

from ....golden.stream.array.array_path import APART, ArrayPathSpec, TileKind
from ....hw.probe import Probe
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of, stored_in

SPEC = ArrayPathSpec(lanes=6, columns=1, sums=4, drain=1, queries=2)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: ArrayPathSpec) -> None:
    """Assumes order words with 1 to `sums` rows and a valid tile kind."""
    block, order = checker.block, checker.streams["order"]
    sizes = (order.payload.rows != 0) & (order.payload.rows <= spec.sums) & (order.payload.kind <= max(TileKind))
    checker.assume(~order.valid | sizes)
    rows, streams = probe_of(block), checker.streams
    offered = [streams[name].valid for name in ("sums", "scores", "contexts")]
    checker.rule("kinds_apart", ~rows.taken | (rows.other == rows.attention))
    checker.rule("sums_apart", ~Cat(first & other for first, other in combinations(offered, 2)).any())
    _never_wait(checker, spec, rows)


def _never_wait(checker: Checker, spec: ArrayPathSpec, rows: Probe) -> None:
    """Prove the partial sums ready for every row leaving the array."""
    parts = parts_of(checker.block)
    array, sums = probe_of(parts.array), parts.partial_sums
    own, queue = probe_of(sums), parts_of(sums).queue
    layout = checker.block._tag
    stages = list(zip(array.valid, [data.View(layout, tag) for tag in array.tags], strict=True))
    # places of a row: in the array, in the queue, or offered with its last part
    inside = sum((valid & tag.last for valid, tag in stages), Value.cast(0))
    offered = sums.o.valid & (sums.o.payload.part == spec.partial_sums.parts - 1)
    # rows whose sums are not written back yet, youngest first
    recent = [*((valid, tag.row) for valid, tag in stages), (own.adds, own.read_row), (own.write, own.added_row)]
    apart = [
        ~(valid & ~tag.first & flag & (tag.row == row))
        for age, (valid, tag) in enumerate(stages)
        for flag, row in recent[age + 1 : age + APART]
    ]
    entered = _numbers(checker, rows, [(valid, tag.row) for valid, tag in stages[: APART - 1]])
    checker.lemmas_together(
        entered
        | {
            "final": ~rows.active | (rows.final == (rows.left == 0)),
            "spare": rows.spare == rows.room.any(),
            "places": own.places + own.completes + own.complete + stored_in(queue) == spec.sums,
            "room": own.places == rows.room + inside + offered,
            "rows_apart": Cat(apart).all(),
            "sums_taken": ~sums.i.valid | sums.i.ready,
            "queue_taken": ~queue.i.valid | queue.i.ready,
        }
    )


def _numbers(checker: Checker, rows: Probe, stages: list[tuple[Value, Value]]) -> dict[str, Value]:
    """Assume the row order of a tile; return lemmas about the last rows and the current tile.

    Assumption: a row number repeats no sooner than after as many rows as its tile has.
    """
    m = checker.m
    numbers = [Signal.like(rows.tag.row, name=f"number{age}") for age in range(APART - 1)]
    with m.If(rows.taken):
        m.d.sync += [into.eq(row) for into, row in zip(numbers, [rows.tag.row, *numbers], strict=False)]
    # too early: fewer rows have passed since this row than the tile has
    early = [~few & (rows.tag.row == number) for few, number in zip(reversed(rows.few), numbers, strict=True)]
    checker.assume(~rows.taken | rows.tag.first | ~Cat(early).any())
    (valid, newest), (earlier, second), remaining = *stages, rows.left
    returns = rows.few[0] & valid | rows.few[1] & earlier
    # after the first row of a tile the count of remaining rows is one lower
    counted = [
        Mux(rows.swap, few == (remaining + 1 < APART - age), ~few | (remaining < APART - 2 - age))
        for age, few in enumerate(rows.few)
    ]
    return {
        "few": ~rows.active | Cat(counted).all(),
        "recent": Cat(rows.recent) == Cat(valid, earlier)[: len(rows.recent)],
        "may_pass": rows.may_pass == (rows.active & rows.alike & (~rows.swap | ~returns)),
        "alike": ~rows.active | (rows.alike == (rows.other == rows.attention)),
        "numbers": (~valid | (newest == numbers[0])) & (~earlier | (second == Mux(valid, numbers[1], numbers[0]))),
        "apart": ~(rows.active & ~rows.swap & rows.few[0] & valid & earlier),
    }
