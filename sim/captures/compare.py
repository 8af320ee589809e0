"""Compare words of a simulation, a logic analyser or a memory dump with the golden model, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...golden.block import Field, Spec, Words
from ...golden.errors import UserError
from ...golden.fixed import Format, Integers
from . import shift

AROUND = 2
"""Number of words printed before, and after, the first difference."""
MAX_NUMBERS = 1 << 27
"""Largest number of golden numbers per comparison: 1 GiB."""
SEARCHED = 100_000
"""Number of words after reset among which the start of a capture is searched."""


@dataclass(frozen=True)
class Difference:
    """The first mismatch of a capture.

    Parameters
    ----------
    stream, field : str
        Stream and field names.
    lane, word : int
        Lane, and word index within the capture.
    golden_word : int
        Index of the corresponding word in the golden output.
    expected, got : int
        Golden and captured number.
    format : Format
        Format of both numbers.
    around : tuple of (int, int, int)
        (word, expected, got) of the same lane, from two words before to two words after.
    """

    stream: str
    field: str
    lane: int
    word: int
    golden_word: int
    expected: int
    got: int
    format: Format
    around: tuple[tuple[int, int, int], ...]

    def lines(self) -> list[str]:
        """Lines for a terminal: the position, then a line per word with integer, bit pattern and value of both
        numbers.
        """
        head = f"{self.stream}.{self.field}, lane {self.lane}, word {self.word}"
        if self.golden_word != self.word:
            head += f" (golden's {self.golden_word})"
        rows = [
            f"{'>' if word == self.word else ' '} word {word}: expected {self._shown(want)}, got {self._shown(have)}"
            for word, want, have in self.around
        ]
        return [f"{head}, {self.format}:", *rows]

    def _shown(self, number: int) -> str:
        width = self.format.width
        pattern = f"0x{number & ((1 << width) - 1):0{-(-width // 4)}x}"
        return f"{number} {pattern} {number / (1 << self.format.fraction):.10g}"


@dataclass
class CaptureComparison:
    """Counts of compared and differing numbers, and the first differences.

    Parameters
    ----------
    compared, mismatches : int
        Count of compared and of differing numbers; a missing or surplus word counts once per lane.
    differences : list of str
        Messages of the first differences.
    first : Difference, optional
        Details of the first difference.
    hint : str
        Advice if the capture seems to start at another golden word, else empty.
    """

    compared: int = 0
    mismatches: int = 0
    differences: list[str] = field(default_factory=list)
    first: Difference | None = None
    hint: str = ""

    LIMIT = 8

    @property
    def passed(self) -> bool:
        """True if something was compared and nothing differs."""
        return not self.mismatches and self.compared > 0

    def add(self, where: str, expected: Words, got: Words) -> None:
        """Compare a stream's words, field by field."""
        for name, want in expected.items():
            have = got.get(name, np.empty((0, want.shape[1]), np.int64))
            shared = min(len(want), len(have))
            self.compared += max(len(want), len(have)) * want.shape[1]
            self.mismatches += abs(len(want) - len(have)) * want.shape[1]
            if len(want) != len(have):
                self.note(f"{where}.{name}: {len(have)} words, golden has {len(want)}")
            words, lanes = np.nonzero(want[:shared] != have[:shared])
            self.mismatches += len(words)
            for word, lane in zip(words[: self.LIMIT].tolist(), lanes[: self.LIMIT].tolist(), strict=True):
                self.note(f"{where}.{name}[{lane}] word {word}: {have[word, lane]}, golden {want[word, lane]}")

    def note(self, difference: str) -> None:
        """Append a message while fewer than `LIMIT` are stored."""
        if len(self.differences) < self.LIMIT:
            self.differences.append(difference)


