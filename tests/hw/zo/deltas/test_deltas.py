"""Delta memory and offset memory: walks over all words, against sums and offsets that golden finds."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fabtune.golden.cores.zotrain.memory_layout import ZotrainLayout
from fabtune.golden.fixed import Q4_12, narrow
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.deltas import DELTA, Deltas, PerturbationTable
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.split import Split
from fabtune.hw.nn.interfaces import Offsets
from fabtune.hw.rng.pezo import Pezo
from fabtune.hw.zo.deltas.delta_memory import DeltaMemory
from fabtune.hw.zo.deltas.offset_memory import OffsetMemory
from fabtune.hw.zo.deltas.perturbation_numbers import PerturbationNumbers
from fabtune.hw.zo.deltas.walks import Walk, WalkRange

# 18 groups of biases: more than one word of them has room for
NARROW = PerturbationMapping(Mapping.of(network_from("20 fc33 relu fc3"), 16, 2, False))
# two cycles of the generator for each of the array's words
WIDE = PerturbationMapping(Mapping.of(network_from("20 fc70 relu fc3"), 16, 8, False))
EPS_SHIFT = 6


class Walks(wiring.Component):
    """Generator, numbers, deltas and offsets, as a trainer connects them."""

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


async def walk(ctx, dut, kind, coefficient=0, eps=0, most=3000, words=WalkRange.ALL, final=True):
    """Walk over words; the cycles until `allows_pass` was high and until the end."""
    settings = {"walk": kind, "coefficient": coefficient, "eps": eps, "range": words, "final": final, "start": 1}
    for name, value in settings.items():
        ctx.set(getattr(dut.control, name), value)
    await ctx.tick()
    ctx.set(dut.control.start, 0)
    ahead = None
    for cycle in range(most):
        if ahead is None and ctx.get(dut.control.allows_pass):
            ahead = cycle
        if ctx.get(dut.control.done):
            await ctx.tick().repeat(12)
            return ahead, cycle
        await ctx.tick()
    raise AssertionError("the walk does not end")


async def offsets_of(ctx, dut, mapping, side):
    """Offsets of all weight words and of all groups of biases."""
    ctx.set(dut.read.side, side)
    ctx.set(dut.read.bias_side, side)
    found = []
    for address, values, count in (
        (dut.read.weight, dut.read.numbers, mapping.forward.weight_words),
        (dut.read.bias, dut.read.biases, mapping.forward.groups),
    ):
        rows = []
        for at in range(count):
            ctx.set(address, at)
            await ctx.tick()
            rows.append([ctx.get(values[number]) for number in range(len(values))])
        found.append(np.array(rows))
    return found


def expected_offsets(deltas, mapping, position, amount):
    """What golden finds: of the weight words their numbers, of the biases those of each group."""
    table = deltas.along(position, amount) if amount else deltas.total
    return offsets_in(narrow(deltas.perturbation.spread(table, mapping.words), DELTA, Q4_12), mapping)


def offsets_in(numbers, mapping):
    """Numbers of all rows as the engine reads them: of each weight word, and of each group of biases."""
    columns = mapping.forward.columns
    biases = np.empty((mapping.forward.groups, columns), np.int64)
    for row, (first, groups) in enumerate(mapping.delta_rows.bias_groups):
        lanes = np.arange(groups * columns) % numbers.shape[1]
        biases[first : first + groups] = numbers[row, lanes].reshape(groups, columns)
    return numbers[mapping.bias_words :].reshape(mapping.forward.weight_words, -1), biases


async def save(ctx, dut, layout):
    """Deltas of all words."""
    ctx.set(dut.begin_save, 1)
    ctx.set(dut.save.ready, 1)
    await ctx.tick()
    ctx.set(dut.begin_save, 0)
    beats, ended = [], False
    while not ended:
        if ctx.get(dut.save.valid):
            beats.append(ctx.get(dut.save.payload).to_bytes(16, "little"))
            ended = bool(ctx.get(dut.saved))
        await ctx.tick()
    return layout.deltas_of(np.frombuffer(b"".join(beats), np.uint8))


@pytest.mark.parametrize(
    ("settings", "mapping", "parts"),
    [
        ((), NARROW, 1),
        ((), NARROW, 4),
        ((), WIDE, 1),
        ((), WIDE, 4),
        (("strategy=pool", "pool.p=32"), NARROW, 4),
        pytest.param(("scale.urng.bits=14",), NARROW, 1, marks=pytest.mark.slow),
    ],
    ids=["base", "parts", "cycles", "cycles in parts", "pool", "14 bits"],
)
def test_walks(settings, mapping, parts, play):
    assert mapping.cycles == (1 if mapping is NARROW else 2)
    spec = build(PezoSpec, settings)
    dut, rng, layout = Walks(spec, mapping, parts), np.random.default_rng(3), ZotrainLayout(mapping, spec)
    table = PerturbationTable(spec)
    deltas = Deltas(table, rng.integers(-(1 << 31), 1 << 31, table.shape))
    eps = 1 << (DELTA.fraction - table.fraction - EPS_SHIFT)
    span = Split().layout(mapping, spec.period).span
    clipped = 0

    async def body(ctx):
        nonlocal clipped
        ctx.set(dut.control.gap, span - mapping.words)
        rows = table.spread(deltas.total, mapping.words)
        for number, beat in enumerate(layout.deltas(rows).image.reshape(-1, 16)):
            ctx.set(dut.load.payload, int.from_bytes(beat.tobytes(), "little"))
            ctx.set(dut.load.valid, 1)
            assert ctx.get(dut.load.ready)
            assert ctx.get(dut.loaded) == (number == layout.delta_beats - 1)
            await ctx.tick()
        ctx.set(dut.load.valid, 0)
        for step, coefficient in enumerate((12345, -(1 << 26), (1 << 26) - 1)):
            position = step * span
            ahead, end = await walk(ctx, dut, Walk.SIDES, eps=eps)
            # the first words are there before the walk ends, once the generator has returned to the mark
            assert ahead < end
            for side, amount in enumerate((eps, -eps)):
                for found, expected in zip(
                    await offsets_of(ctx, dut, mapping, side),
                    expected_offsets(deltas, mapping, position, amount),
                    strict=True,
                ):
                    assert np.array_equal(found, expected)
                exact = table.spread(deltas.along(position, amount), mapping.words)
                nearest = np.floor(exact / (1 << 16) + 0.5)
                clipped += int(((nearest > Q4_12.maximum) | (nearest < Q4_12.minimum)).sum())
            await walk(ctx, dut, Walk.UPDATE, coefficient=coefficient)
            deltas.add(position, coefficient)
            assert np.array_equal(await save(ctx, dut, layout), table.spread(deltas.total, mapping.words))
        await walk(ctx, dut, Walk.OFFSETS)
        for found, expected in zip(
            await offsets_of(ctx, dut, mapping, 0), expected_offsets(deltas, mapping, 0, 0), strict=True
        ):
            assert np.array_equal(found, expected)
        assert ctx.get(dut.clipped) == clipped
        await walk(ctx, dut, Walk.CLEAR)
        assert not (await save(ctx, dut, layout)).any()

    play(dut, body)
    assert clipped > 0


def test_a_pass_never_overtakes():
    """Words come in as many cycles each from a start at word `lead` on; the array takes each no earlier than that.

    It takes the words of a stage for one side, and then for the other one.
    """
    for text, lanes, columns in (("20 fc33 relu fc3", 16, 2), ("1x12x12 conv4k5 relu flatten fc90 relu fc9", 32, 8)):
        mapping = PerturbationMapping(Mapping.of(network_from(text), lanes, columns, False))
        for cycles in (2, 4, 8):
            lead, clock = mapping.row_range.words_before_pass(cycles), 0
            assert mapping.bias_words < lead <= mapping.words
            for stage in mapping.forward.stages:
                for group in range(stage.groups):
                    for word in range(stage.words):
                        at = clock + group * (stage.cycles // stage.groups) + word
                        needed = (stage.weights + group * stage.words + word + 1) * mapping.cycles
                        assert lead + at // cycles >= mapping.bias_words + needed
                clock += 2 * stage.cycles


@pytest.mark.parametrize(
    ("mapping", "parts", "gap"), [(NARROW, 1, 0), (NARROW, 1, 3), (WIDE, 4, 1)], ids=["base", "gap", "cycles in parts"]
)
def test_walks_of_two_parts(mapping, parts, gap, play):
    """Sides of a part do not touch those of the other; the last walk returns to the mark, and then sets it."""
    spec = PezoSpec()
    dut, rng = Walks(spec, mapping, parts), np.random.default_rng(4)
    table, ranges = PerturbationTable(spec), (WalkRange.FIRST, WalkRange.SECOND)
    own = mapping.parts(1)
    deltas = [Deltas(table) for _ in own]
    eps = 1 << (DELTA.fraction - table.fraction - EPS_SHIFT)
    first, second = own[0].words, own[1].words + gap

    async def body(ctx):
        ctx.set(dut.control.cut, 1)
        ctx.set(dut.control.gap, gap)
        await walk(ctx, dut, Walk.CLEAR)
        position = 0
        for _ in range(2):
            sides = np.zeros((2, mapping.words, spec.width), np.int64)
            places = ((0, position), (1, position + first), (1, position + first + second))
            for number, (part, at) in enumerate(places):
                await walk(ctx, dut, Walk.SIDES, eps=eps, words=ranges[part], final=number == 2)
                for side, amount in enumerate((eps, -eps)):
                    moved = deltas[part].along(at, amount)
                    sides[side, own[part].rows] = narrow(table.spread(moved, own[part].words), DELTA, Q4_12)
            for side in range(2):
                expected = offsets_in(sides[side], mapping)
                for found, right in zip(await offsets_of(ctx, dut, mapping, side), expected, strict=True):
                    assert np.array_equal(found, right)
            for number, (part, at) in enumerate(places):
                coefficient = int(rng.integers(-(1 << 20), 1 << 20))
                await walk(ctx, dut, Walk.UPDATE, coefficient=coefficient, words=ranges[part], final=number == 2)
                deltas[part].add(at, coefficient)
            position += first + 2 * second
        rows = await save(ctx, dut, ZotrainLayout(mapping, spec))
        for part, sums in zip(own, deltas, strict=True):
            assert np.array_equal(rows[part.rows], table.spread(sums.total, part.words))

    play(dut, body)
