"""Commands of `tensor_sequencer` deliver every tensor of both sides of a transformer's model, in order."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower
from fabtune.golden.stream.attention import rotations
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.instruction import Instruction, Kind
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.layout import HEADER_BEATS, StreamLayout
from fabtune.golden.stream.machine.program import program_of
from fabtune.golden.stream.transformer_model import TransformerModel, everything
from fabtune.golden.stream.weights.tensor_sequencer import PassInstruction, Request, TensorSequencerSpec, words_of
from fabtune.golden.stream.weights.tile_weights import OffsetKind
from fabtune.golden.stream.weights.word_offsets import OffsetCommand, WordOffsetsSpec
from fabtune.golden.stream.words import tile_places
from fabtune.golden.zo.deltas import Deltas, PerturbationTable
from tests.golden.stream.weights.test_word_offsets import Commands, large
from tests.own_transformers import NETWORKS, SOURCE, decoder

SIDES = ("plus", "minus")
SIZES = {"small": CoreSize(16, 4, rows=4096, wide_rows=4096), "wide": CoreSize(32, 8, rows=4096, wide_rows=4096)}
MADE = NETWORKS | {"decoder": lambda: decoder(heads=2, key_heads=1, width=32, layers=1)}
"""Head widths are multiples of both chunk sizes."""
EPS, POSITION = 1 << 12, 1234


class Case:
    """A transformer with image, program and parameters of both sides."""

    def __init__(self, made, tuned, size, source=SOURCE):
        (network, parameters), rng = made, np.random.default_rng(3)
        self.source, times = source, len(source.base)
        matrices = [one for one in parameters if one[1] == "weight"]
        sensitive = {}
        if tuned == "sensitive":
            rates = (0.9, 0.0, 0.02, 0.1)
            sensitive = {
                one: np.flatnonzero(rng.random(parameters[one].size) < rate)
                for one, rate in zip(matrices[1:-1], rates, strict=False)
            }
        chosen = {"all": everything, "from a layer on": lambda one: one[0] > 1, "sensitive": sensitive.__contains__}
        base = frozen_base(network, parameters, coarse=lambda one: one != matrices[-1], sensitive=sensitive)
        self.layout = StreamLayout(base.transformer, frozenset(base.codes), size, sensitive)
        image = self.layout.encode({**base.integers, **base.codes}, base.integers)
        self.body = image[HEADER_BEATS * BEAT :]
        self.program = program_of(self.layout, bytes(32), chosen[tuned])
        self.model = TransformerModel(
            base.transformer,
            base.integers,
            tuned=chosen[tuned],
            sensitive=sensitive,
            times=times,
            lanes=size.lanes,
            columns=size.columns,
        )
        table = PerturbationTable(source)
        self.deltas = Deltas(table, large(rng, table.shape) >> 3)
        self.shapes, self.network = network.parameter_shapes, network

    def sides(self):
        """Parameters of both sides, by the integer job's functions."""
        table, narrow = self.deltas.perturbation, Narrower()
        spread = (table.spread(self.deltas.along(POSITION, side), self.model.words) for side in (EPS, -EPS))
        return [self.model.parameters(narrow(one, 28, self.model.offset_format)) for one in spread]


def brought(case, spec, longest):
    """Words of both outputs of `tile_weights` for the commands on an image, with their inputs."""
    given = [PassInstruction.of(one, longest, EPS) for one in case.program.instructions]
    operations = words_of(given, spec.streams()["operation"].fields)
    found = spec.run({"operation": operations}, 1 << 30)
    body = case.body.view("<i4").reshape(-1, 4).astype(np.int64)
    entries = case.body.view("<i4").reshape(-1, 2).astype(np.int64)
    reads, corrections = found["beats"], found["corrections"]
    beats = [body[first : first + count] for first, count in joined_columns(reads, "beat", "beats")]
    sensitive = [entries[2 * beat :][:count] for beat, count in joined_columns(corrections, "beat", "weights")]
    data, pairs = np.concatenate(beats), np.concatenate([np.zeros((0, 2), np.int64), *sensitive])
    commands = Commands(WordOffsetsSpec(generator=case.source))
    image = case.deltas.perturbation.spread(case.deltas.total, commands.spec.times)
    commands.load(np.pad(image, ((0, 0), (0, commands.spec.row_words - image.shape[1]))).reshape(-1, 4))
    commands.perturb(POSITION, commands.spec.times, factor=EPS)
    for row in joined_columns(found["offsets"], *Request._fields[:-1]):
        fields = dict(zip(Request._fields, row, strict=False))
        commands.add(OffsetCommand.OFFSETS, fields.pop("words"), **fields)
    inputs = {
        "operation": found["tensors"],
        "beats": {"data": data & 0xFFFF_FFFF, "error": np.zeros((len(data), 1), np.int64)},
        "corrections": {
            "place": pairs[:, :1],
            "value": pairs[:, 1:],
            "error": np.zeros((len(pairs), 1), np.int64),
        },
        "offsets": commands.run()["offsets"],
    }
    used = [spec.weights.needs(tensor.operation) for one in given for tensor in spec.tensors(one)]
    for port in ("beats", "corrections", "offsets"):
        assert sum(one[port] for one in used) == len(next(iter(inputs[port].values())))
    return spec.weights.run(inputs, 1 << 30), operations, commands


