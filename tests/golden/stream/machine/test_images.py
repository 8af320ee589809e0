"""Images of a transformer for a core: consistency checks and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.golden.stream.machine.layout import StreamLayout, check_image, digest
from fabtune.golden.stream.machine.program import decode_program
from fabtune.golden.stream.transformer_model import TransformerModel
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder

SIZE = CoreSize(16, 4, 512, 512, 64)


def made(**settings):
    """A perceptron with sensitive weights in its second matrix."""
    builder, rng = TransformerBuilder("own", 20), np.random.default_rng(0)
    hidden = builder.activation("relu", builder.linear("up", INPUTS, rng.normal(0, 0.1, (8, 20))), "relu")
    builder.linear("head", hidden, rng.normal(0, 0.1, (3, 8)), np.zeros(3))
    sensitive = {(2, "weight"): np.array([1, 9])}
    base = frozen_base(*builder.finish(), sensitive=sensitive)
    given = {"sensitive": sensitive, "times": 255, "lanes": 16, "columns": 4} | settings
    return TransformerModel(base.transformer, base.integers, **given), base


def test_program_and_stream_belong_to_the_model():
    model, base = made()
    images = StreamImages.of(model, base, SIZE)
    assert images.program.words == model.words
    assert images.program.stream == digest(check_image(images.weights, SIZE))
    assert decode_program(images.program.encode(), SIZE) == images.program
    layout = StreamLayout(base.transformer, frozenset(base.codes), SIZE, model.sensitive)
    (places, values), *rest = layout.decode_corrections(images.weights).values()
    assert not rest
    assert list(places) == [4, 5]  # lane 1 of columns 0 and 1
    assert list(values) == [int(base.integers[2, "weight"].reshape(-1)[at]) for at in (1, 9)]


def test_what_is_not_tuned_has_no_words():
    model, base = made(tuned=lambda name: name[0] == 2)
    program = StreamImages.of(model, base, SIZE).program
    assert (program.words, program.instructions[0].word) == (model.words, (1 << 32) - 1)


def test_other_tiles_and_parts_are_refused():
    model, base = made()
    with pytest.raises(UserError, match="tiles of 32 x 16 is not one for a core of 16 x 4"):
        StreamImages.of(replace(model, lanes=32, columns=16), base, SIZE)
    with pytest.raises(UserError, match="a part of own"):
        StreamImages.of(replace(model, last=1), base, SIZE)
