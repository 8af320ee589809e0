"""Refusals of `zostream`: wrong programs, sensitive weights and sample addresses, with error and value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import Bytes
from ....golden.cores.zostream.memory_layout import ZostreamLayout, sentence_image
from ....golden.cores.zostream.random_network import random_images
from ....golden.cores.zostream.registers import PROGRAM, Command, Error
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.instruction import INSTRUCTION_BEATS, NO_WORD, ROW_BITS, RowAddress
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.machine.layout import HEADER_BEATS
from ....golden.stream.machine.limits import Reason
from ....golden.stream.machine.program import HEADER_BEATS as PROGRAM_HEADER
from ....golden.stream.machine.program import Program, ProgramError
from ....golden.zo.memory_layout import COUNT_BIT
from ....golden.zo.split import MOST_SLOPES
from ...stream.machine.wrong_operations import WRONG_OPERATIONS, changed, wrong_program
from ...trials.contract import Ending

_ORDER = np.array([1, 0], "<u4").view(np.uint8)
"""Schedule of one step with the first sample only."""
_SPLITS = ((16, 4), (8, 8), (4, 16), (1, 16), (13, 5), (11, 6), (9, 8), (16, 5), (12, 8), (8, 16), (16, 16))
"""Perturbations of both parts: products at the limit, and above it by one bit."""


class Refused(NamedTuple):
    """Image of a refused program, with reason and number of the wrong operation."""

    image: Bytes
    reason: Reason
    number: int


def refused_programs(spec: ZostreamSpec, program: Program) -> Iterator[Refused]:
    """Images of an encoder's program, each with one error, and the reason that the core gives."""
    for wrong in (*_operations(program), *_headers(spec, program), *_inputs(spec, program)):
        try:
            spec.check_program(wrong, "a wrong one")
        except ProgramError as refused:
            yield Refused(wrong.image(), refused.reason, refused.number)
    whole, other = program.image(), _other(spec).image()
    version = whole.copy()
    version[4] ^= 1
    yield Refused(other, Reason.CORE, 0)
    yield Refused(version, Reason.VERSION, 0)
    for image in (whole[: 5 * BEAT], np.zeros_like(whole)):
        yield Refused(image, Reason.MAGIC, 0)
    for image in (whole[:-BEAT], whole[: -5 * BEAT], np.pad(whole, (0, BEAT))):
        yield Refused(image, Reason.LENGTH, 0)


def _operations(program: Program) -> Iterator[Program]:
    """Programs with an operation beyond a limit, some within the limits of another core."""
    yield from (wrong_program(program, name) for name in WRONG_OPERATIONS)
    linear = next(number for number, instruction in enumerate(program.instructions) if instruction.coded)
    yield changed(program, linear, part=1)
    yield changed(program, linear, corrections=3)


def _headers(spec: ZostreamSpec, program: Program) -> Iterator[Program]:
    """Programs with a header field, or a field of the last operation, beyond a limit that the core itself checks."""
    last = len(program.instructions) - 1
    features, capacity = program.features, program.capacity
    changes: list[dict[str, Any]] = [
        *({"features": 1 << bit | features} for bit in range(32)),
        *({"capacity": 1 << bit | capacity} for bit in range(16)),
        {"features": 0},
        {"capacity": 0},
        {"capacity": spec.sums + 1},
        {"behind": 1},
        {"instructions": ()},
        {"instructions": program.instructions[:-1]},
    ]
    yield from (replace(program, **change) for change in changes)
    untuned = dict.fromkeys(("word", "bias_word", "position_word"), NO_WORD)
    nothing = tuple(replace(instruction, **untuned) for instruction in program.instructions)
    yield replace(program, words=0, instructions=nothing)
    yield changed(program, last, result_shift=1)
    for outputs in (spec.classes + 1, *(spec.classes << bit for bit in range(1, 5))):
        yield changed(program, last, outputs=outputs, biased=0)


def _inputs(spec: ZostreamSpec, program: Program) -> Iterator[Program]:
    """Programs with input rows just beyond each memory, and with each higher address bit set."""
    for wide, width, rows in ((False, spec.lanes, spec.rows), (True, spec.columns, spec.wide_rows)):
        first = rows // program.capacity - -(-program.features // width) + 1
        higher = (1 << bit for bit in range(first.bit_length(), ROW_BITS))
        for place in (first, *higher):
            yield replace(program, inputs=RowAddress(wide, place).bits)


