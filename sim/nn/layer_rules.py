"""Rules of a layer block: its samples and its parameters, counted."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.nn.layer_block import LayerBlockSpec
from ..formal.checker import Checker

CUT = ("memories", "multipliers")
"""Nothing that is counted depends on parameters or activations."""


def layer_rules(checker: Checker, spec: LayerBlockSpec) -> None:
    """Add the rules of `fc` and `conv`.

    A sample's outputs are owed as its last input is taken; at most those of three samples are, and one
    more: one sample's outputs wait to be read behind the last output of the one before, and two have come in. Rules beside those of the outputs: ``i_begins`` and ``load_between`` (parameters are taken
    between samples, as a whole), ``o_comes``, ``i_taken`` and ``load_taken`` (nothing hangs).

    Parameters
    ----------
    checker : Checker
    spec : LayerBlockSpec
        Small parameters.
    """
    m, load, i, o = checker.m, *(checker.streams[name] for name in ("load", "i", "o"))
    beats, inputs, outputs = spec.mapping.frozen_beats, spec.sample_inputs, spec.sample_outputs
    beat, value = Signal(range(beats), name="beat"), Signal(range(inputs), name="value")
    loaded, asked = Signal(name="loaded"), Signal(name="asked")
    with m.If(checker.moves("load")):
        m.d.sync += [beat.eq(Mux(beat == beats - 1, 0, beat + 1)), loaded.eq(beat == beats - 1)]
    whole = checker.moves("i") & (value == inputs - 1)
    with m.If(checker.moves("i")):
        m.d.sync += value.eq(Mux(value == inputs - 1, 0, value + 1))
    m.d.sync += asked.eq(load.valid)
    owed = checker.balance("o_words", [(whole, outputs)], [(o.valid, checker.moves("o"), 1)], 3 * outputs + 1)
    begins = checker.moves("i") & (value == 0)
    checker.rule("i_begins", ~begins | (loaded & ~asked))
    checker.rule("load_between", ~checker.moves("load") | (value == 0))
    checker.rule("load_behind", ~checker.moves("load") | (owed <= outputs + 1))
    slow = spec.latency
    checker.passes("o_comes", (owed != 0) & o.ready & ~o.valid, slow)
    checker.passes("i_taken", loaded & i.valid & ~i.ready & (~load.valid | (value != 0)) & o.ready, slow)
    checker.passes("load_taken", load.valid & ~load.ready & (value == 0) & o.ready, 2 * slow)
