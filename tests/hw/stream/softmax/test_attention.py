"""Attention on the array: sequencer, memory, tiles, array, softmax and division together give golden's contexts."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from fabtune.golden.block import Field, Spec, Stream
from fabtune.golden.rng.urng import BIT
from fabtune.golden.stream.array.stationary_load import StationaryLoadSpec
from fabtune.golden.stream.memory.activation_memory import ActivationMemorySpec
from fabtune.golden.stream.softmax.attention_sequencer import AttentionSequencerSpec
from fabtune.hw.ports import members
from fabtune.hw.stream.array.array_path import ArrayPath
from fabtune.hw.stream.array.stationary_load import StationaryLoad
from fabtune.hw.stream.memory.activation_memory import ActivationMemory
from fabtune.hw.stream.softmax.attention_sequencer import AttentionSequencer
from fabtune.hw.stream.softmax.attention_softmax import AttentionSoftmax
from fabtune.hw.stream.softmax.context_scale import ContextScale
from fabtune.sim.phase import Phase
from fabtune.sim.verify import verify_phases
from tests.golden.stream.softmax.attention_pass import MANY, Pass, performed

SMALL = AttentionSequencerSpec(lanes=8, columns=4, queries=4, keys=16, rows=512, wide_rows=2, sums=64)


@dataclass(frozen=True, kw_only=True)
class AttentionSpec(Spec):
    """Passes in sequence, whose values are written into the memory first."""

    name: ClassVar[str] = "attention"
    summary: ClassVar[str] = "attention on the array"
    sequencer: AttentionSequencerSpec = SMALL

    @cached_property
    def memory(self):
        own, streams = self.sequencer, self.sequencer.streams()
        tags = (sum(one.width for one in streams[name].fields[1:]) for name in ("rows_read", "keys_read"))
        return ActivationMemorySpec(
            lanes=own.lanes,
            columns=own.columns,
            rows=own.rows,
            wide_rows=own.wide_rows,
            **dict(zip(("row_tag", "key_tag"), tags, strict=True)),
            operand_tag=0,
        )

    def streams(self):
        own = self.sequencer.streams()
        return {
            "load": Stream("in", (*self.memory.streams()["write"].fields, Field("last", BIT))),
            **{name: own[name] for name in ("operation", "sentences", "write", "done")},
        }

    def run(self, inputs, words):
        raise NotImplementedError


class Attention(wiring.Component):
    """All submodules; written contexts are also outputs."""

    def __init__(self, spec):
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform):
        m, own = Module(), self.spec.sequencer
        m.submodules.sequencer = sequencer = AttentionSequencer(own)
        m.submodules.memory = memory = ActivationMemory(self.spec.memory)
        m.submodules.tiles = tiles = StationaryLoad(StationaryLoadSpec(lanes=own.lanes, columns=own.columns))
        m.submodules.array = array = ArrayPath(own.array)
        m.submodules.softmax = softmax = AttentionSoftmax(own.softmax)
        m.submodules.scale = scale = ContextScale(own.scale)
        loaded, ends = Signal(), self.done.valid & self.done.ready
        m.d.sync += loaded.eq(self.load.valid & self.load.ready & self.load.payload.last | loaded & ~ends)
        m.d.comb += [
            self.load.ready.eq(~loaded),
            self.operation.ready.eq(sequencer.operation.ready & loaded),
            sequencer.operation.valid.eq(self.operation.valid & loaded),
            sequencer.operation.payload.eq(self.operation.payload),
            self.write.valid.eq(sequencer.write.valid),
            self.write.payload.eq(sequencer.write.payload),
            sequencer.write.ready.eq(self.write.ready),
            memory.write.valid.eq(Mux(loaded, sequencer.write.valid & self.write.ready, self.load.valid)),
            *(
                getattr(memory.write.payload, name).eq(
                    Mux(
                        loaded,
                        Value.cast(getattr(sequencer.write.payload, name)),
                        Value.cast(getattr(self.load.payload, name)),
                    )
                )
                for name in ("wide", "address", "part", "value")
            ),
        ]
        wiring.connect(m, wiring.flipped(self.sentences), sequencer.sentences)
        wiring.connect(m, sequencer.done, wiring.flipped(self.done))
        for read, into in ((sequencer.keys_read, memory.keys_read), (sequencer.rows_read, memory.rows_read)):
            joined(m, read, into)
        for read, into in ((memory.keys, tiles.i), (memory.rows, array.rows)):
            joined(m, read, into)
        wiring.connect(m, tiles.o, array.keys)
        m.d.comb += [
            array.order.valid.eq(sequencer.order.valid),
            sequencer.order.ready.eq(array.order.ready),
            *(
                getattr(array.order.payload, name).eq(getattr(sequencer.order.payload, name))
                for name in ("kind", "rows")
            ),
            array.order.payload.used.eq(own.array.lanes),
        ]
        wiring.connect(m, array.scores, softmax.scores)
        wiring.connect(m, sequencer.softmax, softmax.operation)
        wiring.connect(m, softmax.inverse, sequencer.inverse)
        wiring.connect(m, sequencer.reciprocals, scale.inverse)
        wiring.connect(m, scale.o, sequencer.contexts)
        given, terms, sums, scales = softmax.o, array.terms, array.contexts, sequencer.scales
        names = ("weight", "query", "first", "last")
        m.d.comb += [
            terms.valid.eq(given.valid),
            given.ready.eq(terms.ready),
            *(getattr(terms.payload, name).eq(getattr(given.payload, name)) for name in names),
            scale.i.valid.eq(sums.valid & scales.valid),
            sums.ready.eq(scale.i.ready & scales.valid),
            scales.ready.eq(scale.i.ready & sums.valid),
            Value.cast(scale.i.payload).eq(Cat(sums.payload.sum, scales.payload)),
        ]
        return m


def joined(m, source, into):
    """Connect streams whose words have the same bits."""
    m.d.comb += [
        into.valid.eq(source.valid),
        source.ready.eq(into.ready),
        Value.cast(into.payload).eq(Value.cast(source.payload)),
    ]


def phase(spec, number, one):
    own = spec.sequencer
    given = Pass(own, *one, seed=number)
    row, part = (axis.reshape(-1, 1) for axis in np.mgrid[: own.rows, : own.layout.parts])
    load = {"wide": row * 0, "address": row, "part": part, "value": given.memory.reshape(-1, own.columns)}
    load["last"] = (row == own.rows - 1) & (part == own.layout.parts - 1)
    found = own.run(performed(own, given), MANY)
    inputs = {"load": {name: column.astype(np.int64) for name, column in load.items()}, **given.inputs()}
    return Phase(inputs, {name: found[name] for name in ("write", "done")}, reset=not number, quiet=True)


PASSES = {
    "parts of a row": (([1, 5], 3, 3, 4, 1), ([3], 1, 1, 8, 0, (1, 2, 3, 0))),
    "within a row": (([5], 3, 3, 12), ([1, 6], 3, 3, 12, 1)),
    "several blocks": (([1, 11], 1, 1, 8, 1), ([9, 2], 1, 1, 8), ([16], 1, 1, 4, 1)),
    "shared keys": (([6, 1], 2, 1, 16, 1), ([4], 2, 1, 8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_contexts_are_golden_s(name, fast_simulator):
    phases = [phase(AttentionSpec(), number, one) for number, one in enumerate(PASSES[name])]
    verdict = verify_phases(AttentionSpec(), phases, fast_simulator)
    assert verdict.failures == ()
    assert verdict.differences == ()
    assert verdict.passed
