"""A forward engine alone, from images to the outputs of all stages."""

from itertools import product
from math import prod

from amaranth.hdl import EnableInserter, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.interfaces import ACTIVATION, BEATS, SampleInput
from fabtune.hw.nn.memories.output_memory import OutputReader

from ..play import play_interface
from ..simulation import beats_of

READ = ("enable", "address", "column")
"""Members of `StageOutputs` driven by a reader."""


class Inference(wiring.Component):
    """A forward engine with the outputs of stage `stage` as a stream; the other stages wait."""

    def __init__(self, mapping):
        self.mapping, self.engine = mapping, ForwardEngine(mapping)
        super().__init__(
            {
                "load": In(BEATS),
                "loaded": Out(1),
                "sample": In(SampleInput()),
                "hold": In(1),
                "stage": In(range(len(mapping.stages))),
                "o": Out(stream.Signature(ACTIVATION)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = self.engine
        outputs = self.engine.outputs
        for stage in range(len(self.mapping.stages)):
            reader, waiting = OutputReader(self.mapping, stage), Signal(name=f"waiting{stage}")
            m.submodules[f"reader{stage}"] = EnableInserter(self.stage == stage)(reader)
            m.d.comb += reader.outputs.filled[stage].eq(outputs.filled[stage] | waiting)
            m.d.comb += outputs.full[stage].eq(reader.outputs.full[stage] | waiting)
            with m.If(self.stage == stage):
                m.d.sync += waiting.eq(0)
                wiring.connect(m, reader.o, wiring.flipped(self.o))
                m.d.comb += [getattr(outputs, one).eq(getattr(reader.outputs, one)) for one in READ]
                m.d.comb += reader.outputs.value.eq(outputs.value)
            with m.Elif(outputs.filled[stage]):
                m.d.sync += waiting.eq(1)
        wiring.connect(m, wiring.flipped(self.load), self.engine.load)
        wiring.connect(m, wiring.flipped(self.sample), self.engine.sample)
        m.d.comb += [self.loaded.eq(self.engine.loaded), self.engine.hold.eq(self.hold)]
        return m


def loads_and_samples(load, images):
    """Body that sends parameter beats, then samples in sequence."""

    async def feed(bench):
        for beat in load[:-1]:
            await bench.pulse("load.valid", payload=beat)
        bench.set({"load.payload": load[-1], "load.valid": 1})
        await bench.until("loaded")
        bench.set({"load.valid": 0})
        for number, image in enumerate(images):
            while not bench.get("sample.room"):
                await bench.tick()
            await bench.pulse("sample.start")
            await bench.give("sample.beats", beats_of(image))
            while len(bench.seen["sample.done"]) <= number:
                await bench.tick()

    return feed


def infer(mapping, parameters, images, stall=0.0, hold=0):
    """Outputs of samples as a list per stage, the cycle of the first start, and the number of clipped sums.

    `parameters` is their image. With `hold` no sample starts before this cycle.
    """
    found, load = [[] for _ in mapping.stages], beats_of(parameters)

    async def take(bench):
        for _, number in product(images, range(len(found))):
            bench.set(stage=number)
            found[number] += await bench.take("o", prod(mapping.network_stages[number].output_shape))

    async def release(bench):
        bench.set(hold=hold > 0)
        await bench.tick(hold)
        bench.set(hold=0)

    watch = dict.fromkeys(("load.ready", "loaded", "sample.done", "engine.running", "engine.clipped"))
    seen = play_interface(
        Inference(mapping),
        body=[loads_and_samples(load, images), take, release],
        watch=watch,
        stall=stall,
        limit=30_000,
    )
    assert seen.cycles("load.ready")[: len(load) - 1] == list(range(len(load) - 1))
    # activations are cleared from the cycle after the first beat
    assert seen.cycles("loaded") == [max(len(load) - 1, mapping.clear_cycles + 1)]
    return found, seen.cycles("engine.running")[0], sum(seen.words("engine.clipped"))