def _other(spec: ZostreamSpec) -> Program:
    """Program for a core with half the rows."""
    return random_images(replace(spec, rows=spec.rows // 2), np.random.default_rng(0), "perceptron").program


@lru_cache(maxsize=4)
def wrong_inputs(spec: ZostreamSpec) -> tuple[Ending, ...]:
    """Programs, sensitive weights, sample addresses and cache slots for the core to refuse."""
    rng = np.random.default_rng(0)
    plain, cached = (random_images(spec, rng, "perceptron", first=cut, cut=cut) for cut in (0, 3))
    return (
        *_lengths(spec),
        *_programs(spec, random_images(spec, rng, "encoder").program),
        *_weights(spec, random_images(spec, rng, "perceptron", sensitive=9)),
        *_words(spec, plain, cached),
        *_places(spec, cached),
        *_far_samples(spec, plain),
        _second_row(spec, plain),
        *_splits(spec, random_images(spec, rng, "perceptron", cut=3)),
    )


def _lengths(spec: ZostreamSpec) -> Iterator[Ending]:
    """Program lengths that are refused before any read: 0, too large, and each higher bit."""
    most = PROGRAM_HEADER + INSTRUCTION_BEATS * spec.operations
    yield Ending("no beats", Command.LOAD, Error["ZERO_LENGTH"], 0, {}, {"program_beats": 0})
    for beats in (most + 1, *(1 << bit for bit in range(most.bit_length(), 32))):
        error = Error(PROGRAM + Reason.LENGTH)
        yield Ending(f"{beats} beats", Command.LOAD, error, beats, {}, {"program_beats": beats})


def _programs(spec: ZostreamSpec, program: Program) -> Iterator[Ending]:
    """Loads of wrong programs."""
    for number, refused in enumerate(refused_programs(spec, program)):
        error, settings = Error(PROGRAM + refused.reason), {"program_beats": refused.image.size // BEAT}
        name, images = f"wrong program {number}", {"program": refused.image}
        yield Ending(name, Command.LOAD, error, refused.number, images, settings)


def wrong_weights(spec: ZostreamSpec, images: StreamImages) -> Iterator[tuple[str, Bytes, int]]:
    """Streams with wrong sensitive weights in the second tuned tensor: not ascending, or beyond the tensor.

    Yields a name, the stream without the header, and the tile number that the core reports.
    """
    stream = images.weights[HEADER_BEATS * BEAT :]
    instruction = [instruction for instruction in images.program.instructions if instruction.corrections][1]
    size, first = spec.lanes * spec.columns, BEAT * instruction.correction_beat
    tiles = -(-instruction.outputs // spec.columns) * -(-instruction.inputs // spec.lanes)
    places = stream[first : first + 8 * instruction.corrections].view("<u4")[::2]
    last = tiles - 1
    for name, entry, place, tile in (
        ("twice", 4, places[3], places[3] // size),
        ("descending", 4, 0, places[3] // size),
        ("beyond", -1, tiles * size, last),
        ("far beyond", -1, (1 << 32) - 1, last),
    ):
        wrong = stream.copy()
        wrong[first : first + 8 * instruction.corrections].view("<u4").reshape(-1, 2)[entry, 0] = place
        yield name, wrong, int(tile)


def _weights(spec: ZostreamSpec, images: StreamImages) -> Iterator[Ending]:
    """Steps of one sentence with wrong sensitive weights."""
    network, settings = _network(images)
    for name, stream, tile in wrong_weights(spec, images):
        memory = network | {"weights": stream, "order": _ORDER}
        yield Ending(f"sensitive weights, {name}", Command.TRAIN, Error.BAD_WEIGHTS, tile, memory, settings)


def _words(spec: ZostreamSpec, plain: StreamImages, cached: StreamImages) -> Iterator[Ending]:
    """Programs whose number of words has one of the higher bits set, for a network without and with a cut.

    After the load the command must end at an unreadable schedule, or at the second sentence's cache slot.
    """
    end, far = _end(spec), 1 << 12
    for bit in range(plain.program.words.bit_length(), 32):
        network, settings = _network(replace(plain, program=replace(plain.program, words=1 << bit)))
        yield Ending(f"{1 << bit} words", Command.TRAIN, Error["READ_DECERR"], end, network, settings | {"order": end})
    samples = np.zeros((far + 1, BEAT // 4), "<u4")
    # beyond the end, and so far from the first sentence's slot that no write of this sentence reaches it
    samples[[0, far], 0], samples[far, 1] = 1, far + 1
    two = {
        "order": np.array([1 | 1 << COUNT_BIT, 0, 1, 0], "<u4").view(np.uint8),
        "index": np.array([0, far], "<u4").view(np.uint8),
        "samples": samples.view(np.uint8).reshape(-1),
    }
    for bit in range(cached.program.behind.bit_length(), 32):
        network, loaded = _network(replace(cached, program=replace(cached.program, behind=1 << bit)))
        settings = loaded | {"cache": end - BEAT * far, "sample_count": 2, "batch": 2}
        name, place = f"{1 << bit} words behind a cut", end + BEAT
        yield Ending(name, Command.CACHE, Error["WRITE_DECERR"], place, network | two, settings)


def _places(spec: ZostreamSpec, images: StreamImages) -> Iterator[Ending]:
    """Sentences with inaccessible cache slots, one for each bit of the slot number."""
    (network, loaded), cache = _network(images), _end(spec)
    settings = loaded | {"cache": cache, "cached": 1}
    for bit in range(32):
        memory = network | {"order": _ORDER, "samples": _sample(1 << bit)}
        name, place = f"place {1 << bit} in the cache", cache + (BEAT << bit)
        yield Ending(name, Command.TRAIN, Error["READ_DECERR"], place, memory, settings)


def _far_samples(spec: ZostreamSpec, images: StreamImages) -> Iterator[Ending]:
    """Full passes whose first sentence lies a power of two beats away, for each power, with unreadable rows.

    The sentence begins with the last readable beat. Another sentence waits after the pass.
    """
    (network, loaded), end, count = _network(images), _end(spec), images.program.capacity // 2
    near = sentence_image(np.zeros((1, images.program.features), np.int64))
    order = np.array([1 | count << COUNT_BIT, 1, *[0] * count], "<u4").view(np.uint8)
    for bit in range((near.size // BEAT - 1).bit_length(), 32):
        index = np.array([0, 1 << bit], "<u4").view(np.uint8)
        places = {"samples": end - BEAT - (BEAT << bit), "cache": end - BEAT}  # nothing is kept of this network
        memory = network | {"order": order, "index": index, "samples": near, "cache": _sample(0)}
        settings = loaded | places | {"sample_count": 2, "batch": count + 1}
        yield Ending(f"a sample {1 << bit} beats away", Command.TRAIN, Error["READ_DECERR"], end, memory, settings)


def _second_row(spec: ZostreamSpec, images: StreamImages) -> Ending:
    """A sentence of two tokens whose second row cannot be read."""
    (network, loaded), end = _network(images), _end(spec)
    rows = sentence_image(np.zeros((2, images.program.features), np.int64))
    # one beat with the number of tokens, then the rows
    first = rows[: BEAT + (rows.size - BEAT) // 2]
    memory, settings = network | {"order": _ORDER, "samples": first}, loaded | {"samples": end - first.size}
    return Ending("a second row behind the end", Command.TRAIN, Error["READ_DECERR"], end, memory, settings)


def _splits(spec: ZostreamSpec, images: StreamImages) -> Iterator[Ending]:
    """Numbers of perturbations of the parts of a cut network, their product at a limit; no schedule is readable."""
    (network, loaded), order = _network(images), _end(spec)
    for first, second in _SPLITS:
        settings = loaded | {"order": order, "p1": first, "p2": second}
        refused = first * second > MOST_SLOPES
        error, value = (Error["BAD_SPLIT"], second) if refused else (Error["READ_DECERR"], order)
        yield Ending(f"{first} times {second} perturbations", Command.TRAIN, error, value, network, settings)


def _sample(place: int) -> Bytes:
    """First beat of a one-token sample with this cache slot."""
    return np.array([1, place, 0, 0], "<u4").view(np.uint8)


def _network(images: StreamImages) -> tuple[dict[str, Bytes], dict[str, int]]:
    """Images of a network, and the setting for the size of the network's program."""
    program, weights = ZostreamLayout.network(images)
    return {"program": program.image, "weights": weights.image}, {"program_beats": program.size // BEAT}


def _end(spec: ZostreamSpec) -> int:
    """First inaccessible address."""
    return 1 << spec.address - 1
