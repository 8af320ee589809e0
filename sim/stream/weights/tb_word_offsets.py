"""Bench of `word_offsets`: all commands in random order, with deltas of all magnitudes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Integers
from ....golden.stream.weights.word_offsets import MOST_FRACTION, PER_BEAT, WORD, OffsetCommand, WordOffsetsSpec
from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.deltas import DELTA
from ...phase import Phase

_ANY = (
    OffsetCommand.OFFSETS,
    OffsetCommand.OFFSETS,
    OffsetCommand.OFFSETS,
    OffsetCommand.UPDATE,
    OffsetCommand.PERTURB,
    OffsetCommand.SKIP,
    OffsetCommand.SAVE,
    OffsetCommand.LOAD,
)
_WALK_ROWS = 48
"""Up to this number of rows, commands on a whole table are as frequent as offsets; on longer tables they are rarer."""


@dataclass
class _Job:
    """Commands of a job, with their input words."""

    spec: WordOffsetsSpec
    rng: np.random.Generator
    rows: int
    commands: list[dict[str, int]] = field(default_factory=list)
    images: list[Integers] = field(default_factory=list)
    drawn: int = 0
    tie: int = field(init=False)

    def __post_init__(self) -> None:
        # exponent of half a unit in an offset's last place, for a random fraction
        self.tie = DELTA.fraction - 1 - int(self.rng.integers(MOST_FRACTION, endpoint=True))

    def add(self, kind: OffsetCommand, count: int, table: int, **settings: int) -> None:
        """Add a command; fields without meaning for its kind are random."""
        rng = self.rng
        fields = {
            "kind": int(kind),
            "factor": self._factor(),
            "word": int(rng.integers(WORD.maximum, endpoint=True)),
            "count": count,
            "fraction": int(rng.integers(MOST_FRACTION, endpoint=True)),
            "wide": int(rng.integers(2)),
            "table": table,
        }
        self.commands.append(fields | settings)
        if kind in (OffsetCommand.PERTURB, OffsetCommand.SKIP):
            self.drawn += count
        elif kind is OffsetCommand.LOAD:
            self.images.append(self._image(count))

    def _factor(self) -> int:
        """Random factor: a typical eps, any magnitude, an extreme, or a small multiple of the tie."""
        rng = self.rng
        drawn = int(rng.integers(COEFFICIENT.minimum, COEFFICIENT.maximum, endpoint=True)) >> int(rng.integers(27))
        ends = (COEFFICIENT.minimum, COEFFICIENT.maximum, 0)
        tie = int(rng.integers(-8, 8)) << min(self.tie, COEFFICIENT.width - 4)
        return int(rng.choice([1 << int(rng.integers(6, 15)), drawn, int(rng.choice(ends)), tie, tie]))

    def _image(self, count: int) -> Integers:
        """Image of deltas of all magnitudes, with extremes and ties; a row's padding is random."""
        rng, shape = self.rng, (count, self.spec.row_words)
        rows = rng.integers(DELTA.minimum, DELTA.maximum, shape, endpoint=True) >> rng.integers(0, DELTA.width, shape)
        ties = rng.integers(-9, 9, shape) << self.tie
        rows = np.where(rng.random(shape) < 0.5, ties, rows)
        return np.where(rng.random(shape) < 0.05, rng.choice([DELTA.minimum, DELTA.maximum], shape), rows)

    def offsets(self, table: int, words: int) -> None:
        """Add a request for up to `words` words, from any word in the initialised rows on."""
        rng, times = self.rng, self.spec.times
        count = int(rng.integers(0, min(words, self.rows if self.rows < times else 2 * times), endpoint=True))
        row = int(rng.integers(times if self.rows == times else self.rows - min(count, self.rows) + 1))
        passes = int(rng.choice([0, 1, int(rng.integers(self.spec.n * 2)), int(rng.integers(WORD.maximum // times))]))
        fraction = int(rng.choice([DELTA.fraction - 1 - self.tie, int(rng.integers(MOST_FRACTION, endpoint=True))]))
        self.add(OffsetCommand.OFFSETS, count, table, word=passes * times + row, fraction=fraction)

    def inputs(self) -> dict[str, Words]:
        """Words of the block's inputs."""
        spec = self.spec
        names = [field.name for field in spec.streams()["command"].fields]
        start = int(self.rng.integers(spec.generator.period))
        images = np.concatenate([np.zeros((0, spec.row_words), np.int64), *self.images])
        words = spec.generator.words_at(start + np.arange(self.drawn))
        return {
            "command": {name: np.array([field[name] for field in self.commands])[:, None] for name in names},
            "u": words,
            "load": {"delta": images.reshape(-1, PER_BEAT)},
        }


def stimulus(spec: WordOffsetsSpec, rng: np.random.Generator, words: int, all_rows: bool = False) -> dict[str, Words]:
    """A job that initialises each table, then gives random commands with about `words` words of offsets."""
    rows = spec.times if all_rows else int(rng.integers(1, min(spec.times, 12), endpoint=True))
    job = _Job(spec, rng, rows)
    for table in range(spec.tables):
        job.add(OffsetCommand(int(rng.choice([OffsetCommand.CLEAR, OffsetCommand.LOAD]))), rows, table)
        job.add(OffsetCommand.PERTURB, rows, table)
    while sum(command["count"] for command in job.commands if command["kind"] == OffsetCommand.OFFSETS) < words:
        kind, table = OffsetCommand(int(rng.choice(_ANY))), int(rng.integers(spec.tables))
        if kind is OffsetCommand.OFFSETS:
            job.offsets(table, max(words // 8, 1))
        elif rng.random() < _WALK_ROWS / rows:
            job.add(kind, int(rng.integers(0, rows, endpoint=True)), table)
    return job.inputs()


def scenario(spec: WordOffsetsSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs with few rows, a job with all rows, and a request with exact cycles."""
    jobs = [stimulus(spec, rng, max(words // 8, 8), rows) for rows in (False, False, True)]
    request = _Job(spec, rng, spec.times)
    request.add(OffsetCommand.OFFSETS, count := max(words // 16, 4), 0)
    jobs.append(request.inputs())
    phases: list[Phase] = []
    counts = dict.fromkeys(("offsets", "save", "done"), 0)
    for number, job in enumerate(jobs):
        found = spec.run(joined(jobs[: number + 1]), 0)
        expected = {
            port: {name: column[counts[port] :] for name, column in columns.items()} for port, columns in found.items()
        }
        counts = {port: len(next(iter(columns.values()))) for port, columns in found.items()}
        cycles = spec.request_cycles(count) if number == len(jobs) - 1 else None
        phases.append(Phase(job, expected, reset=number == 0, cycles=cycles, quiet=True))
    return phases
