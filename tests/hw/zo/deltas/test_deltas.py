"""Delta memory and offset memory: address sequences over all words, against golden's sums and offsets."""

import numpy as np
import pytest

from fabtune.golden.cores.zotrain.memory_layout import ZotrainLayout
from fabtune.golden.fixed import Q4_12, narrow
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.deltas import DELTA, Deltas, PerturbationTable
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.split import Split
from fabtune.hw.zo.deltas.walks import Walk, WalkRange

from ...play import play_interface
from ...simulation import beats_of
from .walks import Walks, offsets, saved, walk

# 18 groups of biases: more than a word holds
NARROW = PerturbationMapping(Mapping.of(network_from("20 fc33 relu fc3"), 16, 2, False))
# two cycles of the generator for each of the array's words
WIDE = PerturbationMapping(Mapping.of(network_from("20 fc70 relu fc3"), 16, 8, False))
EPS_SHIFT = 6


def offsets_in(numbers, mapping):
    """Numbers of all rows as the engine reads them: for each weight word, and for each group of biases."""
    columns = mapping.forward.columns
    biases = np.empty((mapping.forward.groups, columns), np.int64)
    for row, (first, groups) in enumerate(mapping.delta_rows.bias_groups):
        lanes = np.arange(groups * columns) % numbers.shape[1]
        biases[first : first + groups] = numbers[row, lanes].reshape(groups, columns)
    return [numbers[mapping.bias_words :].reshape(mapping.forward.weight_words, -1), biases]


def same(found, expected):
    """Whether all arrays equal the others."""
    return [np.array_equal(*both) for both in zip(found, expected, strict=True)] == [True] * len(expected)


def expected_walks(deltas, mapping, span, eps, coefficients):
    """For each step offsets of both perturbation signs and deltas after the update; then all offsets, and the clipped
    number.
    """
    table, expected, clipped = deltas.perturbation, [], 0
    for step, coefficient in enumerate(coefficients):
        for amount in (eps, -eps):
            exact = table.spread(deltas.along(step * span, amount), mapping.words)
            expected += offsets_in(narrow(exact, DELTA, Q4_12), mapping)
            nearest = np.floor(exact / (1 << 16) + 0.5)
            clipped += int(((nearest > Q4_12.maximum) | (nearest < Q4_12.minimum)).sum())
        deltas.add(step * span, coefficient)
        expected.append(table.spread(deltas.total, mapping.words))
    return expected + offsets_in(narrow(expected[-1], DELTA, Q4_12), mapping), clipped


@pytest.mark.parametrize(
    ("settings", "mapping", "parts"),
    [
        pytest.param((), NARROW, 1, marks=pytest.mark.slow),
        ((), NARROW, 4),
        pytest.param((), WIDE, 1, marks=pytest.mark.slow),
        pytest.param((), WIDE, 4, marks=pytest.mark.slow),
        pytest.param(("strategy=pool", "pool.p=32"), NARROW, 4, marks=pytest.mark.slow),
        pytest.param(("scale.urng.bits=14",), NARROW, 1, marks=pytest.mark.slow),
    ],
    ids=["a whole table", "parts", "cycles", "base", "pool", "14 bits"],
)
def test_walks(settings, mapping, parts):
    assert mapping.cycles == (1 if mapping is NARROW else 2)
    spec = build(PezoSpec, settings)
    layout, table = ZotrainLayout(mapping, spec), PerturbationTable(spec)
    deltas = Deltas(table, np.random.default_rng(3).integers(-(1 << 31), 1 << 31, table.shape))
    image = beats_of(layout.deltas(table.spread(deltas.total, mapping.words)).image)
    eps = 1 << (DELTA.fraction - table.fraction - EPS_SHIFT)
    span, coefficients, found = Split().layout(mapping, spec.period).span, (12345, -(1 << 26), (1 << 26) - 1), []
    expected, clipped = expected_walks(deltas, mapping, span, eps, coefficients)

    async def body(bench):
        bench.set({"control.gap": span - mapping.words})
        await bench.give("load", image)
        for coefficient in coefficients:
            await walk(bench, Walk.SIDES, eps=eps)
            found.extend(await offsets(bench, mapping, 0) + await offsets(bench, mapping, 1))
            await walk(bench, Walk.UPDATE, coefficient=coefficient)
            found.append(await saved(bench, layout))
        await walk(bench, Walk.OFFSETS)
        found.extend(await offsets(bench, mapping, 0))
        assert bench.get("clipped") == clipped > 0
        await walk(bench, Walk.CLEAR)
        assert not (await saved(bench, layout)).any()

    seen = play_interface(Walks(spec, mapping, parts), watch={"loaded": None, "saved": None}, body=body)
    assert seen.cycles("loaded") == [len(image) - 1], "a beat a cycle, with the last one"
    assert same(found, expected)


