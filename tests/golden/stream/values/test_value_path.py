"""`value_path` on instructions of small real transformers: chunks and saturations equal the interpreter's; limits."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.stream.instruction import Kind, shifted_format
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.layout import HEADER_BEATS
from fabtune.golden.stream.machine.program import program_of
from fabtune.golden.stream.values.value_operation import KINDS, ValueOperation, operation_of, settings
from fabtune.golden.stream.values.value_path import VALUES, ValuePathSpec
from fabtune.golden.transformer.blocks import PoolTokens, UnitLength
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from tests.golden.stream.machine.program_machine import Machine
from tests.golden.stream.machine.test_layout import made
from tests.golden.stream.machine.test_program import own
from tests.own_transformers import NETWORKS, Drawn, rows_of

SMALL, LENGTHS = CoreSize.of_array("16x4"), (5, 1, 7)


class Side(Machine):
    """A side of a step: operands, result and saturations of each instruction."""

    def run(self, inputs, lengths):
        self.records = []
        return super().run(inputs, lengths)

    def result(self, one):
        read = {"source": self.read(one.source, one.inputs), "vectors": np.zeros((0, one.outputs), np.int64)}
        if one.kind == Kind.LINEAR:
            read["sums"] = read.pop("source") @ self.tensor(one, "weight").T
            if one.biased:
                read["vectors"] = self.tensor(one, "bias")[None]
        if one.kind == Kind.POSITIONS:
            read["vectors"] = self.table(one.table, max(self.lengths), one.outputs)
        if one.join or one.kind in (Kind.GATE, Kind.ADD):
            read["second"] = self.read(
                one.other if one.join else one.second, one.inputs if not one.join else one.outputs
            )
        memory, before = dict(self.rows), self.narrow.saturations
        found = super().result(one)
        self.records.append((read, memory, found, self.narrow.saturations - before))
        return found


def order_of(one, groups, rows, lengths):
    """Group, side and row of the chunks, in order."""
    if one.kind != Kind.POSITIONS:
        return np.indices((groups, 2, rows)).reshape(3, -1)
    found = [
        (group, side, start + position)
        for position in range(max(lengths))
        for side in range(2)
        for start, length in zip(np.cumsum([0, *lengths[:-1]]), lengths, strict=True)
        if length > position
        for group in range(groups)
    ]
    return np.array(found).T


def chunks(spec, sides, order, rng):
    """Chunks of both sides' rows in a given order; arbitrary values after the features."""
    columns, features = spec.columns, sides[0].shape[1]
    junk = rng.integers(-999, 999, (2, len(sides[0]), -features % columns))
    groups, side, rows = order
    return np.concatenate([np.stack(sides), junk], axis=2).reshape(2, len(sides[0]), -1, columns)[side, rows, groups]


