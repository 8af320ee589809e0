"""Rules of a layer block: its samples and its parameters, counted."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.nn.layer_block import LayerBlockSpec
from ..formal.checker import Checker

CUT = ("memories", "multipliers")
"""Nothing that is counted depends on parameters or activations."""


def layer_rules(checker: Checker, spec: LayerBlockSpec) -> None:
    """Add the rules of `fc` and `conv`.

    Rules ``i_begins`` (a sample begins behind whole parameters, and not while others are on offer) and ``load_between``
    (parameters are taken between samples). How many outputs a sample has, and that inputs are taken before long, are
    left to the bench: the engine finds no proof in its time.

    Parameters
    ----------
    checker : Checker
    spec : LayerBlockSpec
        Small parameters.
    """
    m, load = checker.m, checker.streams["load"]
    beats, inputs = spec.mapping.frozen_beats, spec.sample_inputs
    beat, value = Signal(range(beats), name="beat"), Signal(range(inputs), name="value")
    loaded, asked = Signal(name="loaded"), Signal(name="asked")
    with m.If(checker.moves("load")):
        m.d.sync += [beat.eq(Mux(beat == beats - 1, 0, beat + 1)), loaded.eq(beat == beats - 1)]
    with m.If(checker.moves("i")):
        m.d.sync += value.eq(Mux(value == inputs - 1, 0, value + 1))
    m.d.sync += asked.eq(load.valid)
    begins = checker.moves("i") & (value == 0)
    checker.rule("i_begins", ~begins | (loaded & ~asked))
    checker.rule("load_between", ~checker.moves("load") | (value == 0))