def test_a_pass_never_overtakes():
    """Words arrive at a fixed interval from a start at word `lead`; the array takes no word before its arrival.

    The array takes the words of a stage for one perturbation sign, then for the other.
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


def expected_parts(own, deltas, mapping, steps, eps, spans, width):
    """For each step offsets of both perturbation signs; then the deltas of each part. A step is its (part, coefficient)
    pairs.
    """
    expected, at, table = [], 0, deltas[0].perturbation
    for step in steps:
        places = [(part, at + sum(spans[number] for number, _ in step[:walk])) for walk, (part, _) in enumerate(step)]
        for sign in (1, -1):
            numbers = np.zeros((mapping.words, width), np.int64)
            for part, place in places:
                moved = deltas[part].along(place, sign * eps)
                numbers[own[part].rows] = narrow(table.spread(moved, own[part].words), DELTA, Q4_12)
            expected += offsets_in(numbers, mapping)
        for (part, place), (_, coefficient) in zip(places, step, strict=True):
            deltas[part].add(place, coefficient)
        at += sum(spans[part] for part, _ in step)
    return expected + [table.spread(sums.total, part.words) for part, sums in zip(own, deltas, strict=True)]


@pytest.mark.parametrize(
    ("mapping", "parts", "gap"),
    [
        pytest.param(NARROW, 1, 0, marks=pytest.mark.slow),
        (NARROW, 1, 3),
        pytest.param(WIDE, 4, 1, marks=pytest.mark.slow),
    ],
    ids=["no gap", "base", "cycles in parts"],
)
def test_walks_of_two_parts(mapping, parts, gap):
    """The offsets of a part stay unchanged by the other part; the last sequence returns to the mark, then sets the
    mark.
    """
    spec, rng, found = PezoSpec(), np.random.default_rng(4), []
    table, ranges, own = PerturbationTable(spec), (WalkRange.FIRST, WalkRange.SECOND), mapping.parts(1)
    layout, eps = ZotrainLayout(mapping, spec), 1 << (DELTA.fraction - table.fraction - EPS_SHIFT)
    steps = [[(part, int(rng.integers(-(1 << 20), 1 << 20))) for part in (0, 1, 1)] for _ in range(2)]
    spans = own[0].words, own[1].words + gap
    expected = expected_parts(own, [Deltas(table) for _ in own], mapping, steps, eps, spans, spec.width)

    async def body(bench):
        bench.set({"control.cut": 1, "control.gap": gap})
        await walk(bench, Walk.CLEAR)
        for step in steps:
            for number, (part, _) in enumerate(step):
                await walk(bench, Walk.SIDES, eps=eps, range=ranges[part], final=number == 2)
            found.extend(await offsets(bench, mapping, 0) + await offsets(bench, mapping, 1))
            for number, (part, coefficient) in enumerate(step):
                await walk(bench, Walk.UPDATE, coefficient=coefficient, range=ranges[part], final=number == 2)
        rows = await saved(bench, layout)
        found.extend(rows[part.rows] for part in own)

    play_interface(Walks(spec, mapping, parts), watch={"saved": None}, body=body)
    assert same(found, expected)
