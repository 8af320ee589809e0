"""`tile_stream`: tile numbers of beats agree with `tile_weights`; reads by hand; refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.weights.tensor_sequencer import TensorReads
from fabtune.golden.stream.weights.tile_dequant import TensorKind
from fabtune.golden.stream.weights.tile_stream import TileStreamSpec
from fabtune.golden.stream.weights.tile_weights import TensorOperation, TileWeightsSpec


@pytest.mark.parametrize("kind", [TensorKind.NF4, TensorKind.MATRIX])
@pytest.mark.parametrize("lanes", [8, 16, 64])
def test_a_beats_tile_is_that_which_its_error_marks(lanes, kind):
    """A matrix whose output groups end within a record."""
    weights = TileWeightsSpec(lanes=lanes, columns=4)
    operation = TensorOperation(*weights.dequant.beats_of(kind, (7, 64 + lanes)))
    beats = weights.needs(operation)["beats"]
    found = []
    for beat in range(beats):
        error = np.arange(beats)[:, None] == beat
        none = np.zeros((0, weights.numbers), np.int64)
        made = weights.run(
            {
                "operation": {field: np.array([[one]]) for field, one in operation._asdict().items()},
                "beats": {"data": np.full((beats, 4), 0x7777_7777), "error": error.astype(np.int64)},
                "corrections": dict.fromkeys(("place", "value", "error"), none[:, :1]),
                "offsets": {"plus": none, "minus": none},
            },
            1 << 20,
        )["w"]
        wrong = made["tile"][made["error"] == 1]
        found.append(wrong[0] if len(wrong) else weights.tiles(operation))
    own = TileStreamSpec(lanes=lanes, columns=4).tiles(
        TensorReads(0, beats, kind, operation.blocks, operation.tiles, 0)
    )
    assert own.tolist() == found
    assert len(set(found)) >= weights.tiles(operation)


def test_reads_end_at_multiples_of_a_burst():
    """Tensors of 70 and 3 beats, and five sensitive weights with a half-used last beat."""
    spec = TileStreamSpec(burst=64, depth=128, correction_depth=4)
    data = np.arange(4 * 73).reshape(-1, 4)
    entries = np.array([[3, 1 << 32], [9, -5], [70, -131072], [71, 131071], [90, 7], [1, 1]]).reshape(-1, 4) % (1 << 32)
    found = spec.run(
        {
            "reads": {
                name: np.array([[first], [second]])
                for name, first, second in zip(
                    TensorReads._fields, (62, 70, 3, 1, 1, 5), (1000, 3, 2, 1, 1, 6), strict=True
                )
            },
            "base": {"beat": np.array([[1 << 20], [1 << 20]])},
            "fetched": {"data": data},
            "correction_reads": {"beat": np.array([[7]]), "weights": np.array([[5]])},
            "correction_base": {"beat": np.array([[0]])},
            "correction_fetched": {"data": entries},
        },
        1 << 20,
    )
    first = 16 << 20
    assert found["command"]["address"][:, 0].tolist() == [first + 16 * at for at in (62, 64, 128, 1000)]
    assert found["command"]["beats"][:, 0].tolist() == [2, 64, 4, 3]
    assert (found["beats"]["data"] == data).all()
    assert found["place"]["number"][:, 0].tolist() == [5] * 70 + [6] * 3
    assert not found["place"]["tile"].any()
    assert found["correction_command"]["address"][:, 0].tolist() == [16 * 7, 16 * 8]
    assert found["correction_command"]["beats"][:, 0].tolist() == [1, 2]
    assert found["corrections"]["place"][:, 0].tolist() == [3, 9, 70, 71, 90]
    assert found["corrections"]["value"][:, 0].tolist() == [0, -5, -131072, 131071, 7]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"burst": 3}, "burst = 3"),
        ({"depth": 96}, "depth = 96"),
        ({"depth": 64}, "depth = 64"),
        ({"correction_depth": 2}, "correction_depth = 2"),
        ({"address": 64}, "address = 64"),
        ({"lanes": 12}, "lanes = 12"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        TileStreamSpec(**settings)
