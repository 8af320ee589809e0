"""Stress tests of `zostream`: short jobs of transformers, entries of sample schedules, settings and their limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import Bytes
from ....golden.cores.zostream.memory_layout import ZostreamLayout
from ....golden.cores.zostream.random_network import NARROW, NetworkKind, NetworkWidths, random_images, sentences_of
from ....golden.cores.zostream.registers import STREAM_EPS_SHIFTS, Command, Error
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.rng.perturbation import POSITIONS
from ....golden.stream.instruction import INSTRUCTION_BEATS
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.machine.program import HEADER_BEATS
from ....golden.zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ....golden.zo.deltas import DELTA
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES, Split
from ...compiled.playing import ShortJob
from ...trials.contract import Ending, Trials, order_ending, told_address
from ...trials.draws import between
from ...trials.order_lists import step_entries
from ..zeroth_order_job import StepVariation, TrainingJob
from .wrong_inputs import wrong_inputs


@dataclass(frozen=True, kw_only=True)
class StreamVariation(StepVariation):
    """Settings of a short zeroth-order job of a transformer.

    Parameters
    ----------
    kind, sensitive, every, first, cut, widths
        Network, see `random_images`; if the cut is at `first` or below, activations at the cut are cached.
    lengths : tuple of int
        Tokens of each sentence; 0: the largest number that fits with both sides.
    perturbations, inner : int
        Perturbations of a step. In a cut network, `perturbations` are those of the first part; for each of them the
        second part has `inner`.
    """

    kind: NetworkKind = "encoder"
    sensitive: int = 0
    every: int = 1
    first: int = 0
    cut: int = 0
    lengths: tuple[int, ...] = (1, 3, 5)
    sizes: tuple[int, ...] = (3, 1)
    perturbations: int = 1
    inner: int = 1
    shift: int = 26
    widths: NetworkWidths = NARROW


def short_stream(spec: ZostreamSpec, seed: int, variation: StreamVariation | None = None) -> ShortJob:
    """Short zeroth-order training of a random transformer; all its numbers follow from `seed`."""
    rng, wanted = np.random.default_rng(seed), variation or StreamVariation()
    images = random_images(
        spec,
        rng,
        wanted.kind,
        wanted.gain,
        wanted.sensitive,
        wanted.first,
        wanted.cut,
        wanted.every,
        wanted.widths,
    )
    most, count = images.program.capacity // 2, len(wanted.lengths)
    sentences, labels = sentences_of(images, [length or most for length in wanted.lengths], rng)
    drawn = [rng.permutation(np.resize(np.arange(count), size)) for size in wanted.sizes]
    steps = wanted.steps(drawn, labels)
    split = Split(0 if images.cached else images.cut, wanted.perturbations, wanted.inner)
    settings = wanted.settings(split)
    rows, period = len(images.model.rows), min(spec.generator.period, POSITIONS)
    position = period - 1 - int(rng.integers(rows)) if wanted.late else int(rng.integers(1000))
    integers = ZerothOrderJob(images.model, spec.generator, settings, position)
    if wanted.start:
        integers.total = rng.integers(-wanted.start, wanted.start, integers.total.shape, endpoint=True)
    return ShortJob(spec, TrainingJob(images, sentences, steps, settings, position, integers.rows))


LONG = 1 << 9
"""Largest number of steps of a short job; a step takes about 7,000 cycles with a perceptron."""
_PROGRAM = 0x0712_3450
"""Address of the program. No other setting of a test lies within the program's size of this address, or above."""
_TOKENS_AT, _FIRST_AT = 32, 64
"""Indices from which samples have a number of tokens at a limit, or lie far away; none of these indices is 2**n - 1."""
_WIDE = 256
"""Largest number of values of a row in a short job."""
_HEAD = 16
"""Distance in beats between two samples with a number of tokens at a limit."""


