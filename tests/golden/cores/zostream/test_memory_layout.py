"""Device memory of `zostream`: samples and index, deltas and logits of a program."""

import numpy as np

from fabtune.golden.cores.zostream.memory_layout import ZostreamLayout, sentence_image
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.golden.stream.machine.layout import HEADER_BEATS, digest
from fabtune.golden.stream.machine.program import decode_program
from fabtune.golden.stream.transformer_model import TransformerModel
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder

SIZE = CoreSize(16, 4, 512, 512, 64)


def images_of(outputs, sensitive=None):
    """Images of a one-layer perceptron."""
    builder, rng = TransformerBuilder("own", 20), np.random.default_rng(0)
    builder.linear("head", INPUTS, rng.normal(0, 0.1, (outputs, 20)), np.zeros(outputs))
    base = frozen_base(*builder.finish(), sensitive=sensitive or {})
    model = TransformerModel(base.transformer, base.integers, sensitive=sensitive or {}, times=255, lanes=16, columns=4)
    return StreamImages.of(model, base, SIZE)


def test_a_sample_is_its_tokens_and_rows_of_three_bytes_a_value():
    rows = np.array([[1, -2, 0x7FFFFF], [-0x800000, 5, 6]])
    image = sentence_image(rows)
    assert image.size == 16 + 2 * 96
    assert list(image[:16]) == [2, *[0] * 15]
    assert list(image[16:26]) == [1, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0]
    assert not image[25 : 16 + 96].any()
    assert list(image[112:118]) == [0, 0, 0x80, 5, 0, 0]
    assert sentence_image(np.ones((3, 33), int)).size == 16 + 3 * 2 * 96


def test_the_index_has_the_first_beat_of_each_sample():
    sentences = [np.full((tokens, 40), tokens) for tokens in (3, 1, 2)]
    index, samples = ZostreamLayout.samples(sentences)
    assert list(index.image.view("<u4")) == [0, 37, 50, 0]
    for first, one in zip(index.image.view("<u4"), sentences, strict=False):
        image = sentence_image(one)
        assert np.array_equal(samples.image[16 * first :][: image.size], image)
    assert (index.register, samples.register) == ("index", "samples")


def test_program_and_weights_are_what_the_core_reads():
    images = images_of(3)
    program, weights = ZostreamLayout.network(images)
    assert decode_program(program.image, SIZE) == images.program
    assert np.array_equal(weights.image, images.weights[16 * HEADER_BEATS :])
    assert digest(weights.image) == images.program.stream
    assert (program.register, weights.register) == ("program", "weights")


def test_deltas_have_a_row_a_word_until_words_return():
    few, many = images_of(3), images_of(4 * 200)
    assert [len(ZostreamLayout(one.program, PezoSpec()).rows) for one in (few, many)] == [len(few.model.rows), 255]
    layout = ZostreamLayout(few.program, PezoSpec())
    deltas = np.arange(len(few.model.rows) * 31).reshape(-1, 31) - 50
    assert np.array_equal(layout.deltas_of(layout.deltas(deltas).image), deltas)
    logits = np.array([[1, -2, 3], [4, 5, -6]])
    assert np.array_equal(layout.logits_of(layout.logits_image(logits)), logits)


def test_each_beat_of_the_weights_is_of_an_operation_and_a_tile():
    images = images_of(8, {(0, "weight"): np.array([1, 9])})
    layout, program = ZostreamLayout(images.program, PezoSpec()), images.program
    found = [layout.place_of(beat) for beat in range(program.beats + 1)]
    # two groups of 4 outputs; 64 inputs, with two of four tiles present; 9 beats a record, 2 a tile
    group = [0] * 3 + [1] * 2 + [2] * 4
    tiles = [*([0] * 2), *group, *(2 + tile for tile in group), 0]
    assert found == [*((0, tile) for tile in tiles), None]