def joined_columns(words, *names):
    return zip(*(words[name][:, 0].tolist() for name in names), strict=True)


class Taker:
    """Takes tensors of both sides from the words of `tile_weights`, in order."""

    def __init__(self, case, spec, made):
        self.case, self.spec, self.made = case, spec, made
        self.places = {"w": 0, "v": 0}

    def vector(self, values):
        words = -(-values // 4)
        own = slice(self.places["v"], self.places["v"] + words)
        self.places["v"] += words
        assert self.made["v"]["last"][own, 0].tolist() == [0] * (words - 1) + [1]
        return [self.made["v"][side][own].reshape(-1)[:values] for side in SIDES]

    def matrix(self, shape):
        places = tile_places(shape, self.spec.lanes, self.spec.columns)
        tiles = places.max() // self.spec.weights.weights + 1
        beats = tiles * self.spec.lanes
        own = slice(self.places["w"], self.places["w"] + beats)
        self.places["w"] += beats
        assert (self.made["w"]["tile"][own, 0] == np.arange(tiles).repeat(self.spec.lanes)).all()
        both = self.made["w"]["weight"][own].reshape(tiles, 2, -1)
        return [both[:, side].reshape(-1)[places] for side in range(2)]

    def rows(self, count, values):
        return [np.stack(one) for one in zip(*(self.vector(values) for _ in range(count)), strict=True)]

    def end(self):
        assert self.places == {port: len(self.made[port]["last"]) for port in self.places}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tuned", ["all", "from a layer on", "sensitive"])
@pytest.mark.parametrize("name", MADE)
def test_tensors_are_those_of_the_model(name, tuned, size):
    case = Case(MADE[name](), tuned, SIZES[size])
    spec = TensorSequencerSpec(lanes=case.layout.size.lanes, columns=case.layout.size.columns)
    longest = 7
    made, *_ = brought(case, spec, longest)
    assert not made["w"]["error"].any()
    assert not made["v"]["error"].any()
    taker = Taker(case, spec, made)
    expected, seen = case.sides(), set()

    def check(name, found):
        seen.add(name)
        for side, own in zip(found, expected, strict=True):
            assert (side == own[name][: len(side)]).all(), name

    for one in case.program.instructions:
        if one.kind in (Kind.LINEAR, Kind.NORM):
            if one.biased:
                check((one.number, "bias"), taker.vector(one.outputs))
            if one.kind == Kind.NORM:
                check((one.number, "factor"), taker.vector(one.outputs))
            else:
                check((one.number, "weight"), taker.matrix((one.outputs, one.inputs)))
        elif one.kind == Kind.POSITIONS:
            number = next(
                place[0]
                for place, beats in case.layout.places.items()
                if place[1] == "position" and beats.start == one.table
            )
            check((number, "position"), taker.rows(longest, one.outputs))
        elif one.rotary:
            turns = np.concatenate(rotations(np.arange(longest), one.width, 10_000.0), axis=1)
            for side in taker.rows(longest, one.width):
                assert (side == turns).all()
    taker.end()
    assert seen == set(case.shapes)


def instruction(**fields):
    return PassInstruction.of(Instruction(**fields), fields.pop("longest", 5))


@pytest.mark.parametrize("kind", [Kind.ATTENTION, Kind.ACTIVATION, Kind.GATE, Kind.ADD, Kind.POOL, Kind.UNIT, 0, 17])
def test_other_kinds_have_no_tensors(kind):
    one = instruction(kind=kind, inputs=24, outputs=24, width=8, biased=1)
    assert not [*TensorSequencerSpec().tensors(one)]


def test_rows_share_words():
    """Positions of 40 features in tiles of 16 x 4: three words for each four rows."""
    one = instruction(kind=Kind.POSITIONS, outputs=40, position_word=100, table=900)._replace(longest=6)
    found = [*TensorSequencerSpec(lanes=16, columns=4, numbers=3).tensors(one)]
    assert [each.request.word for each in found] == [100] * 4 + [103] * 2
    assert {each.request.words for each in found} == {3}
    assert [each.operation.first for each in found] == [0, 1, 2, 0, 0, 1]
    assert [each.reads.beat for each in found] == [900 + 10 * row for row in range(6)]
    assert {each.operation.offsets for each in found} == {OffsetKind.ROW}


def test_a_large_matrix_by_hand():
    """100 x 200 in tiles of 32 x 16: 7 groups of 4 records, the last with one tile; 34 beats a record."""
    fields = {"kind": Kind.LINEAR, "outputs": 100, "inputs": 200, "coded": 1, "biased": 1, "beat": 1000, "word": 50}
    bias, matrix = TensorSequencerSpec().tensors(instruction(**fields, number=9, fraction=15))
    assert bias.request is None
    assert bias.reads[:2] == (1000, 25)
    assert matrix.operation[:6] == (0, 28, 4, 1, OffsetKind.TILES, 0)
    assert matrix.reads == (1025, 28 * 34, 0, 4, 1, 9)
    assert matrix.request == (0, 50, 49, 15, 0, 0)


def test_limits():
    with pytest.raises(UserError, match="tables = 3"):
        TensorSequencerSpec(tables=3)
