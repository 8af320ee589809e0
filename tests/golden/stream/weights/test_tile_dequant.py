"""`tile_dequant`: records of a layout's image give its weights; padding is skipped; errors; limits."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.layout import HEADER_BEATS, StreamLayout
from fabtune.golden.stream.weights.tile_dequant import Beats, TensorKind, TileDequantSpec
from fabtune.golden.stream.words import tile_places
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder


def run(spec, beats, data, error=()):
    wrong = np.zeros((len(data), 1), np.int64)
    wrong[list(error)] = 1
    operation = {name: np.array([[one]]) for name, one in beats._asdict().items()}
    return spec.run({"operation": operation, "beats": {"data": data, "error": wrong}}, 1 << 20)


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("size", [(32, 16), (16, 4), (64, 32), (32, 32), (8, 8)])
def test_weights_are_those_of_the_layout(size, coded):
    lanes, columns = size
    builder, rng = TransformerBuilder("own", 130), np.random.default_rng(1)
    builder.linear("only", INPUTS, rng.normal(0, 1, (40, 130)))
    base = frozen_base(*builder.finish(), "nf4" if coded else "18-bit")
    layout = StreamLayout(base.transformer, frozenset(base.codes), CoreSize(lanes, columns))
    image = layout.encode({**base.integers, **base.codes})
    data = image[HEADER_BEATS * 16 :].view("<u4").reshape(-1, 4).astype(np.int64)
    spec = TileDequantSpec(lanes=lanes, columns=columns)
    beats = spec.beats_of(TensorKind.NF4 if coded else TensorKind.MATRIX, (40, 130))
    assert beats.length * spec.record_beats(beats.kind) == len(data)
    found = run(spec, beats, data)
    words = found["o"]["weight"] if coded else found["v"]["value"]
    places = tile_places((40, 130), lanes, columns)
    assert words.size == -(-(places.max() + 1) // (lanes * columns)) * lanes * columns
    assert (words.reshape(-1)[places] == base.integers[0, "weight"]).all()
    assert found["o" if coded else "v"]["last"][:, 0].tolist() == [0] * (len(words) - 1) + [1]
    assert not len(found["v" if coded else "o"]["last"])


def test_values_are_24_bits_and_an_error_stays():
    data = np.array([[0, 1, 0xFFFF_FFFF, 0x80_0000], [0x7F_FFFF, 0xFF80_0000, 0xFF_FFFF, 2]])
    found = run(TileDequantSpec(), Beats(TensorKind.VALUES, 2), data, [0])["v"]
    assert found["value"].tolist() == [[0, 1, -1, -(1 << 23)], [(1 << 23) - 1, -(1 << 23), -1, 2]]
    assert found["error"][:, 0].tolist() == [1, 1]
    assert found["last"][:, 0].tolist() == [0, 1]


@pytest.mark.parametrize(("settings", "message"), [({"lanes": 24}, "lanes = 24"), ({"columns": 64}, "columns = 64")])
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        TileDequantSpec(**settings)
