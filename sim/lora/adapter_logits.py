"""Rules of `adapter` on the number of logits in a batch and on the batch's end, with the necessary lemmas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import and_

from amaranth.hdl import Cat, Mux, Signal, Value

from ...golden.lora.adapter import AdapterSpec
from ...golden.nn.array import latency
from ...hw.lora.backward.backward_sequencer import FETCH
from ...hw.lora.backward.logit_head import LABEL_READ, MULTIPLY, READ, SUM
from ...hw.primitives.pipeline import delayed
from ...hw.primitives.rounding import RoundSaturate
from ..formal.checker import Checker
from ..formal.inside import enabled_by, parts_of, probe_of
from .observed_batch import ObservedBatch

_LATE = ("BACKWARD", "LEAVE", "COLUMNS", "SETTLE")
"""States of the backward sequencer in which all gradients of the hidden values are known."""


def logit_rules(checker: Checker, spec: AdapterSpec, batch: ObservedBatch) -> None:
    """Rules ``logits_words_made`` and ``logits_words_lost``: a batch's logits are outstanding from the batch's start.

    A batch ends with the gradients of all its samples, so the lemmas follow the samples up to this point:
    ``updates_leave`` (the engine waits only for the receiver of updates), ``batch_taken`` and ``batch_walked``
    (counters of labels, samples and rows), ``logits_wait`` (FIFO pointers), ``lines_followed`` (flag pipelines).
    Mutually dependent are ``STAGE_counted`` (samples or logits that reached a stage or are on the way to the next),
    ``STAGE_marked`` (exactly the last logit of each sample is marked) and ``steps_counted`` (counters within a sample).
    ``hidden_followed`` and ``hidden_counted`` do the same for the hidden values that a sample's logits wait for.

    No hang: with ready receivers a sample leaves each stage within bounds, ``label_taken``, ``i_comes``,
    ``forward_ends``, ``sample_summed``, ``sums_end``, ``logit_comes``, ``softmax_STATE_ends``, ``probability_taken``,
    ``gradients_end``; then each state of the update, ``STATE_ends``.

    Longer than most: each rule builds on the previous rules and their signals.

    Parameters
    ----------
    spec : AdapterSpec
        Small parameters; cross entropy, and a row of base logits per sample.
    batch : ObservedBatch
        The incoming batch.
    """
    m, classes, adapters = checker.m, spec.classes, spec.mapping.adapters
    o, logits = checker.streams["o"], checker.streams["logits"]
    block = probe_of(checker.block)
    engine, move, count = checker.block.engine, block.move, block.count
    sequencer, head = engine.sequencer, engine.head
    parts, walk = parts_of(head), probe_of(sequencer)
    sums, logit_fifo = probe_of(head), parts.waiting
    start, finished = engine.batch.start, head.finished
    idle, forward = walk.state("IDLE"), walk.forward
    late = Cat(walk.state(state) for state in _LATE).any()

    checker.lemma("updates_leave", ~o.valid | late)
    checker.lemma(
        "batch_taken",
        _all(
            block.busy == (start | ~idle),
            ~(start & ~idle),
            ~block.busy | (block.closed & (block.samples == count)),
            (~block.closed | (count != 0)) & (block.samples <= count) & (count <= spec.batch),
            ~block.wanted | (block.samples < count),
            batch.closed == (block.closed & ~block.busy),
            (batch.labels == Mux(block.busy, 0, count)) & (batch.samples == Mux(block.busy, 0, block.samples)),
            (block.row == batch.row) & (block.last_row == (batch.row == spec.rows - 1)),
        ),
    )
    checker.lemma(
        "batch_walked",
        _all(
            ~(block.closed & (block.samples == count)) | (walk.final == count - 1),
            ~(idle & block.closed) | ((walk.row == 0) & (walk.sample == 0)),
            ~forward | ((walk.sample <= walk.final) & (walk.row < spec.rows)),
        ),
    )

    storage, depth, waiting = parts_of(logit_fifo).storage, logit_fifo.depth - 1, logit_fifo.r_rdy
    [produce], [consume] = ([port.addr for port in ports] for ports in (storage.write_ports, storage.read_ports))
    level = (logit_fifo.level - waiting)[: len(logit_fifo.level)]
    follows = consume + level
    checker.lemma(
        "logits_wait",
        (produce == Mux(follows >= depth, follows - depth, follows)) & (consume < depth) & (level <= depth),
    )
    stored = []
    for number in range(classes * spec.batch):
        port, address = storage.read_port(domain="comb"), consume + number
        m.d.comb += port.addr.eq(Mux(address >= depth, address - depth, address))
        stored.append(port.data[-1])

    given, samples_given = Signal(range(classes), name="given"), Signal(range(spec.batch + 1), name="samples_given")
    outstanding = Signal(range(2 * classes * spec.batch + 1), name="logits_owed")
    gains = [(batch.begins & (batch.labels == number), classes * number) for number in range(1, spec.batch + 1)]
    gained = sum((Mux(event, words, 0) for event, words in gains), Value.cast(0))
    m.d.sync += outstanding.eq(outstanding + gained - checker.moves("logits"))
    with enabled_by(checker, move):
        inner = checker.m
        with inner.If(checker.moves("logits")):
            inner.d.sync += given.eq(Mux(given == classes - 1, 0, given + 1))
            inner.d.sync += samples_given.eq(samples_given + (given == classes - 1))
        with inner.If(start):
            inner.d.sync += samples_given.eq(0)
        issued = [sequencer.base, *_line(checker, sequencer.base, FETCH + 1, "base_line")]
        summed = _line(checker, sums.issue & sums.end_of_adapters, sums.settle_cycles, "sum_line")
        marked = _line(checker, sums.class_number == classes - 1, sums.settle_cycles, "mark_line")
        rounding = READ + MULTIPLY + SUM + RoundSaturate.LATENCY
        rounded = _line(checker, sums.dh_issue & sums.end_of_classes, rounding, "gradient_line")

    checker.lemma(
        "lines_followed",
        (logit_fifo.w_en == summed[-1])
        & (logit_fifo.w_data[-1] == marked[-1])
        & (sums.dh_valid == rounded[-1])
        & (head.forward.base_valid == issued[-1]),
    )

    def is_last(ahead: Value) -> Value:
        """High if the logit that comes after `ahead` others is the last of its sample."""
        place = given + ahead
        return Cat(place == end for end in range(classes - 1, classes * (spec.batch + 1), classes)).any()

    softmax, loss = probe_of(parts.softmax), probe_of(parts.celoss)
    in_loss = ~parts.softmax.i.ready + _count(softmax.final) + (loss.full & loss.last)
    pending = Mux(sums.dh_issue, adapters - sums.dh_adapter, 0) + _count(rounded) + sums.done_adapters
    held = waiting + level
    counted = {
        "samples_issued": (
            sums.base_count + _count(issued) == Mux(forward, walk.sample, count),
            (_count(issued) == 0) & (sums.base_count == sums.sample),
        ),
        "samples_summed": (sums.sample + sums.issue <= sums.base_count, ~sums.issue),
        "logits_summed": (
            outstanding + classes * sums.sample + Mux(sums.issue, sums.class_number, 0)
            == classes * count + _count(summed) + held,
            (_count(summed) == 0) & (held == 0),
        ),
        "logits_given": (
            outstanding + classes * samples_given + given == classes * count,
            (given == 0) & (outstanding == Mux(start, classes * count, 0)),
        ),
        "samples_given": (
            adapters * (finished + in_loss) + pending == adapters * samples_given,
            (in_loss == 0) & (pending == 0),
        ),
        "samples_finished": (~late | (finished == count), Value.cast(1)),
    }
    together = {f"{name}_counted": Mux(idle, empty, run) for name, (run, empty) in counted.items()}
    together["sums_marked"] = _all(
        *(
            ~valid | (mark == is_last(held + _count(summed[number + 1 :])))
            for number, (valid, mark) in enumerate(zip(summed, marked, strict=True))
        )
    )
    together["waiting_marked"] = _all(
        *((number >= level) | (mark == is_last(waiting + number)) for number, mark in enumerate(stored))
    )
    together["logits_marked"] = ~waiting | (engine.logits.payload.last == is_last(Value.cast(0)))
    together["steps_counted"] = _all(
        ~sums.issue | ((sums.class_number < classes) & (sums.adapter < adapters)),
        ~sums.dh_issue | ((sums.dh_class < classes) & (sums.dh_adapter < adapters)),
        sums.done_adapters < adapters,
        (softmax.final & ~softmax.flow) == 0,
    )
    checker.lemmas_together(together)
    flags = [(sequencer.enable, sequencer.last, sequencer.within)]
    with enabled_by(checker, move):
        for number in range(FETCH + latency.OPERANDS):
            flags.append(tuple(_line(checker, flag, 1, f"flag{number}_{at}_")[0] for at, flag in enumerate(flags[-1])))
        ends = [enable & last & ~within for enable, last, within in flags]
        across = latency.across_latency(spec.lanes, spec.mapping.words_per_cycle) - latency.OPERANDS
        ends += _line(checker, ends[-1], across, "hidden_line")
    borders = accumulate(spec.mapping.rows_per_adapter)
    walked = adapters * walk.sample + _count([walk.row >= border for border in borders])
    checker.lemma("hidden_followed", head.forward.hidden_valid == ends[-1])
    checker.lemma(
        "hidden_counted",
        Mux(
            idle,
            _count(ends) == 0,
            (sums.position + _count(ends) == Mux(forward, walked, adapters * count))
            & (sums.position >= adapters * (sums.sample + sums.issue))
            & (sums.hidden_required == adapters * (sums.sample + 1)),
        ),
    )
    i, gone = checker.streams["i"], ~idle & ~forward
    checker.takes("label", block.loaded & ~block.closed & ~checker.streams["load"].valid)
    checker.passes("i_comes", i.valid & ~i.ready & (batch.samples < batch.labels), 2)
    checker.passes("forward_ends", forward, spec.rows * spec.batch + 1)
    wait = len(ends) + sums.settle_cycles + 4
    checker.passes("sample_summed", gone & (sums.sample < count) & ~sums.issue & logits.ready, wait)
    checker.passes("sums_end", sums.issue, head.entries + 1)
    checker.passes("logit_comes", (_count(summed) + level != 0) & ~waiting, sums.settle_cycles + 3)
    steps = {"sum": classes, "finish": 4, "normalise": parts.softmax.spec.octaves + 1, "give": classes}
    for state, cycles in steps.items():
        checker.passes(f"softmax_{state}_ends", softmax.state(state) & softmax.move, cycles + 1)
    checker.passes("probability_taken", parts.softmax.o.valid & ~parts.softmax.o.ready, head.entries + LABEL_READ + 1)
    checker.passes("gradients_end", sums.dh_issue, head.entries + 1)
    steps = {
        "BACKWARD": spec.mapping.adapter_rows * max(spec.batch, sequencer.period),
        "LEAVE": walk.leave,
        "COLUMNS": head.entries,
        "SETTLE": walk.settle,
    }
    for state, cycles in steps.items():
        checker.passes(f"{state.lower()}_ends", walk.state(state) & move, cycles + 1)
    checker.balance("logits_words", gains, "logits", classes * spec.batch)


def _line(checker: Checker, value: Value, cycles: int, name: str) -> list[Value]:
    """Registers of a pipeline that delays a bit by `cycles`, the first register first."""
    return [value := delayed(checker.m, value, 1, f"{name}{number}") for number in range(cycles)]


def _count(bits: Value | Sequence[Value]) -> Value:
    """Count the high bits."""
    return sum((bit for bit in bits), Value.cast(0))


def _all(*holds: Value) -> Value:
    return reduce(and_, holds)
