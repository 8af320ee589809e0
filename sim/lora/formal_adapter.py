"""Rules of `adapter`: rows follow their label, images load completely, and a batch has exactly its logits.

One adapter of one row, two classes and batches of up to two samples: the smallest case with more than one of each
counted item. Memory contents are free, except the FIFO of logits with its last-of-sample marks.
`formal_adapter_updates` counts the updated parameters.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.lora.adapter import AdapterSpec
from ..formal.checker import Checker
from .adapter_logits import logit_rules
from .observed_batch import ObservedBatch

SPEC = AdapterSpec(inputs=(1,), classes=2, rank=2, batch=2, lanes=16, columns=2)
CUT = ("memories-but:*waiting.storage*", "multipliers")


def check(checker: Checker, spec: AdapterSpec) -> None:
    """Rules ``i_follows`` (rows only after their label), ``load_taken`` (no pause within an image), and
    `logit_rules`.
    """
    m, load, words = checker.m, checker.streams["load"], spec.mapping.words_per_cycle
    image = spec.mapping.adapter_beats - spec.mapping.a_beats + spec.mapping.a_beats // words
    beat, batch = Signal(range(image), name="beat"), ObservedBatch(checker, spec)
    with m.If(checker.moves("load")):
        m.d.sync += beat.eq(Mux(beat == image - 1, 0, beat + 1))
    checker.rule("i_follows", ~checker.moves("i") | (batch.samples < batch.labels))
    checker.rule("load_taken", ~load.valid | (beat == 0) | load.ready)
    if spec.loss == "cross_entropy" and spec.mapping.logit_rows == 1:
        # handshakes are proved faster without the lemmas
        with checker.lemmas_end():
            logit_rules(checker, spec, batch)
