"""`tile_weights` compared with the parameters of a transformer's model, from the layout's image; errors; limits."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import shifted
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.layout import HEADER_BEATS, StreamLayout
from fabtune.golden.stream.transformer_model import TransformerModel, everything
from fabtune.golden.stream.weights.tile_dequant import TensorKind
from fabtune.golden.stream.weights.tile_weights import OFFSET, TILE_OFFSET, OffsetKind, TensorOperation, TileWeightsSpec
from fabtune.golden.stream.words import tile_places
from fabtune.golden.zo.deltas import DELTA
from tests.own_transformers import NETWORKS

SMALL = TileWeightsSpec(lanes=16, columns=4)
SIDES = ("plus", "minus")
NUMBERS = 31


class Stream:
    """Words of all streams for the tensors of a model, from a layout's image."""

    def __init__(self, spec, layout, image, model, offsets):
        self.spec, self.layout, self.model, self.offsets = spec, layout, model, offsets
        self.body = image[HEADER_BEATS * BEAT :].view("<u4").reshape(-1, 4).astype(np.int64)
        self.corrections = layout.decode_corrections(image)

    def kind(self, name):
        if name[1] == "weight":
            return TensorKind.NF4 if name in self.layout.coded else TensorKind.MATRIX
        return TensorKind.FACTORS if name[1] == "factor" else TensorKind.VALUES

    def words(self, name):
        """Offset words of a tensor, both sides."""
        form = self.model.transformer.format_of(name)
        own = self.model.order.places.get(name, range(0))
        most = TILE_OFFSET if name[1] == "weight" else OFFSET
        rounded = (
            shifted(side[own.start : own.stop], np.array(DELTA.fraction - form.fraction)) for side in self.offsets
        )
        return [side.clip(most.minimum, most.maximum) for side in rounded]

    def run(self, operation, beats, offsets, corrections=None):
        places, values = corrections or (np.arange(0), np.arange(0))
        beats = self.body[beats.start : beats.stop]
        inputs = {
            "operation": {field: np.array([[one]]) for field, one in operation._asdict().items()},
            "beats": {"data": beats, "error": np.zeros((len(beats), 1), np.int64)},
            "corrections": {
                "place": places[:, None],
                "value": values[:, None],
                "error": np.zeros_like(places)[:, None],
            },
            "offsets": dict(zip(SIDES, offsets, strict=True)),
        }
        needs = self.spec.needs(operation)
        assert needs == {"beats": len(beats), "corrections": len(places), "offsets": len(offsets[0])}
        found = self.spec.run(inputs, 1 << 30)
        assert not found["w"]["error"].any()
        assert not found["v"]["error"].any()
        return found

    def tensor(self, name):
        """A tensor of both sides."""
        shape = self.model.transformer.network.parameter_shapes[name]
        beats, words, kind = self.layout.places[name], self.words(name), self.kind(name)
        tuned = OffsetKind.TILES if len(words[0]) else OffsetKind.NONE
        if name[1] == "position":
            return self.rows(beats, words, shape)
        own = self.spec.dequant.beats_of(kind, shape)
        if name[1] != "weight":
            found = self.run(TensorOperation(*own, tuned), beats, words)["v"]
            return [found[side].reshape(-1)[: shape[0]] for side in SIDES]
        corrections = self.corrections.get(name)
        if corrections:
            tuned = OffsetKind.CORRECTIONS if len(words[0]) else OffsetKind.NONE
        operation = TensorOperation(*own, tuned, len(corrections[0]) if corrections else 0)
        found = self.run(operation, beats, words, corrections)["w"]
        tiles = found["weight"].reshape(-1, 2, self.spec.weights)
        assert (found["tile"][:: self.spec.lanes, 0] == np.arange(len(tiles))).all()
        places = tile_places(shape, self.spec.lanes, self.spec.columns)
        assert len(tiles) == places.max() // self.spec.weights + 1
        return [tiles[:, side].reshape(-1)[places] for side in range(2)]

    def rows(self, beats, words, shape):
        """Rows of positions, as words of a matrix."""
        each, rows = -(-shape[1] // self.spec.lanes), []
        tuned = OffsetKind.ROW if len(words[0]) else OffsetKind.NONE
        for row in range(shape[0]):
            first = row // self.spec.columns * each
            own = [side[first : first + each] for side in words]
            operation = TensorOperation(
                TensorKind.VALUES, -(-shape[1] // 4), offsets=tuned, first=row % self.spec.columns
            )
            start = beats.start + row * operation.length
            found = self.run(operation, range(start, start + operation.length), own)["v"]
            rows.append([found[side].reshape(-1)[: shape[1]] for side in SIDES])
        return [np.stack(one) for one in zip(*rows, strict=True)]


@pytest.mark.parametrize("tuned", ["all", "from a layer on", "sensitive"])
@pytest.mark.parametrize("name", ["encoder", "decoder", "vision"])
def test_parameters_are_those_of_the_model(name, tuned):
    (network, parameters), rng = NETWORKS[name](), np.random.default_rng(3)
    matrices = [one for one in parameters if one[1] == "weight"]
    sensitive = {}
    if tuned == "sensitive":
        sizes = (parameters[one].size for one in matrices[1:4])
        # all weights of a tile in one tensor, few in others
        sensitive = {
            one: np.flatnonzero(rng.random(size) < rate)
            for one, size, rate in zip(matrices[1:4], sizes, (0.9, 0.02, 0.1), strict=True)
        }
    chosen = {"all": everything, "from a layer on": lambda one: one[0] > 4, "sensitive": sensitive.__contains__}[tuned]
    base = frozen_base(network, parameters, coarse=lambda one: one != matrices[-1], sensitive=sensitive)
    size = CoreSize(SMALL.lanes, SMALL.columns)
    layout = StreamLayout(base.transformer, frozenset(base.codes), size, sensitive)
    image = layout.encode({**base.integers, **base.codes}, base.integers)
    model = TransformerModel(
        base.transformer, base.integers, tuned=chosen, sensitive=sensitive, lanes=size.lanes, columns=size.columns
    )
    offsets = [DELTA.from_float(rng.normal(0, 0.1, (model.words, NUMBERS))) for _ in SIDES]
    for side in offsets:  # some saturate at the limits
        side[rng.random(side.shape) < 0.02] = DELTA.maximum
        side[rng.random(side.shape) < 0.02] = DELTA.minimum
    stream = Stream(SMALL, layout, image, model, offsets)
    expected = [model.parameters(side) for side in offsets]
    for one in layout.places:
        for found, side in zip(stream.tensor(one), expected, strict=True):
            assert (found == side[one]).all(), one
    moved = [one for one in layout.places if (expected[0][one] != base.integers[one]).any()]
    assert len(moved) >= (3 if tuned == "sensitive" else 8)


def one_matrix(tiles, error=(), corrections=(), spec=SMALL):
    """Tiles with code 0, some beats in error, and corrections."""
    count = -(-tiles * spec.lanes // 64)
    operation = TensorOperation(
        *spec.dequant.beats_of(TensorKind.NF4, (1, tiles * spec.lanes)), corrections=len(corrections)
    )
    data = np.full((count * (spec.dequant.scale_beats + spec.dequant.code_beats), 4), 0x7777_7777)
    wrong = np.zeros((len(data), 1), np.int64)
    wrong[list(error)] = 1
    places = np.array(corrections, np.int64).reshape(-1, 1)
    none = np.zeros((0, NUMBERS), np.int64)
    return spec.run(
        {
            "operation": {field: np.array([[one]]) for field, one in operation._asdict().items()},
            "beats": {"data": data, "error": wrong},
            "corrections": {"place": places, "value": np.ones_like(places), "error": np.zeros_like(places)},
            "offsets": {"plus": none, "minus": none},
        },
        1 << 20,
    )["w"]


@pytest.mark.parametrize(
    ("error", "corrections", "first", "ones"),
    [
        ([], [0, 63, 64, 319], 5, 4),
        ([0], [], 0, 0),
        ([1], [], 0, 0),
        ([3], [], 1, 0),
        # scales of the second record
        ([9], [], 4, 0),
        # beyond the inputs
        ([17], [], 5, 0),
        ([], [7, 7], 0, 1),
        ([], [100, 90, 200], 1, 2),
        ([], [200, 64, 319], 3, 2),
        ([], [3, 320], 4, 1),
        ([], [1 << 31, 319], 4, 1),
    ],
)
def test_an_error_is_said_from_its_tile_on(error, corrections, first, ones):
    """Five tiles: a record of scales and eight beats of codes, plus a record with one used tile."""
    found = one_matrix(5, error, corrections)
    assert found["weight"].shape == (5 * 16, 8)
    assert (found["error"][:, 0] == (found["tile"][:, 0] >= first)).all()
    for side in range(2):
        assert found["weight"][found["side"][:, 0] == side].sum() == ones
    assert found["last"][:, 0].reshape(-1, 8).tolist() == [[0] * 7 + [1]] * 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lanes": 12}, "lanes = 12"), ({"columns": 3}, "columns = 3"), ({"numbers": 1}, "numbers = 1")],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        TileWeightsSpec(**settings)
