"""Rules of `word_offsets`: as many words, beats and words of the generator as commands say, each to its end."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value

from ...golden.rng.pezo import PezoSpec
from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ...golden.stream.word_offsets import PER_BEAT, Kind, WordOffsetsSpec
from ...hw.stream.word_offsets import WORDS_AHEAD
from ...hw.stream.word_place import WordPlace
from ..formal.checker import Checker
from ..formal.inside import variables_of

SPEC = WordOffsetsSpec(
    generator=PezoSpec(scale=ScaleSpec(urng=UrngSpec(bits=4, n=2, allow_power_of_two=True), mode="constant"))
)
CUT = ("multipliers", "memories")
_MOST = 3
"""Most rows or words of a command; the count itself is a counter of any number."""


def check(checker: Checker, spec: WordOffsetsSpec) -> None:
    """Add the rules, for commands of a few rows or words, none included."""
    command, taken = checker.payload("command"), checker.moves("command")
    checker.assume(~checker.streams["command"].valid | (command.count <= _MOST))

    def gains(*kinds: Kind) -> list[tuple[Value, int]]:
        """What commands of some kinds owe."""
        asks = Value.cast(0)
        for kind in kinds:
            asks = asks | (command.kind == kind)
        return [(taken & asks & command.count[bit], 1 << bit) for bit in range(2)]

    def balance(name: str, owed: list[tuple[Value, int]], capacity: int) -> None:
        """Prove that as many words pass as are owed."""
        port = checker.streams[name]
        offer = port.ready if name in checker.inputs else port.valid
        checker.balance(name, owed, [(offer, checker.moves(name), 1)], capacity)

    with checker.lemmas_end():
        _count_words(checker, spec, gains(Kind.OFFSETS))
        balance("offsets", gains(Kind.OFFSETS), _MOST + WORDS_AHEAD)
    beats = _MOST * (spec.row_words // PER_BEAT)
    balance("u", gains(Kind.PERTURB, Kind.SKIP), _MOST)
    balance("load", gains(Kind.LOAD), beats)
    balance("save", gains(Kind.SAVE), beats)
    balance("done", [(taken & (command.kind != Kind.OFFSETS), 1)], 1)
    checker.progress(max(_MOST * spec.n + spec.latency, WordPlace.CYCLES) + 2)


def _count_words(checker: Checker, spec: WordOffsetsSpec, gains: list[tuple[Value, int]]) -> None:
    """Add lemmas of where the words of offsets are that are owed: not begun, on their way, or waiting."""
    block, offsets = checker.block, checker.streams["offsets"]
    walk, sums = variables_of(block).walk, variables_of(block, "_sums")
    complete = variables_of(block, "_collect").complete
    walks = walk.walks & walk.gives
    begun = walks & (walk.numbers_left != spec.n - 1)
    stages = zip(sums.gives._copies[1:], sums.ends._copies[1:], strict=True)
    ends = [gives & last for gives, last in stages]
    waits = sum(ends, start=Value.cast(begun)) + complete + offsets.valid
    checker.lemma("numbers", ~walks | (walk.numbers_left < spec.n))
    checker.lemma("ahead", walk.ahead == waits)
    owed = Signal(range(2 * _MOST + WORDS_AHEAD + 1))
    gained = sum((Mux(event, words, 0) for event, words in gains), Value.cast(0))
    checker.m.d.sync += owed.eq(owed + gained - checker.moves("offsets"))
    checker.lemma("owed", owed == Mux(walks, walk.left, 0) - begun + walk.ahead)
