"""Rules of `pool_head`: only requested chunks, a `done` after all reads of each operation, no queue overflow.

Chunks have a single word here, so that the flags of the lanes count the results in progress.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import exact_log2

from ....golden.stream.values.pool_head import KINDS, PASSES, PoolHeadSpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of, stored_in

SPEC = PoolHeadSpec(lanes=4, columns=4, rows=4, wide_rows=4, sums=4)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: PoolHeadSpec) -> None:
    """Assumes operations with at least one feature and row, and sentences with at least one token."""
    m, block = checker.m, checker.block
    operation, sentence = checker.payload("operation"), checker.payload("sentences")
    checker.assume((operation.features != 0) & (operation.features <= spec.features) & (operation.rows != 0))
    checker.assume((sentence.length != 0) & (sentence.length <= spec.longest))
    inside = probe_of(block)
    step = inside.step
    pooled = ("TAKE", "DIVIDE", "COMPARE", "ROUND", "WRITE")
    state = {name: inside.state(name) for name in ("IDLE", "OPEN", "READ", "DRAIN", "DONE", *pooled)}
    pending = Signal(4, name="operands_owed")
    m.d.sync += pending.eq(pending + checker.moves("operands_read") - checker.moves("operands"))
    to_come = block._owed + Mux(block._asking, block._left + 1, 0)
    opening = state["IDLE"] | state["OPEN"]
    final = (block._settings.features - 1)[: exact_log2(spec.columns)]
    outside = Cat(final < number for number in range(spec.columns))
    _results(checker, spec, step)
    checker.lemmas_together(
        {
            "owed_counted": pending == block._owed,
            "due_counted": Mux(state["READ"], to_come == block._due + 1, to_come == 0),
            # states of pooling occur only outside unit-length operations
            "pooled": ~Cat(state[name] for name in pooled).any() | ~block._is_unit,
            "of_unit": state["IDLE"] | block._is_unit | ((step == 0) & ~state["DRAIN"]),
            "rounds": inside.rounds == state["ROUND"],
            "ends": opening | (block._ends == (block._behind == 0)),
            "outside": state["IDLE"] | (inside.outside == outside),
            "beyond": opening | (inside.beyond == Mux(block._ends, outside, 0)),
            "kinds": block._write_unit == block._is_unit,
            "kind": state["IDLE"] | (block._is_unit == (block._settings.kind == KINDS.index("unit"))),
        }
    )
    checker.rule("operands_asked", ~checker.streams["operands"].ready | (pending != 0))
    checker.rule("reads_bounded", pending <= 7)
    busy = Signal(name="busy")
    m.d.sync += busy.eq((busy | checker.moves("operation")) & ~checker.moves("done"))
    checker.lemma("states", busy == ~state["IDLE"])
    checker.rule("operation_alone", ~checker.streams["operation"].ready | ~busy)
    checker.rule("done_alone", ~checker.streams["done"].valid | busy & (pending == 0) & ~checker.streams["write"].valid)


def _results(checker: Checker, spec: PoolHeadSpec, step: Value) -> None:
    """Count the result chunks in progress, each of which has a reserved slot in the queue."""
    unit = parts_of(checker.block).unit
    inside, lanes, queue = probe_of(unit), parts_of(unit).lanes, parts_of(unit).queue
    flags = probe_of(lanes).under_way
    stored = stored_in(queue)
    under_way = inside.filled + sum(list(flags)[1:], flags[0])
    latency = spec.pass_latency
    aged = reduce(and_, (~flag | (inside.waits >= latency - age) for age, flag in enumerate(flags)))
    results = step == PASSES - 1
    reads = probe_of(checker.block).state("READ")
    unit_reads = reads | probe_of(checker.block).state("DRAIN")
    checker.lemmas_together(
        {
            "wants": checker.block._wants == reads,
            "aged": aged & (inside.waits <= latency),
            "room": inside.room + Mux(results, under_way, 0) + stored == spec.unit_chunks,
            "none_of_others": results | (stored == 0),
            "drained": unit_reads | unit.idle,
            "words": inside.filled <= 1,
            "steps": (step < PASSES),
            "gives": ~unit_reads | (probe_of(lanes).gives == results),
        }
    )
    checker.rule("results_room", ~queue.i.valid | queue.i.ready)
