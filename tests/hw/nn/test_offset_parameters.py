"""Forward engine with an offset per parameter: logits of both sides, also with duplicated weights."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from fabtune.golden.fixed import Q4_12, Narrower, q8_16_of_bytes
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.forward import StageIntegers, run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.nn.array.images import frozen_image, samples_image, weight_positions
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.forward.offset_parameters import OffsetParameters
from fabtune.hw.nn.forward.sides import TwoSides
from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.interfaces import ACTIVATION, BEATS, Offsets, SampleInput
from fabtune.hw.nn.memories.output_memory import OutputReader

from ..play import play_interface
from ..simulation import beats_of
from .inference import loads_and_samples

NUMBERS = 7
"""Offsets per word."""


class Perturbed(wiring.Component):
    """A forward engine with external offsets, and a reader of its logits."""

    def __init__(self, mapping):
        self.mapping, offsets = mapping, Offsets(mapping, NUMBERS)
        self.engine = ForwardEngine(mapping, None, OffsetParameters(mapping, offsets), TwoSides(mapping))
        super().__init__(
            {
                "load": In(BEATS),
                "loaded": Out(1),
                "sample": In(SampleInput()),
                "offsets": Out(offsets),
                "o": Out(stream.Signature(ACTIVATION)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self.engine
        m.submodules.reader = reader = OutputReader(self.mapping)
        wiring.connect(m, engine.outputs, reader.outputs)
        wiring.connect(m, wiring.flipped(self.load), engine.load)
        wiring.connect(m, wiring.flipped(self.sample), engine.sample)
        wiring.connect(m, engine.offsets, wiring.flipped(self.offsets))
        wiring.connect(m, reader.o, wiring.flipped(self.o))
        m.d.comb += [self.loaded.eq(engine.loaded), engine.both.eq(1)]
        m.d.comb += engine.passes.last.eq(len(self.mapping.stages) - 1)
        return m


def moved(mapping, frozen, weights, biases):
    """Parameters with weight offsets (words, NUMBERS) and bias offsets (groups, columns)."""
    found, word = [], mapping.lanes * mapping.columns
    for at, (own, stage) in enumerate(zip(frozen, mapping.stages, strict=True)):
        places = weight_positions(mapping, at).reshape(own.weight.shape)
        weight = own.weight + weights[places // word, places % word % NUMBERS]
        bias = own.bias + biases[stage.biases :].reshape(-1)[: stage.channels]
        found.append(StageIntegers(*(one.clip(Q4_12.minimum, Q4_12.maximum) for one in (weight, bias))))
    return found


@pytest.mark.parametrize(
    ("text", "columns", "kinds"),
    [
        pytest.param(
            "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", 16, "21..", marks=pytest.mark.slow
        ),
        pytest.param(
            "3x4x6 conv5k3x2p1,1,0,1 relu conv4k1x2p0,0,0,1 relu1.5 conv6k2 pool2x4s1 dw2x1 relu flatten fc4",
            *(16, ".11.."),
            marks=pytest.mark.slow,
        ),
        ("2x4x4 conv3k2 relu pool2s1 flatten fc5 relu fc3", 2, "..."),
    ],
)
def test_logits_of_both_sides(text, columns, kinds):
    network, rng = network_from(text), np.random.default_rng(3)
    mapping = Mapping.of(network, 16, columns, sides=2, pairs="perturbed")
    assert kinds == "".join("." if one.pair is None else "2" if one.merged else "1" for one in mapping.stages)
    frozen = random_parameters(network, rng, gain=4)
    weights = rng.integers(-900, 900, (2, mapping.weight_words, NUMBERS))
    biases = rng.integers(-900, 900, (2, mapping.groups, columns))
    samples = rng.integers(0, 256, (2, *network.input_shape))
    expected = []
    for sample in q8_16_of_bytes(samples):
        for side in range(2):
            parameters = moved(mapping, frozen, weights[side], biases[side])
            outputs = run(network.stages, parameters, sample[None], product_of("int64"), Narrower())
            expected += outputs[-1].reshape(-1).tolist()
    load, images = beats_of(frozen_image(mapping, frozen)), samples_image(mapping, samples)

    def offsets(port):
        word, group = (min(port[name], len(own[0]) - 1) for name, own in (("weight", weights), ("bias", biases)))
        return {
            "numbers": weights[port["side"], word].tolist(),
            "biases": biases[port["bias_side"], group].tolist(),
        }

    seen = play_interface(
        Perturbed(mapping),
        body=[loads_and_samples(load, images)],
        take={"o": len(expected)},
        answer={"offsets": offsets},
        watch=dict.fromkeys(("loaded", "sample.done")),
        limit=30_000,
    )
    assert seen.words("o") == expected
