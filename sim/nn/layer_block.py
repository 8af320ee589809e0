"""Stimulus and rules of the single-layer blocks `conv`, `depthwise` and `fc`."""

from __future__ import annotations

from math import prod

import numpy as np
from amaranth.hdl import Mux, Signal

from ...golden.fixed import Q4_12, Integers
from ...golden.nn.arithmetic.forward import StageIntegers
from ...golden.nn.layer_block import LayerBlockSpec
from ..formal.checker import Checker
from ..formal.inside import parts_of
from ..phase import Phase
from ..stimulus import end_activations, near_tie_activations, random_activations, tie_activations

CUT = ("memories", "multipliers")
"""The rules depend on neither parameters nor activations."""

_SOON = 16
"""Upper bound in cycles of a stream step; the longest writes a beat of a sample, value by value."""


def random_parameters(spec: LayerBlockSpec, rng: np.random.Generator, bound: int | None = None) -> StageIntegers:
    """Random biases, and weights of magnitude up to `bound`; by default most sums do not saturate."""
    if bound is None:
        bound = max(int(Q4_12.maximum / spec.mapping.stages[0].words / 8), 256)
    weight = rng.integers(-bound, bound, spec.stage.weight_shape, endpoint=True)
    return StageIntegers(weight, rng.integers(Q4_12.minimum, Q4_12.maximum, spec.stage.biases, endpoint=True))


def random_samples(spec: LayerBlockSpec, rng: np.random.Generator, count: int) -> Integers:
    """Samples of three kinds in turn: random, with frequent ties, extreme."""
    shape = (count, *spec.stage.input_shape)
    samples = random_activations(rng, shape)
    samples[1::3] = tie_activations(rng, samples[1::3].shape)
    samples[2::3] = end_activations(rng, samples[2::3].shape)
    return samples


def near_tie_samples(spec: LayerBlockSpec, rng: np.random.Generator, count: int) -> Integers:
    """Samples whose sums are ties or one bit above a tie, for weights of 0 and +-1 unit in the last place."""
    return near_tie_activations(rng, (count, *spec.stage.input_shape), prod(spec.stage.weight_shape[1:]))


def scenario(spec: LayerBlockSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Three loads, each with samples: one, then several; several with large weights; near ties with tiny weights."""
    phases = []
    several = max(words // spec.sample_outputs // 2, 2)
    jobs = (
        (None, random_samples, (1, several)),
        (Q4_12.maximum, random_samples, (several,)),
        (1, near_tie_samples, (several,)),
    )
    for number, (bound, draw, counts) in enumerate(jobs):
        parameters = random_parameters(spec, rng, bound)
        load = spec.load_words(parameters)
        phases.append(Phase(load, reset=number == 0, cycles=spec.load_cycles, quiet=True))
        for count in counts:
            samples = draw(spec, rng, count)
            expected = spec.results(parameters, samples)
            phases.append(Phase(spec.sample_words(samples), expected, cycles=spec.cycles(count), quiet=True))
    return phases


def layer_rules(checker: Checker, spec: LayerBlockSpec) -> None:
    """Rules of `fc`, `conv` and `depthwise`.

    Rules ``i_begins`` (a sample starts only with complete parameters, and not while parameters are offered),
    ``load_between`` (parameters load between samples) and ``load_behind`` (parameters load only once the last output is
    offered).

    A sample's outputs are outstanding from its last input on, for at most three samples plus one word: one sample's
    outputs are stored while the previous sample's last output is offered, and two more samples have entered. Lemmas
    ``samples_enter`` (last values on the way to the activation memory), ``samples_computed`` (in the memory),
    ``samples_read`` (outputs stored, or the previous last output offered, or nothing) and ``samples_owed`` (the sum of
    these), then rules ``o_words_made`` and ``o_words_lost``.

    No hang: a sample leaves each stage, ``sample_arrives``, ``sample_leaves``, ``o_comes``; and words are accepted
    while space is free, ``i_taken``, ``load_taken``.
    """
    m, load, i, o = checker.m, *(checker.streams[name] for name in ("load", "i", "o"))
    beats, inputs, outputs = spec.mapping.frozen_beats, spec.sample_inputs, spec.sample_outputs
    beat, value = Signal(range(beats), name="beat"), Signal(range(inputs), name="value")
    loaded, asked = Signal(name="loaded"), Signal(name="asked")
    with m.If(checker.moves("load")):
        m.d.sync += [beat.eq(Mux(beat == beats - 1, 0, beat + 1)), loaded.eq(beat == beats - 1)]
    with m.If(checker.moves("i")):
        m.d.sync += value.eq(Mux(value == inputs - 1, 0, value + 1))
    m.d.sync += asked.eq(load.valid)
    checker.rule("i_begins", ~(checker.moves("i") & (value == 0)) | (loaded & ~asked))
    checker.rule("load_between", ~checker.moves("load") | (value == 0))

    block = parts_of(checker.block)
    engine, full, filled = parts_of(block.engine), block.reader.outputs.full, block.engine.outputs.filled
    entering, computed = Signal(2, name="entering"), Signal(2, name="computed")
    sent, outstanding = Signal(range(outputs + 1), name="given"), Signal(range(4 * outputs + 2), name="outputs_owed")
    whole, samples = checker.moves("i") & (value == inputs - 1), entering + computed
    m.d.sync += [
        entering.eq(entering + whole - engine.writer.done),
        computed.eq(computed + engine.writer.done - engine.sequencer.done),
        outstanding.eq(outstanding + Mux(whole, outputs, 0) - checker.moves("o")),
    ]
    with m.If(checker.moves("o")):
        m.d.sync += sent.eq(Mux(sent == outputs - 1, 0, sent + 1))
    final = o.valid & (sent == outputs - 1)
    checker.lemma("samples_enter", entering <= 1)
    checker.lemma("samples_computed", (samples <= 2) & (~engine.sequencer.done | (computed != 0)))
    checker.lemma("samples_read", (full | final | ((sent == 0) & ~o.valid)) & ~(full & filled))
    here = samples + full + filled
    checker.lemma("samples_owed", outstanding == here * outputs + final - Mux(final, 0, sent))
    checker.balance("o_words", [(whole, outputs)], "o", 3 * outputs + 1)
    checker.rule("load_behind", ~checker.moves("load") | (outstanding <= outputs + 1))

    checker.passes("sample_arrives", entering != 0, _SOON)
    checker.passes("sample_leaves", (computed != 0) & ~full & ~filled, spec.latency)
    checker.passes("o_comes", full & o.ready & ~o.valid, _SOON)
    within = value != 0
    checker.passes("i_taken", loaded & i.valid & ~i.ready & Mux(within, 1, ~load.valid & (samples <= 1)), _SOON)
    cleared = _SOON + spec.mapping.clear_cycles
    checker.passes("load_taken", load.valid & ~load.ready & ~within & (samples == 0), cleared)
