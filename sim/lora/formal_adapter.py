"""Rules of `adapter`: rows that follow their label, whole images, and the handshakes of what it gives.

One adapter of one row, two classes and batches of at most two samples: the smallest with more than one of each that is
counted. What memories hold is taken to be anything; so the marks of the logits' samples are, too, and how many logits
and updated parameters a batch gives is left to the bench.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.lora.adapter import AdapterSpec
from ..formal.checker import Checker

SPEC = AdapterSpec(inputs=(1,), classes=2, rank=2, batch=2, lanes=16, columns=2)
CUT = ("memories", "multipliers")


def check(checker: Checker, spec: AdapterSpec) -> None:
    """Add the rules: ``i_follows``, rows are taken behind their label, and ``load_taken``, an image is taken whole."""
    m, load, label = checker.m, checker.streams["load"], checker.streams["label"]
    words = spec.mapping.words_per_cycle
    image = spec.mapping.adapter_beats - spec.mapping.a_beats + spec.mapping.a_beats // words
    labels, rows = checker.moves("label"), checker.moves("i")
    beat, row, closed = Signal(range(image), name="beat"), Signal(range(spec.rows), name="row_count"), Signal()
    # of the batch that comes in: labels and whole samples; it ends as the two are equal
    count, samples = (Signal(range(spec.batch + 1), name=name) for name in ("label_count", "sample_count"))
    with m.If(checker.moves("load")):
        m.d.sync += beat.eq(Mux(beat == image - 1, 0, beat + 1))
    with m.If(labels):
        m.d.sync += [count.eq(count + 1), closed.eq(label.payload.last | (count == spec.batch - 1))]
    with m.If(rows):
        m.d.sync += row.eq(Mux(row == spec.rows - 1, 0, row + 1))
    with m.If(rows & (row == spec.rows - 1)):
        m.d.sync += samples.eq(samples + 1)
    with m.If(closed & (samples == count)):
        m.d.sync += [count.eq(0), samples.eq(0), closed.eq(0)]
    checker.rule("i_follows", ~rows | (samples < count))
    checker.rule("load_taken", ~load.valid | (beat == 0) | load.ready)
