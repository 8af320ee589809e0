"""Weight stream: encoding and decoding in tile order; refusal of other images."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.stream.attention import rotations
from fabtune.golden.stream.forward import IntegerTransformer, weight_formats
from fabtune.golden.stream.frozen_base import Nf4Weights, frozen_base
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.cost_model import StepCost
from fabtune.golden.stream.machine.layout import HEADER_BEATS, StreamLayout, matrix_beats
from fabtune.golden.stream.words import tile_places
from fabtune.golden.transformer.blocks import Positions
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from tests.own_transformers import NETWORKS

SIZES = {"16x4": CoreSize(16, 4), "32x16": CoreSize(), "32x32": CoreSize(32, 32), "64x32": CoreSize(64, 32)}


def made(network, parameters, size=SIZES["16x4"], coarse=lambda name: name[0] % 3 == 0):
    """Layout of a network with some matrices in NF4, and its tensors."""
    transformer = IntegerTransformer(network, weight_formats(parameters))
    tensors = dict(transformer.convert(parameters)[0])
    coded = frozenset(name for name in tensors if name[1] == "weight" and coarse(name))
    tensors |= {name: Nf4Weights.of(parameters[name], transformer.format_of(name)) for name in coded}
    return StreamLayout(transformer, coded, size), tensors


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_encoded_is_decoded(name, size):
    layout, tensors = made(*NETWORKS[name](), SIZES[size])
    image = layout.encode(tensors)
    assert image.size == (HEADER_BEATS + layout.beats) * BEAT
    found = layout.decode(image)
    assert set(found) == set(tensors)
    for key, values in tensors.items():
        if isinstance(values, Nf4Weights):
            assert (found[key].codes == values.codes).all()
            assert (found[key].scales == values.scales).all()
            assert (found[key].dequantised() == values.dequantised()).all()
        else:
            assert (found[key] == values).all()


def one_matrix(outputs, inputs):
    builder, rng = TransformerBuilder("own", inputs), np.random.default_rng(1)
    builder.linear("only", INPUTS, rng.normal(0, 1, (outputs, inputs)))
    return made(*builder.finish(), CoreSize())


def test_a_record_is_two_beats_of_scales_and_a_beat_for_each_two_lanes_of_a_tile():
    layout, tensors = one_matrix(40, 130)
    own = tensors[0, "weight"]
    body = layout.encode(tensors)[HEADER_BEATS * BEAT :]
    assert matrix_beats(CoreSize(), 16, 64, coded=True) == 34
    assert layout.beats == 3 * 3 * 34
    # second output group, second input block: record 1 x 3 + 1; second tile, lanes 10 and 11
    record = body[4 * 34 * BEAT : 5 * 34 * BEAT].reshape(34, BEAT)
    assert (record[:2].view("<u2").reshape(-1) == own.scales[16:32, 1]).all()
    beat = record[2 + 16 + 5]
    assert (beat[:8] & 15 == own.codes[16:32:2, 64 + 32 + 10]).all()
    assert (beat[:8] >> 4 == own.codes[17:32:2, 64 + 32 + 10]).all()
    assert (beat[8:] & 15 == own.codes[16:32:2, 64 + 32 + 11]).all()
    # padding of the last record is zero, whatever the scale
    last = body[8 * 34 * BEAT :].reshape(34, BEAT)
    assert (last[2 + 16 :] == 0x77).all()
    assert not last[1].any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["connected", "encoder"])
def test_the_stream_has_the_bytes_of_the_cost_model(name, size):
    """Including positions, which the cost model reads up to the longest sentence."""
    layout, _ = made(*NETWORKS[name](), SIZES[size], coarse=lambda name: True)
    positions = [one.length for one in layout.transformer.network.operations if isinstance(one, Positions)]
    cost = StepCost(layout.transformer, (*positions, 1)[:1], SIZES[size])
    assert len(cost.passes) == 1
    assert layout.beats * BEAT == sum(one.read for one in cost.operations)
    assert layout.beats * BEAT == cost.bytes.codes + cost.bytes.scales + cost.bytes.vectors


def test_tensors_stand_in_the_order_of_their_use_and_tables_behind():
    layout, _ = made(*NETWORKS["vision"]())
    names = list(layout.places)
    stream = [name for name in names if name[1] != "position"]
    assert names[: len(stream)] == stream == sorted(stream, key=lambda name: (name[0], name[1] != "bias"))
    assert layout.stream_beats == layout.places[names[len(stream)]].start
    ends = [place.stop for place in layout.places.values()]
    assert [place.start for place in layout.places.values()] == [0, *ends[:-1]]


def test_rotations_are_a_table_of_each_kind():
    layout, tensors = made(*NETWORKS["decoder"]())
    ((rotation, place),) = layout.rotations.items()
    body = layout.encode(tensors)[HEADER_BEATS * BEAT :][place.start * BEAT : place.stop * BEAT]
    cosines, sines = rotations(np.arange(256), *rotation)
    rows = body.view("<i4").reshape(256, -1)[:, : rotation.width]
    assert (rows == np.concatenate([cosines, sines], axis=1)).all()


def test_codes_are_in_the_order_of_a_words_parameters():
    layout, tensors = one_matrix(40, 130)
    body = layout.encode(tensors)[HEADER_BEATS * BEAT :].reshape(9, 34, BEAT)[:, 2:]
    # a tile of 32 inputs is a word; the last block has one of two tiles, half of it padding
    stream = np.stack([body & 15, body >> 4], axis=-1).reshape(3, 6, 512)[:, :5].reshape(-1)
    own = tensors[0, "weight"].codes
    assert (stream[tile_places(own.shape, 32, 16)] == own).all()


def test_sensitive_weights_stand_behind_the_stream_in_its_order():
    network, parameters = NETWORKS["encoder"]()
    names = [name for name in parameters if name[1] == "weight"]
    places = {names[0]: np.array([3, 17, 18, 100]), names[2]: np.array([0])}
    base = frozen_base(network, parameters, sensitive=places)
    layout = StreamLayout(base.transformer, frozenset(base.codes), SIZES["16x4"], places)
    image = layout.encode({**base.integers, **base.codes}, base.integers)
    tensors, corrections = layout.decode(image), layout.decode_corrections(image)
    assert set(corrections) == set(places)
    for name, (ranks, values) in corrections.items():
        weights = tensors[name].dequantised()
        own = tile_places(weights.shape, 16, 4).reshape(-1)
        assert (np.diff(ranks) > 0).all()
        weights.reshape(-1)[[int(np.flatnonzero(own == rank)[0]) for rank in ranks]] = values
        assert (weights == base.integers[name]).all()
    assert layout.stream_beats == StreamLayout(base.transformer, frozenset(base.codes), SIZES["16x4"]).stream_beats
    for wrong in ([3, 3], [5, 4], [-1, 2], [0, 10**6]):
        with pytest.raises(UserError, match="has sensitive weights that do not ascend"):
            StreamLayout(base.transformer, frozenset(base.codes), SIZES["16x4"], {names[0]: np.array(wrong)})
    with pytest.raises(UserError, match="a weight that is not in NF4"):
        StreamLayout(base.transformer, frozenset(), SIZES["16x4"], places)


def test_other_images_are_refused():
    layout, tensors = made(*NETWORKS["connected"]())
    image = layout.encode(tensors)

    def changed(place, value):
        other = image.copy()
        other[place] = value
        return other

    other_size = StreamLayout(layout.transformer, layout.coded, CoreSize(32, 16))
    other_network, _ = made(*NETWORKS["encoder"]())
    for reader, wrong, message in [
        (layout, image[:40], "no stream of weights"),
        (layout, changed(0, 1), "no stream of weights"),
        (layout, changed(4, 9), "version 9 is not read"),
        (other_size, image, "tiles of 16 x 4 is not one for 32 x 16"),
        (layout, image[:-BEAT], "cut short, or too long"),
        (layout, changed(HEADER_BEATS * BEAT + 5, image[HEADER_BEATS * BEAT + 5] ^ 1), "it was changed"),
        (other_network, image, "is not this network's"),
    ]:
        with pytest.raises(UserError, match=message):
            reader.decode(wrong)


def test_other_tensors_are_refused():
    layout, tensors = made(*NETWORKS["connected"]())
    plain, coarse = (2, "weight"), (0, "weight")
    other = Nf4Weights.of(np.ones(tensors[coarse].codes.shape), Format(6, 12))
    for name, values, message in [
        (plain, None, r"2 has no weight of \(20, 20\)"),
        (plain, tensors[plain][:3], "has no weight of"),
        (coarse, tensors[coarse].dequantised(), "has a weight that is not in NF4"),
        (coarse, other, r"has codes for Q6\.12"),
    ]:
        with pytest.raises(UserError, match=message):
            layout.encode({key: value for key, value in (tensors | {name: values}).items() if value is not None})
    with pytest.raises(UserError, match="has no matrix"):
        StreamLayout(layout.transformer, frozenset({(0, "bias")}))
    with pytest.raises(UserError, match="48 x 16 do not fill records"):
        StreamLayout(layout.transformer, frozenset(), CoreSize(48, 16))
