"""Trace of the activation memory: operation and token of a difference, on golden images."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.cores.zostream.memory_trace import MemoryTrace, MemoryTraceLayout
from fabtune.golden.cores.zostream.pass_memory import passes_of
from fabtune.golden.cores.zostream.random_network import random_images, random_sentences
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.stream.instruction import RowAddress
from fabtune.golden.stream.machine.schedule import TransformerSchedule

SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"])
LAYOUT = MemoryTraceLayout(SPEC.engine.chunks)


def written(images, sentences, sides):
    """Memory images after each instruction, and the steps of each pass."""
    model, program, chunks = images.model, images.program, LAYOUT.chunks
    rows, lengths = model.rows_of(sentences)
    parts = np.split(rows, np.cumsum(lengths)[:-1])
    narrow = np.zeros((chunks.rows, chunks.lanes), np.int32)
    wide = np.zeros((chunks.wide_rows, chunks.columns), np.int32)
    steps = TransformerSchedule(model.transformer, SPEC.lanes, SPEC.columns).steps
    found = []
    for some in passes_of(lengths, program.capacity):
        given, own = np.concatenate([parts[one] for one in some]), tuple(lengths[one] for one in some)
        outputs = [model.transformer.run(side, given, own, model.product)[0] for side in sides]
        for step, one in zip(steps, program.instructions, strict=True):
            values = np.concatenate([side[step.result] for side in outputs])
            buffer = RowAddress.of(one.destination)
            memory = wide if buffer.wide else narrow
            width = memory.shape[1]
            for line in range(-(-one.outputs // width)):
                part = values[:, line * width : (line + 1) * width]
                at = (buffer.first + line) * program.capacity
                memory[at : at + len(part), : part.shape[1]] = part
            found.append(np.concatenate([narrow.reshape(-1), wide.reshape(-1)]).view(np.uint8))
    return np.stack(found)


@pytest.mark.parametrize("kind", ["perceptron", "encoder", "decoder"])
def test_the_first_value_that_differs_is_named(kind):
    rng = np.random.default_rng(1)
    images = random_images(SPEC, rng, kind)
    model, program = images.model, images.program
    sentences, _ = random_sentences(images, 4, 9, rng)
    zero = np.zeros((model.words, SPEC.generator.width), np.int64)
    sides = [model.parameters(zero), model.parameters(zero + (1 << 14))]
    traced = written(images, sentences, sides)
    assert traced.shape[1] == LAYOUT.beats * BEAT
    assert MemoryTrace(images, LAYOUT, traced).first_difference(sentences, sides) is None
    # a later golden parameter is changed: the trace names its operation
    steps = TransformerSchedule(model.transformer, SPEC.lanes, SPEC.columns).steps
    step = next(one for one in steps[len(steps) // 2 :] if (one.number, "weight") in model.frozen)
    changed = [dict(one) for one in sides]
    changed[1][step.number, "weight"] = changed[1][step.number, "weight"] + (1 << 12)
    place = MemoryTrace(images, LAYOUT, traced).first_difference(sentences, changed)
    assert (place.operation, place.side) == (step.result, "minus")
    assert (place.sample, place.token) == (0, 0)
    # a memory value is changed: the trace names its token
    lengths = model.lengths(sentences)
    row = 2 * sum(lengths[: len(passes_of(lengths, program.capacity)[0])]) - 1
    buffer = RowAddress.of(program.instructions[0].destination)
    if kind != "perceptron":
        memory = traced[0].view(np.int32)
        first = LAYOUT.narrow_chunks * LAYOUT.chunks.columns if buffer.wide else 0
        width = LAYOUT.chunks.columns if buffer.wide else LAYOUT.chunks.lanes
        memory[first + (buffer.first * program.capacity + row) * width + 1] += 1
        place = MemoryTrace(images, LAYOUT, traced).first_difference(sentences, sides)
        last = len(passes_of(lengths, program.capacity)[0]) - 1
        assert (place.operation, place.side, place.sample) == (steps[0].result, "minus", last)
        assert (place.token, place.feature) == (lengths[last] - 1, 1)
        assert place.found == place.expected + 1
        assert f"sample {last}, token {lengths[last] - 1}, feature 1: " in str(place)
