"""Rules of `adapter`: rows that follow their label, whole images, and as many logits as a batch has.

One adapter of one row, two classes and batches of at most two samples: the smallest with more than one of each that is
counted. What memories hold is taken to be anything, but for the FIFO of logits, which has the marks of the samples'
last ones. The updated parameters are counted in `formal_adapter_updates`.
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
    """Add ``i_follows``, rows come behind their label, ``load_taken``, an image is taken whole, and `logit_rules`."""
    m, load, words = checker.m, checker.streams["load"], spec.mapping.words_per_cycle
    image = spec.mapping.adapter_beats - spec.mapping.a_beats + spec.mapping.a_beats // words
    beat, batch = Signal(range(image), name="beat"), ObservedBatch(checker, spec)
    with m.If(checker.moves("load")):
        m.d.sync += beat.eq(Mux(beat == image - 1, 0, beat + 1))
    checker.rule("i_follows", ~checker.moves("i") | (batch.samples < batch.labels))
    checker.rule("load_taken", ~load.valid | (beat == 0) | load.ready)
    if spec.loss == "cross_entropy" and spec.mapping.logit_rows == 1:
        # the handshakes are proved faster without the lemmas
        with checker.lemmas_end():
            logit_rules(checker, spec, batch)