class StreamTrials(Trials[ZostreamSpec, StreamVariation]):
    """Stress tests of a core for transformers; the core has no network until a program is loaded."""

    command: ClassVar[IntEnum] = Command.TRAIN
    loads: ClassVar[tuple[IntEnum, ...]] = (Command.LOAD,)
    keeps: ClassVar[bool] = False

    def job(self, spec: ZostreamSpec, seed: int, variation: StreamVariation) -> ShortJob:
        return short_stream(spec, seed, variation)

    def short(self, spec: ZostreamSpec) -> dict[str, StreamVariation]:
        most = min(spec.features, _WIDE)
        widths = NetworkWidths(most, most - 8, spec.classes)
        # one more than half of the activations at the cut: a count that lacks its highest bit would be 1
        cut_widths = replace(widths, hidden=most // 2 - 2)
        return {
            "base": StreamVariation(),
            "perceptron": StreamVariation(kind="perceptron"),
            "decoder": StreamVariation(kind="decoder"),
            # clipped activations and coefficients, then clipped deltas and offsets
            "clipped": StreamVariation(gain=40.0, shift=13, rate=65_000, eps_shift=8),
            "ends": StreamVariation(kind="decoder", start=DELTA.maximum, eps_shift=8),
            "sensitive": StreamVariation(sensitive=9),
            "empty lists": StreamVariation(kind="decoder", sensitive=5, every=2),
            "upper layers": StreamVariation(kind="decoder", first=8),
            # no step's sentences fill all passes
            "buffers": StreamVariation(kind="perceptron", lengths=(0, 1, 0, 2), sizes=(4, 3)),
            "very different": StreamVariation(lengths=(1, 0, 2), sizes=(3,)),
            # one pass takes both sentences
            "two long ones": StreamVariation(lengths=(spec.tokens // 2,) * 2, sizes=(2,)),
            "one token": StreamVariation(kind="decoder", lengths=(1,), sizes=(1, 2)),
            "several": StreamVariation(kind="perceptron", perturbations=3, scalars=True, sizes=(2, 1)),
            # rows at a cut: of tokens of both sides; of sentences; cached, as the first part is fixed
            "cut": StreamVariation(cut=3, perturbations=2, inner=2, sizes=(2, 1), scalars=True),
            "cut behind a pool": StreamVariation(kind="perceptron", cut=3, inner=3, lengths=(0, 1, 0), sizes=(3,)),
            "cache": StreamVariation(cut=3, first=3, sizes=(2, 3)),
            "cache behind a pool": StreamVariation(
                kind="perceptron",
                cut=3,
                first=3,
                perturbations=2,
                lengths=(1, 3, 5, 2, 4, 1),
                sizes=(5, 4),
                widths=NetworkWidths(classes=spec.classes),
            ),
            # many values per row, words per perturbation, beats per token and per logits, and perturbations
            "wide": StreamVariation(kind="perceptron", lengths=(1,), sizes=(1,), widths=widths),
            "wide cut": StreamVariation(
                kind="perceptron", cut=3, inner=11, eps_shift=12, lengths=(1,), sizes=(1,), widths=cut_widths
            ),
            "late": StreamVariation(kind="perceptron", sizes=(1, 1), late=True),
            # full passes, with further sentences waiting
            "full": StreamVariation(kind="perceptron", sizes=(LARGEST_BATCH,), lengths=(1,) * 7),
            # the largest number of operations, all but the last before the cut
            "deep": StreamVariation(
                kind="perceptron",
                cut=spec.operations - 2,
                first=spec.operations - 2,
                lengths=(1,),
                sizes=(1,),
                widths=NetworkWidths(further=spec.operations - 4),
            ),
        }

    def random(self, spec: ZostreamSpec, rng: np.random.Generator) -> StreamVariation:
        lengths = rng.integers(1, spec.tokens // 2, 8, endpoint=True)
        cut = int(rng.choice([0, 0, 3]))
        kind = rng.choice(np.array(["perceptron", "encoder"] if cut else ["perceptron", "encoder", "decoder"])).item()
        first = int(rng.choice([0, cut]))
        return StreamVariation(
            kind=kind,
            first=first,
            cut=cut,
            inner=int(rng.integers(1, 4)) if cut and not first else 1,
            gain=between(rng, 0.3, 30),
            sensitive=int(rng.choice([0, 0, 1, 7])),
            lengths=tuple(map(int, lengths)),
            sizes=tuple(map(int, rng.integers(1, 9, 3))),
            perturbations=int(rng.choice([1, 1, 2, 5])),
            rate=round(between(rng, 1, 65_535)),
            shift=int(rng.integers(14, 34)),
            eps_shift=int(rng.choice(STREAM_EPS_SHIFTS)),
            scalars=bool(rng.integers(2)),
            start=round(between(rng, 1, DELTA.maximum)),
        )

    def long(self, spec: ZostreamSpec) -> dict[str, StreamVariation]:
        """A job with more than `LONG` steps, for counters and addresses, and jobs with many perturbations."""
        short = StreamVariation(kind="perceptron", lengths=(1,), shift=30)
        # a faulty counter that counts in another order may end after a power of two too
        many = {f"{p1} perturbations": p1 for p1 in (MOST_PERTURBATIONS - 1, MOST_PERTURBATIONS)}
        repeated = {name: replace(short, sizes=(1,), perturbations=p1) for name, p1 in many.items()}
        return {"long": replace(short, sizes=(1,) * (LONG + 1)), **repeated}

    def usual(self, spec: ZostreamSpec) -> dict[str, int]:
        jobs = {"sample_count": 1, "steps": 1, "batch": 1, "position": 0, "eps_shift": 10, "shift": 0}
        program = {"program": _PROGRAM, "program_beats": _network(spec).program.image_beats}
        return program | jobs | {"p1": 1, "p2": 1, "gap": 0, "scalars": 0, "cached": 0}

    def images(self, spec: ZostreamSpec) -> dict[str, Bytes]:
        """A perceptron, samples of one token each except at the limits of `entries`, and the index of samples."""
        images, tokens = _network(spec), _token_counts(_network(spec))
        program, weights = ZostreamLayout.network(images)
        samples = np.zeros((_HEAD * (1 + len(tokens)), BEAT // 4), "<u4")
        samples[::_HEAD, 0] = (1, *tokens)
        index = np.zeros(2 * _FIRST_AT, "<u4")
        index[_TOKENS_AT : _TOKENS_AT + len(tokens)] = _HEAD * np.arange(1, 1 + len(tokens))
        index[_FIRST_AT : _FIRST_AT + 32] = 1 << np.arange(32)
        return {
            "program": program.image,
            "weights": weights.image,
            "index": index.view(np.uint8),
            "samples": samples.view(np.uint8).reshape(-1),
        }

    def ends(self, spec: ZostreamSpec, command: int, settings: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Endings that depend on the program: complete, invalid or too short; the program has no cut."""
        beats, whole = settings["program_beats"], _network(spec).program.image_beats
        deltas = spec.layout(_network(spec).program).delta_beats
        moves = command in (Command.LOAD_DELTAS, Command.SAVE_DELTAS)
        if moves and settings["deltas"] + deltas * BEAT > 1 << spec.address:
            yield "BAD_ADDRESS", settings["deltas"]
        if command == Command.LOAD and settings["program"] == _PROGRAM and beats <= whole:
            wrong = "PROGRAM_MAGIC" if beats < HEADER_BEATS else "PROGRAM_LENGTH"
            yield "" if beats == whole else wrong, 0
        trains = command == Command.TRAIN
        if command == Command.CACHE or (settings["cached"] and (trains or command == Command.INFER)):
            yield "PROGRAM_CUT", 0
        elif trains and settings["p2"] != 1:
            yield "BAD_SPLIT", settings["p2"]

    def limits(self, spec: ZostreamSpec) -> set[int]:
        beats, most = _network(spec).program.image_beats, HEADER_BEATS + INSTRUCTION_BEATS * spec.operations
        limits = {beats, HEADER_BEATS, most, spec.generator.period, STREAM_EPS_SHIFTS[0], STREAM_EPS_SHIFTS[-1]}
        return limits | {LARGEST_SHIFT, LARGEST_BATCH, MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES, MOST_SLOPES // 2}

    def together(self, spec: ZostreamSpec, values: Sequence[int]) -> Iterator[dict[str, int]]:
        """Numbers of perturbations of both parts."""
        for value in values:
            for other in (2, MOST_PERTURBATIONS):
                yield {"p1": other, "p2": value}

    def entries(self, spec: ZostreamSpec) -> Iterator[Ending]:
        """Schedules of all zeroth-order jobs; sentences with no token, the largest number of tokens, and more by each
        bit; unreadable samples at each bit of the beat number.
        """
        images = _network(spec)
        yield from step_entries(Error, images.program.instructions[-1].outputs)
        for index, tokens in enumerate(_token_counts(images), _TOKENS_AT):
            order, settings = (1, index), {"sample_count": 2 * _FIRST_AT}
            fits = 1 <= tokens <= images.program.capacity // 2
            yield order_ending(order, settings) if fits else order_ending(order, settings, Error.BAD_TOKENS, tokens)
        samples = 1 << spec.address - 1
        for bit in range(32):
            settings = {"samples": samples, "sample_count": 2 * _FIRST_AT}
            reported = told_address(spec, samples + (BEAT << bit))
            yield order_ending((1, _FIRST_AT + bit), settings, Error["READ_DECERR"], reported)

    def wrong_inputs(self, spec: ZostreamSpec) -> Iterator[Ending]:
        yield from wrong_inputs(spec)


@lru_cache(maxsize=4)
def _network(spec: ZostreamSpec) -> StreamImages:
    """Perceptron with which schedules and refusals are tried."""
    return random_images(spec, np.random.default_rng(0), "perceptron")


def _token_counts(images: StreamImages) -> list[int]:
    """Numbers of tokens at a limit: 0, the largest, one more, and each higher bit alone or with the largest."""
    most = images.program.capacity // 2
    bits = [1 << bit for bit in range(most.bit_length(), 32)]
    return [0, most, most + 1, *(more | most for more in bits[:-1:4]), *bits][: _FIRST_AT - _TOKENS_AT - 1]


TRIALS = StreamTrials()
