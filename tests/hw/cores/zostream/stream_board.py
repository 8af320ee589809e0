"""A streamed network in memory, and commands to a trainer."""

from functools import cache

import numpy as np

from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.fixed import Q8_16
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.golden.stream.transformer_model import TransformerModel, padded
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.zo.memory_layout import StepOrder

from ...outside import Outside

GENERATOR = build(PezoSpec, ["scale.urng.bits=4", "scale.urng.n=5"])
SETTINGS = {"generator": GENERATOR, "sums": 32, "rows": 512, "wide_rows": 512}
SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"] | SETTINGS)
POSITION, BATCH, VOCABULARY = 9, 6, 30
SAMPLES, ORDER, BASE = 10, 3, 0x1_0000


@cache
def network(wide, cut=0, first=0):
    """Layer, pool and head on the core, and labelled samples of one to nine tokens."""
    made, rng = TransformerBuilder("own", 12), np.random.default_rng(0)
    up = made.linear("up", INPUTS, rng.normal(0, 0.3, (wide, 12)), rng.normal(0, 0.1, wide))
    pooled = made.pool("mean", made.activation("relu", up, "relu"), "mean")
    made.linear("head", pooled, rng.normal(0, 0.5, (6, wide)), np.zeros(6))
    base = frozen_base(*made.finish())
    embeddings = Q8_16.from_float(rng.normal(0, 1, (VOCABULARY, 12)))
    model = TransformerModel(
        base.transformer,
        base.integers,
        embeddings,
        lambda name: name[0] >= first,
        times=SPEC.times,
        lanes=SPEC.lanes,
        columns=SPEC.columns,
    )
    tokens = [rng.integers(0, VOCABULARY, length) for length in (4, 1, 9, 3, 2, 7, 1, 5, 6, 8)]
    return StreamImages.of(model, base, SPEC.size, cut), tokens, rng.integers(0, 6, len(tokens))


class Board:
    """External memory with a job's images, and the trainer's settings.

    Attributes
    ----------
    settings : dict of str to int
    """

    def __init__(self, stall=0.0, wide=40, **cut):
        self.images, self.tokens, self.labels = network(wide, **cut)
        self.outside, self.settings, self.next = Outside(stall), {}, BASE
        self.layout = SPEC.layout(self.images.program)
        self.model, self.sizes = self.images.model, {}
        kept, *cache = self.layout.cache([len(one) for one in self.tokens]) if cut else (None,)
        samples = self.layout.samples([self.model.embeddings[one] for one in self.tokens], kept)
        for region in (*self.layout.network(self.images), *samples, *cache):
            self.place(region)
        self.settings |= {
            "program_beats": self.images.program.image().size // 16,
            "sample_count": len(self.tokens),
            "batch": BATCH,
        }

    def place(self, region):
        """Store a region in memory, and its address in the settings."""
        self.settings[region.register], self.sizes[region.register] = self.next, region.size
        if region.image is not None:
            self.outside.load(self.next, region.image)
        self.next += -(-region.size // 4096) * 4096

    def steps(self, rng, rates):
        """Schedule of steps with the given rates; the deltas, state and records."""
        steps = []
        for rate in rates:
            indices = rng.integers(0, len(self.tokens), rng.integers(1, BATCH + 1))
            steps.append(StepOrder(indices, self.labels[indices], rate))
        self.place(self.layout.order(steps, BATCH))
        self.settings["steps"] = len(steps)
        return steps

    def image(self, name):
        return self.outside.image(self.settings[name], self.sizes[name])

    def inputs(self, step):
        return padded([self.tokens[one] for one in step.indices])


async def command(bench, code, settings):
    """Run a command to its end; returns counters, and its fault or None."""
    own = bench.dut.spec.registers
    counts = dict.fromkeys([item.name for item in own.counters], 0)
    bench.set({f"control.settings.{name}": value for name, value in settings.items()})
    bench.set({"control.command": int(code)})
    await bench.tick(3)
    assert bench.get("control.ready")
    bench.set({"control.start": 1, "control.hold": 0})
    while True:
        await bench.tick()
        bench.set({"control.start": 0})
        for name in counts:
            counts[name] += bench.get(f"control.counts.{name}")
        if bench.get("control.fault.failed"):
            return counts, (own.errors(bench.get("control.fault.error")), bench.get("control.fault.address"))
        if bench.get("control.finished"):
            return counts, None