def compare(spec: Spec, capture: dict[str, Words], skip: int = 0, drop: int = 0) -> CaptureComparison:
    """Compare a capture with the golden model, which starts at reset.

    Parameters
    ----------
    spec : Spec
        Parameters of the captured hardware.
    capture : dict of str to Words
        Result of `read_capture`: outputs, and the inputs that the golden model needs. Only the captured length is
        compared.
    skip : int
        Golden words before the first captured word.
    drop : int
        Captured output words to ignore at the beginning.

    Raises
    ------
    UserError
        If the capture lacks an input or a field, or has no output of the block.
    """
    if skip < 0 or drop < 0:
        raise UserError(f"skip = {skip}, drop = {drop}: words are counted from 0")
    inputs = _inputs(spec, capture, skip, drop)
    streams = spec.streams()
    captured = {name: _dropped(words, drop) for name, words in capture.items() if streams[name].direction == "out"}
    count = max((len(column) for words in captured.values() for column in words.values()), default=0)
    lanes = sum(item.lanes for stream in streams.values() if stream.direction == "out" for item in stream.fields)
    if (skip + count) * lanes > MAX_NUMBERS:
        raise UserError(f"skip = {skip} with {count} captured words of {lanes} numbers is too much for one comparison")
    golden = spec.run(inputs, skip + count)
    comparison = CaptureComparison()
    firsts = []
    for name in (name for name in golden if name in captured):
        got = captured[name]
        if missing := [key for key in golden[name] if key not in got]:
            raise UserError(f"the capture of {name} lacks {', '.join(missing)}: capture all of its fields")
        length = len(next(iter(got.values())))
        want = {key: column[skip : skip + length] for key, column in golden[name].items()}
        comparison.add(name, want, got)
        firsts += [_first(name, item, want[item.name], got[item.name], skip) for item in streams[name].fields]
    if not comparison.compared:
        raise UserError(f"nothing to compare: the capture needs one of {', '.join(golden)} with more than {drop} words")
    comparison.first = min((first for first in firsts if first), key=lambda first: first.word, default=None)
    if comparison.mismatches:
        comparison.hint = _hint(spec, inputs, {name: captured[name] for name in golden if name in captured}, skip, drop)
    return comparison


def _inputs(spec: Spec, capture: dict[str, Words], skip: int, drop: int) -> dict[str, Words]:
    """Inputs for the golden model: all captured inputs; sidebands of an output aligned to its words."""
    streams = spec.streams()
    if unknown := sorted(set(capture) - set(streams)):
        raise UserError(f"{spec.name} has no stream {', '.join(unknown)}: its streams are {', '.join(streams)}")
    # missing sidebands are 0, and `skip` accounts for a loaded position
    needed = [name for name, s in streams.items() if s.direction == "in" and not s.follows and name != "load"]
    if missing := [name for name in needed if name not in capture]:
        raise UserError(f"the capture lacks what went into {', '.join(missing)}: {spec.name} needs it, capture both")
    inputs = {}
    for name, stream in streams.items():
        if name not in capture or stream.direction == "out":
            continue
        if fields := [item.name for item in stream.fields if item.name not in capture[name]]:
            raise UserError(f"the capture of {name} lacks {', '.join(fields)}: capture all of its fields")
        inputs[name] = capture[name]
        if stream.follows and streams[stream.follows].direction == "out":
            inputs[name] = {
                key: np.concatenate([np.zeros((skip, column.shape[1]), np.int64), column[drop:]])
                for key, column in capture[name].items()
            }
    return inputs


def _dropped(words: Words, drop: int) -> Words:
    return {name: column[drop:] for name, column in words.items()}


def _first(stream: str, item: Field, want: Integers, got: Integers, skip: int) -> Difference | None:
    shared = min(len(want), len(got))
    places = np.argwhere(want[:shared] != got[:shared])
    if not len(places):
        return None
    word, lane = places[0].tolist()
    around = tuple(
        (near, int(want[near, lane]), int(got[near, lane]))
        for near in range(max(0, word - AROUND), min(shared, word + AROUND + 1))
    )
    expected, have = int(want[word, lane]), int(got[word, lane])
    return Difference(stream, item.name, lane, word, skip + word, expected, have, item.format, around)


def _hint(spec: Spec, inputs: dict[str, Words], captured: dict[str, Words], skip: int, drop: int) -> str:
    """Advice on ``--skip`` and ``--drop`` where a stream agrees with the golden words at another offset, else ""."""
    streams = spec.streams()
    if any(streams[name].follows and column.any() for name, words in inputs.items() for column in words.values()):
        return ""  # another offset would need sideband values from before the capture
    count = max(len(column) for words in captured.values() for column in words.values())
    lanes = sum(item.lanes for name in captured for item in streams[name].fields)
    fed = any(not streams[name].follows for name in inputs if name != "load")
    further = shift.REACH if fed else max(shift.REACH, min(SEARCHED, MAX_NUMBERS // 8 // lanes))
    golden = spec.run(inputs, skip + count + further)
    for name, got in captured.items():
        width = sum(item.width for item in streams[name].fields)
        if alignment := shift.find(golden[name], got, width, skip):
            say = f"{alignment.agree} of {alignment.shared} words of {name} agree with golden"
            if alignment.start >= 0:
                keep = f" --drop {drop}" if drop else ""
                return f"{say} from its word {alignment.start} on; pass --skip {alignment.start}{keep}"
            early = drop - alignment.start
            back = "--skip 0 " if skip else ""
            return f"{say} from its first on, {early} came before golden's first; pass {back}--drop {early}"
    if "load" in inputs:
        return "the capture holds a load, golden starts at reset: capture after it, and skip to its position"
    return ""
