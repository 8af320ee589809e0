"""Engine that runs a pass with golden functions, in place of the datapath."""

from dataclasses import replace

import numpy as np

from fabtune.golden.stream.instruction import Instruction, RowAddress
from fabtune.golden.stream.memory.chunks import ChunkLayout, ValueAddress
from fabtune.golden.zo.deltas import DELTA

from ...simulation import plain


class GoldenEngine:
    """Drives an `EnginePort` as a background bench of a simulation.

    Parameters
    ----------
    port : EnginePort
    images : StreamImages
        Program and model; effective parameters are the frozen ones plus received offsets.
    spec : ZostreamSpec
    rng : numpy.random.Generator
        Source of stalls.
    stall : float

    Attributes
    ----------
    passes : list of (lengths, amount)
        Completed passes.
    """

    def __init__(self, port, images, spec, rng, stall=0.0):
        self.port, self.model, self.program, self.rng, self.stall = port, images.model, images.program, rng, stall
        self.cut = images.cut
        self.parts = [self.model]
        if self.cut:
            self.parts = [replace(self.model, last=self.cut), replace(self.model, first=self.cut)]
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
        ctx.set(port.fetched, 1)
        while True:
            await self.until(ctx, port.load)
            self.told = []
            self.rows, count, *_ = (ctx.get(one) for one in (port.rows, port.sentences))
            values = await (self.kept if ctx.get(port.kept) else self.values)(ctx)
            firsts = [one.first for one in self.told]
            lengths = [one.length for one in self.told]
            assert firsts == [sum(lengths[:at]) for at in range(count)]
            assert sum(lengths) == self.rows
            assert max(lengths) == ctx.get(port.longest)
            ctx.set(port.loaded, 1)
            await ctx.tick()
            ctx.set(port.loaded, 0)
            await self.until(ctx, port.start)
            last, operations = await self.instructions(ctx)
            clipped = await self.compute(ctx, values, tuple(lengths), last, operations)
            ctx.set(port.clipped, clipped)
            ctx.set(port.done, 1)
            await ctx.tick()
            ctx.set(port.done, 0)

    async def kept(self, ctx):
        """Rows at the cut, both sides."""
        (features, _), alike = self.model.transformer.network.shapes[self.cut - 1], ctx.get(self.port.alike)
        beats = ctx.get(self.port.row_beats)
        assert beats == -(-features // 4)
        given = await self.take(ctx, self.port.beats, self.rows * beats * (2 - alike))
        image = b"".join(beat.to_bytes(16, "little") for beat in given)
        rows = np.frombuffer(image, "<i4").astype(np.int64).reshape(self.rows, 2 - alike, -1)[:, :, :features]
        return [rows[:, 0], rows[:, -1]]

    async def values(self, ctx):
        """Rows of all tokens, both sides."""
        features = ctx.get(self.port.features)
        beats = self.rows * -(-features // 32) * 6
        image = b"".join(beat.to_bytes(16, "little") for beat in await self.take(ctx, self.port.beats, beats))
        fours = np.pad(np.frombuffer(image, np.uint8).reshape(-1, 3), ((0, 0), (1, 0)))
        values = np.ascontiguousarray(fours).view("<i4").astype(np.int64) >> 8
        return 2 * [values.reshape(self.rows, -1)[:, :features]]

    async def instructions(self, ctx):
        """Instructions up to and including the last, of the program or a segment, with their operations."""
        behind = ctx.get(self.port.kept)
        found = []
        while not found or not found[-1].last:
            (word,) = await self.take(ctx, self.port.instruction)
            found.append(Instruction(**{name: word[name] for name in Instruction.__dataclass_fields__}))
        cut, all_of_them = self.program.cut, range(len(self.model.transformer.network.operations))
        first = cut if behind else 0
        own = self.program.instructions[first : first + len(found)]
        assert found == [*own[:-1], replace(own[-1], last=1)]
        if len(found) == cut and not behind:
            return own[-1], all_of_them[: self.cut]
        assert own[-1] == self.program.instructions[-1]
        return own[-1], all_of_them[self.cut if behind else 0 :]

    async def compute(self, ctx, values, lengths, last, operations):
        """Write both sides' results to memory; returns the number of clipped values."""
        port, model, clipped = self.port, self.model, 0
        amount = ctx.get(port.amount)
        self.passes.append((lengths, amount))
        moved = [dict(model.frozen), dict(model.frozen)]
        for table, part in enumerate(self.parts):
            if any(name[0] in part.operations and part.tuned(name) for name in model.frozen):
                await self.move(ctx, table, part, set(operations), moved)
        for side in range(2):
            outputs, saturations = model.transformer.run(moved[side], values[side], lengths, model.product, operations)
            clipped += sum(saturations)
            first = side * len(outputs[-1])
            self.store(outputs[-1], RowAddress.of(last.destination), first, ctx.get(port.capacity))
        return clipped

    async def move(self, ctx, table, part, operations, moved):
        """Request offsets of some operations' tensors and add them to both sides' parameters."""
        port, offsets = self.port, np.zeros((2, part.words, self.numbers), np.int64)
        own = {name: place for name, place in part.order.places.items() if name[0] in operations}
        for name, place in own.items():
            fraction = part.transformer.format_of(name).fraction
            request = {"factor": ctx.get(port.amount), "word": place.start, "count": len(place), "fraction": fraction}
            await self.give(ctx, port.request, request | {"wide": name[1] == "bias", "table": table})
            for word, given in zip(place, await self.take(ctx, port.offsets, len(place)), strict=True):
                for side, row in enumerate((given.plus, given.minus)):
                    offsets[side, word] = np.array(plain(row)) << DELTA.fraction - fraction
        for side in range(2):
            parameters = part.parameters(offsets[side])
            moved[side] |= {name: parameters[name] for name in own}

    def store(self, rows, buffer, first, stride):
        columns = self.chunks.columns
        for row, values in enumerate(np.pad(rows, ((0, 0), (0, -rows.shape[1] % columns)))):
            for group, chunk in enumerate(np.split(values, len(values) // columns)):
                place = ValueAddress(buffer.wide, buffer.first * stride)
                self.memory[self.chunks.chunk(place, group, first + row, stride)] = chunk.tolist()

    async def results(self, ctx):
        """Serve reads of results."""
        while True:
            (read,) = await self.take(ctx, self.port.operands_read)
            await self.give(ctx, self.port.operands, {"value": self.memory[read.wide, read.address, read.part]})

    @property
    def background(self):
        """All benches of the engine."""
        return [self.sentences, self.run, self.results]
