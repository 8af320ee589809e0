"""Engine that runs a pass by golden's functions: what the trainer takes for the datapath."""

import numpy as np

from fabtune.golden.stream.instruction import Buffer, Instruction
from fabtune.golden.stream.memory.chunks import ChunkLayout, Place
from fabtune.golden.zo.deltas import DELTA

from ...simulation import plain


class GoldenEngine:
    """Stands behind an `EnginePort` in the background of a simulation.

    Parameters
    ----------
    port : EnginePort
    images : StreamImages
        Program, and its model: parameters are the frozen ones, plus the offsets that it is given.
    spec : ZostreamSpec
    rng : numpy.random.Generator
        Of stalls.
    stall : float

    Attributes
    ----------
    passes : list of (lengths, amount)
        Passes that it ran.
    """

    def __init__(self, port, images, spec, rng, stall=0.0):
        self.port, self.model, self.program, self.rng, self.stall = port, images.model, images.program, rng, stall
        self.numbers, self.told = spec.generator.width, []
        self.chunks = ChunkLayout(spec.lanes, spec.columns, spec.rows, spec.wide_rows)
        self.memory, self.passes = {}, []

    def willing(self):
        return bool(self.rng.random() >= self.stall)

    async def take(self, ctx, stream, count=1):
        """Take words from a stream, with stalls."""
        found = []
        while len(found) < count:
            ready = self.willing()
            ctx.set(stream.ready, ready)
            *_, valid, word = await ctx.tick().sample(stream.valid, stream.payload)
            if valid and ready:
                found.append(word)
        ctx.set(stream.ready, 0)
        return found

    async def give(self, ctx, stream, word):
        while not self.willing():
            await ctx.tick()
        ctx.set(stream.payload, word)
        ctx.set(stream.valid, 1)
        while not (await ctx.tick().sample(stream.ready))[2]:
            pass
        ctx.set(stream.valid, 0)

    async def until(self, ctx, flag):
        while not (await ctx.tick().sample(flag))[2]:
            pass

    async def sentences(self, ctx):
        """Sentences of each pass."""
        while True:
            (sentence,) = await self.take(ctx, self.port.sentence)
            self.told.append(sentence)

    async def run(self, ctx):
        port = self.port
        while True:
            await self.until(ctx, port.load)
            self.told = []
            self.rows, count, *_ = (ctx.get(one) for one in (port.rows, port.sentences))
            values = await self.values(ctx, ctx.get(port.features))
            firsts = [one.first for one in self.told]
            lengths = [one.length for one in self.told]
            assert firsts == [sum(lengths[:at]) for at in range(count)]
            assert sum(lengths) == self.rows
            assert max(lengths) == ctx.get(port.longest)
            ctx.set(port.loaded, 1)
            await ctx.tick()
            ctx.set(port.loaded, 0)
            await self.until(ctx, port.start)
            last = await self.instructions(ctx)
            clipped = await self.compute(ctx, values, tuple(lengths), last)
            ctx.set(port.clipped, clipped)
            ctx.set(port.done, 1)
            await ctx.tick()
            ctx.set(port.done, 0)

    async def values(self, ctx, features):
        """Rows of all tokens."""
        beats = self.rows * -(-features // 32) * 6
        image = b"".join(beat.to_bytes(16, "little") for beat in await self.take(ctx, self.port.beats, beats))
        fours = np.pad(np.frombuffer(image, np.uint8).reshape(-1, 3), ((0, 0), (1, 0)))
        values = np.ascontiguousarray(fours).view("<i4").astype(np.int64) >> 8
        return values.reshape(self.rows, -1)[:, :features]

    async def instructions(self, ctx):
        """All instructions up to the last; they are the program's."""
        found = []
        while not found or not found[-1].last:
            (word,) = await self.take(ctx, self.port.instruction)
            found.append(Instruction(**{name: word[name] for name in Instruction.__dataclass_fields__}))
        assert found == list(self.program.instructions)
        return found[-1]

    async def compute(self, ctx, values, lengths, last):
        """Logits of both sides into the memory; the number of values that are clipped."""
        port, model, clipped = self.port, self.model, 0
        amount = ctx.get(port.amount)
        self.passes.append((lengths, amount))
        offsets = np.zeros((2, model.words, self.numbers), np.int64)
        for name, place in model.order.places.items():
            fraction = model.transformer.format_of(name).fraction
            request = {"factor": amount, "word": place.start, "count": len(place), "fraction": fraction}
            await self.give(ctx, port.request, request | {"wide": name[1] == "bias"})
            for word, given in zip(place, await self.take(ctx, port.offsets, len(place)), strict=True):
                for side, row in enumerate((given.plus, given.minus)):
                    offsets[side, word] = np.array(plain(row)) << DELTA.fraction - fraction
        for side in range(2):
            own = model.parameters(offsets[side])
            outputs, saturations = model.transformer.run(own, values, lengths, model.product, model.operations)
            clipped += sum(saturations)
            self.store(outputs[-1], Buffer.of(last.destination), side * len(lengths), ctx.get(port.capacity))
        return clipped

    def store(self, rows, buffer, first, stride):
        columns = self.chunks.columns
        for row, values in enumerate(np.pad(rows, ((0, 0), (0, -rows.shape[1] % columns)))):
            for group, chunk in enumerate(np.split(values, len(values) // columns)):
                place = Place(buffer.wide, buffer.first * stride)
                self.memory[self.chunks.chunk(place, group, first + row, stride)] = chunk.tolist()

    async def results(self, ctx):
        """Serve reads of results."""
        while True:
            (read,) = await self.take(ctx, self.port.operands_read)
            await self.give(ctx, self.port.operands, {"value": self.memory[read.wide, read.address, read.part]})

    @property
    def background(self):
        """Benches of all that it does."""
        return [self.sentences, self.run, self.results]
