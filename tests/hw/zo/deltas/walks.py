"""Address sequences over all words: generator, numbers, deltas and offsets, connected and used as in a trainer."""

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fabtune.hw.nn.interfaces import Offsets
from fabtune.hw.rng.pezo import Pezo
from fabtune.hw.zo.deltas.delta_memory import DeltaMemory
from fabtune.hw.zo.deltas.offset_memory import OffsetMemory
from fabtune.hw.zo.deltas.perturbation_numbers import PerturbationNumbers
from fabtune.hw.zo.deltas.walks import Walk, WalkRange


class Walks(wiring.Component):
    """Generator, numbers, deltas and offsets, connected as in a trainer."""

    def __init__(self, spec, mapping, parts):
        self.generator, self.numbers = Pezo(spec), PerturbationNumbers(spec, parts)
        rows = mapping.delta_rows
        offsets = Offsets(mapping.forward, self.numbers.n, rows.weight_rows, OffsetMemory.read_latency(rows))
        self.deltas = DeltaMemory(rows, self.numbers)
        self.offsets = OffsetMemory(rows, self.numbers, offsets)
        super().__init__(
            {"read": In(offsets), "clipped": Out(32)}
            | {name: self.deltas.signature.members[name] for name in ("control", "load", "save")}
            | {name: self.deltas.signature.members[name] for name in ("loaded", "begin_save", "saved")}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.generator, m.submodules.numbers = self.generator, self.numbers
        m.submodules.deltas, m.submodules.offsets = self.deltas, self.offsets
        for name in ("control", "load", "save"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(self.deltas, name))
        wiring.connect(m, self.deltas.offsets, self.offsets.row)
        wiring.connect(m, wiring.flipped(self.read), self.offsets.offsets)
        m.d.comb += [
            self.numbers.i.eq(self.generator.o.payload),
            self.numbers.part.eq(self.deltas.part),
            self.deltas.numbers.eq(self.numbers.o),
            self.deltas.valid.eq(self.generator.o.valid),
            self.generator.o.ready.eq(self.deltas.word_done),
            self.generator.replay.bit.eq(self.deltas.replay),
            self.generator.mark.bit.eq(self.deltas.mark),
            self.deltas.begin_save.eq(self.begin_save),
            self.saved.eq(self.deltas.saved),
            self.loaded.eq(self.deltas.loaded),
        ]
        m.d.sync += self.clipped.eq(self.clipped + self.deltas.clipped)
        return m


async def walk(bench, kind, **settings):
    """Run over words to the end; with perturbation signs the first words arrive before."""
    given = {"coefficient": 0, "eps": 0, "range": WalkRange.ALL, "final": True} | settings
    await bench.pulse("control.start", walk=kind, **given)
    if kind == Walk.SIDES and given["range"] == WalkRange.ALL:
        await bench.until("control.allows_pass")
    await bench.until("control.done")
    await bench.tick(12)


async def offsets(bench, mapping, side):
    """Offsets of all weight words, and of all groups of biases."""
    bench.set({"read.side": side, "read.bias_side": side})
    return [
        np.array(await bench.read("read.weight", range(mapping.forward.weight_words), "numbers")),
        np.array(await bench.read("read.bias", range(mapping.forward.groups), "biases")),
    ]


async def saved(bench, layout):
    """Deltas of all words."""
    await bench.pulse("begin_save")
    beats = await bench.take("save", layout.delta_beats)
    assert bench.seen.cycles("saved")[-1] == bench.cycle, "with the last beat"
    return layout.deltas_of(np.frombuffer(b"".join(beat.to_bytes(16, "little") for beat in beats), np.uint8))