def inputs_of(spec, operation, order, lengths, reads, rng):
    """Words of all inputs of an operation."""
    chosen, rows = settings(operation), operation.rows
    kinds = ["source"] * (not chosen.sums) + ["second"] * bool(chosen.joined)
    operands = [chunks(spec, [read[name] for read in reads], order, rng) for name in kinds]
    shape = len(kinds), len(order[0]), spec.columns
    vectors = np.stack([read["vectors"] for read in reads])
    plus, minus = np.pad(vectors, ((0, 0), (0, 0), (0, -vectors.shape[2] % VALUES))).reshape(2, -1, VALUES)
    times = max(lengths) if chosen.positions else 0
    firsts = np.cumsum([0, *lengths[:-1]])
    sentences = {"first": [*firsts, *(firsts + rows)] * times, "length": [*lengths, *lengths] * times}
    sums = chunks(spec, [read["sums"] for read in reads], order, rng) if chosen.sums else np.zeros((0, VALUES), int)
    last = np.tile(last_flags([-(-vectors.shape[2] // VALUES)]), (vectors.shape[1], 1))
    return {
        "operation": {name: np.array([[number]]) for name, number in operation._asdict().items()},
        "sums": {"sum": sums.reshape(-1, VALUES)},
        "biases": {"plus": plus, "minus": minus, "last": last},
        "sentences": {name: np.array(column, np.int64)[:, None] for name, column in sentences.items()},
        "operands": {
            "value": np.array(operands, np.int64).reshape(shape).swapaxes(0, 1).reshape(-1, spec.columns),
            "tag": np.tile([int(name == "second") for name in kinds], len(order[0])).astype(np.int64)[:, None],
        },
    }


def chunk_at(spec, memories, capacity, rows, place):
    """Chunk at an address of the interpreters' memories."""
    wide, address, part = place
    line, row = divmod(address, capacity)
    return memories[row // rows][bool(wide), line][row % rows][part * spec.columns :][: spec.columns]


def places_of(words):
    """Addresses of chunks in words."""
    return [*zip(*(words[name][:, 0].tolist() for name in ("wide", "address", "part")), strict=True)]


def side_of(program, layout, image, number, lengths, rng):
    """Interpreter of one side after a run; the other side has other rows and biases."""
    side = Side(program, layout.decode(image), image[HEADER_BEATS * BEAT :])
    for (_, kind), values in side.tensors.items():
        if kind == "bias":
            values += number * rng.integers(-5000, 5000, len(values))
    inputs = Q8_16.from_float(rows_of(layout.transformer.network, lengths)) * (1 + number * 5)
    side.run(inputs.clip(Q8_16.minimum, Q8_16.maximum), lengths)
    return side


def compare(layout, tensors, lengths):
    """Requests, writes and saturations of a network's instructions compared with interpreters; returns instructions by
    kind.
    """
    image, rng, size = layout.encode(tensors), np.random.default_rng(3), layout.size
    program, seen = program_of(layout, bytes(32)), Counter()
    spec = ValuePathSpec(lanes=size.lanes, columns=size.columns, rows=size.rows, wide_rows=size.wide_rows)
    sides = [side_of(program, layout, image, number, lengths, rng) for number in range(2)]
    for one, *records in zip(program.instructions, *(side.records for side in sides), strict=True):
        if one.kind not in KINDS:
            continue
        reads, memories, results, saturated = zip(*records, strict=True)
        rows = len(results[0])
        operation = operation_of(one, rows, len(lengths), max(lengths), program.capacity)
        order = order_of(one, -(-one.outputs // spec.columns), rows, lengths)
        inputs = inputs_of(spec, operation, order, lengths, reads, rng)
        outputs = spec.run(inputs, 1 << 40)
        assert outputs["done"]["clipped"].tolist() == [[sum(saturated)]]
        assert outputs["operands_read"]["tag"].tolist() == inputs["operands"]["tag"].tolist()
        groups = np.repeat(order[0], len(inputs["operands"]["value"]) // len(order[0]))
        for place, given, group in zip(
            places_of(outputs["operands_read"]), inputs["operands"]["value"], groups, strict=True
        ):
            count = one.outputs - group * spec.columns
            assert (chunk_at(spec, memories, program.capacity, rows, place)[:count] == given[:count]).all()
        for side, result in zip(sides, results, strict=True):
            side.write(one.destination, result)
        written, width = places_of(outputs["write"]), sides[0].width(operation.destination_wide)
        assert len({*written}) == len(written) == 2 * rows * -(-one.outputs // width) * width // spec.columns
        for place, value in zip(written, outputs["write"]["value"], strict=True):
            assert (chunk_at(spec, [side.rows for side in sides], program.capacity, rows, place) == value).all()
        seen[one.kind, one.activation, one.join] += 1
        seen["clipped"] += sum(saturated)
    return seen


def mixed():
    """All value operations without a preceding linear layer, and squares; saturating sums."""
    made, drawn = TransformerBuilder("mixed", 21), Drawn(8)
    x = made.linear("first", INPUTS, drawn.weight(40, 21) * 9, drawn.near(0, 40))
    squares, gelu = made.activation("squares", x, "relu-squared"), made.activation("gelu", x, "gelu")
    gated = made.residual("sum", made.gate("gate", squares, gelu), gelu)
    normed = made.layer_norm("norm", gated, drawn.near(1, 40), drawn.near(0, 40), 1e-5)
    up = made.activation("up squares", made.linear("up", normed, drawn.weight(9, 40) * 9), "relu-squared")
    other = made.linear("other", normed, drawn.weight(9, 40))
    made.linear("head", made.gate("second gate", up, other), drawn.weight(5, 9), drawn.near(0, 5))
    return made.finish()


ALL = [*NETWORKS, "mixed"]


def network(name, size):
    return made(*(mixed() if name == "mixed" else own(name, size)), size)


@pytest.mark.parametrize("name", ALL)
def test_instructions_of_networks_are_those_of_the_machine(name):
    seen = compare(*network(name, SMALL), LENGTHS)
    if name == "mixed":
        kinds = Counter(one[0] for one in seen if one != "clipped")
        assert {*kinds} == {*KINDS} - {Kind.POSITIONS}
        assert kinds[Kind.ACTIVATION] == 2
        assert seen["clipped"] > 100


@pytest.mark.parametrize("name", ALL)
def test_activations_may_be_shifted(name):
    layout, tensors = network(name, CoreSize())
    plain = layout.transformer
    kept = {number for number, one in enumerate(plain.network.operations) if isinstance(one, PoolTokens | UnitLength)}
    forms = {
        number: shifted_format(form, 1 + number % 3) for number, form in enumerate(plain.formats) if number not in kept
    }
    compare(dataclasses.replace(layout, transformer=dataclasses.replace(plain, activations=forms)), tensors, (3, 1, 2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": 2}, "columns = 2"),
        ({"columns": 64}, "columns = 64"),
        ({"features": 16}, "features = 16"),
        ({"features": 4112}, "features = 4112"),
        ({"features": 40}, "features = 40"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        ValuePathSpec(**settings)


def test_more_rows_than_there_is_room_for_are_refused():
    spec = ValuePathSpec()
    for kind, field in ((Kind.ACTIVATION, "rows"), (Kind.POSITIONS, "longest")):
        one = ValueOperation(kind=kind, features=spec.columns, **{field: spec.longest + 1})
        inputs = {
            name: {each.name: np.zeros((0, each.lanes), np.int64) for each in port.fields}
            for name, port in spec.streams().items()
        }
        inputs["operation"] = {name: np.array([[value]]) for name, value in one._asdict().items()}
        with pytest.raises(UserError, match=rf"{spec.longest + 1} rows of a side: there is room for {spec.longest}"):
            spec.run(inputs, 1)
