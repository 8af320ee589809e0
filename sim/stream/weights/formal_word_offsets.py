"""Rules of `word_offsets`: each command gives exactly its words and beats, draws exactly its numbers, and ends."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.rng.pezo import PezoSpec
from ....golden.rng.scale import ScaleSpec
from ....golden.rng.urng import UrngSpec
from ....golden.stream.weights.word_offsets import PER_BEAT, OffsetCommand, WordOffsetsSpec
from ....hw.stream.weights.word_offsets import WORDS_AHEAD
from ....hw.stream.weights.word_place import WordPlace
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

SPEC = WordOffsetsSpec(
    generator=PezoSpec(scale=ScaleSpec(urng=UrngSpec(bits=4, n=2, allow_power_of_two=True), mode="constant"))
)
CUT = ("multipliers", "memories")
_MOST = 3
"""Assumed largest number of a command's rows or words; the block's counter works for any number."""


def check(checker: Checker, spec: WordOffsetsSpec) -> None:
    """Assumes commands of at most a few rows or words."""
    command, taken = checker.payload("command"), checker.moves("command")
    checker.assume(~checker.streams["command"].valid | (command.count <= _MOST))

    def gains(*kinds: OffsetCommand) -> list[tuple[Value, int]]:
        """Words that become outstanding with commands of these kinds, see `Checker.balance`."""
        asks = Value.cast(0)
        for kind in kinds:
            asks = asks | (command.kind == kind)
        return [(taken & asks & command.count[bit], 1 << bit) for bit in range(2)]

    def balance(name: str, owed: list[tuple[Value, int]], capacity: int) -> None:
        port = checker.streams[name]
        offer = port.ready if name in checker.inputs else port.valid
        checker.balance(name, owed, [(offer, checker.moves(name), 1)], capacity)

    beats = _MOST * (spec.row_words // PER_BEAT)
    balance("u", gains(OffsetCommand.PERTURB, OffsetCommand.SKIP), _MOST)
    balance("load", gains(OffsetCommand.LOAD), beats)
    balance("done", [(taken & (command.kind != OffsetCommand.OFFSETS), 1)], 1)
    _go_down(checker)
    with checker.lemmas_end():
        _place_beats(checker)
        balance("save", gains(OffsetCommand.SAVE), beats)
        checker.handshake("save")
        walk, inside = checker.block.walk, probe_of(checker.block)
        waits = walk.walks & ~walk.issue & checker.all_ready
        checker.passes("save_goes_on", waits & (walk.kind == OffsetCommand.SAVE), PER_BEAT)
        checker.passes("drain_ends", inside.state("DRAIN") & checker.all_ready, 2 * PER_BEAT)
    with checker.lemmas_end():
        _count_words(checker, spec, gains(OffsetCommand.OFFSETS))
        balance("offsets", gains(OffsetCommand.OFFSETS), _MOST + WORDS_AHEAD)
        # the words ahead are in stages that never wait, or already collected
        checker.rule("offsets_wait", ~(waits & walk.gives) | (walk.ahead == WORDS_AHEAD))
        offered = ~inside.complete | checker.streams["offsets"].valid | inside.offers
        checker.rule("offsets_go_on", offered)


def _go_down(checker: Checker) -> None:
    """Prove that the control advances: commands are accepted, and each issued number lowers the remaining count."""
    block, command = checker.block, checker.streams["command"]
    walk, inside = block.walk, probe_of(block)
    checker.lemma("gives", ~walk.walks | (walk.gives == (walk.kind == OffsetCommand.OFFSETS)))
    checker.lemma("word_ends", ~walk.walks | (walk.word_ends == (walk.numbers_left == 0)))
    place = parts_of(block).place
    finds = command.valid & (command.payload.kind == OffsetCommand.OFFSETS) & ~place.found
    checker.passes("place_found", finds, WordPlace.CYCLES + 1)
    checker.takes("command", inside.state("IDLE") & ~finds)
    checker.rule("done_offered", ~inside.state("DONE") | checker.streams["done"].valid)
    remaining = Cat(walk.numbers_left, walk.left)
    issued, before = Signal(), Signal.like(remaining)
    checker.m.d.sync += [issued.eq(walk.issue & ~inside.free), before.eq(remaining)]
    checker.rule("rows_left", ~walk.walks | (walk.left != 0))
    checker.rule("goes_down", ~issued | (remaining < before))


def _place_beats(checker: Checker) -> None:
    """Account for the deltas of an image beat: in the pipeline, collected, or offered."""
    walk, inside, command = checker.block.walk, probe_of(checker.block), checker.streams["command"]
    place = parts_of(checker.block).place
    step = probe_of(place).step
    asks = command.valid & (command.payload.kind == OffsetCommand.OFFSETS)
    checker.lemma("place", Mux(step == 0, (place.row == 0) & (place.turned == 0), asks))
    checker.lemma("rows", ~walk.walks | walk.gives | ((walk.turned == 0) & (walk.row + walk.left <= _MOST)))
    checker.lemma("wraps", walk.gives | ~walk.walks | (walk.numbers_left != 0) | ~inside.wraps)
    number, offered = inside.number, checker.streams["save"].valid
    saves, on_way = walk.kind == OffsetCommand.SAVE, inside.inside[:2]
    places = (number + on_way[0] + on_way[1])[:2]
    checker.lemma("beat", Mux(saves, places == walk.column[:2], (number == 0) & ~offered & ~walk.saving))
    checker.lemma("beat_offered", ~offered | ((number == 0) & ~on_way.any() & (walk.column[:2] == 0)))
    checker.lemma("beat_begun", ~saves | (walk.saving == (offered | (number != 0) | on_way.any())))


def _count_words(checker: Checker, spec: WordOffsetsSpec, gains: list[tuple[Value, int]]) -> None:
    """Account for outstanding offset words: not begun, in the pipeline, or waiting."""
    block, offsets = checker.block, checker.streams["offsets"]
    walk, inside = block.walk, probe_of(block)
    walks = walk.walks & walk.gives
    begun = walks & (walk.numbers_left != spec.n - 1)
    stages = zip(inside.gives, inside.ends, strict=True)
    ends = [gives & last for gives, last in stages]
    waits = sum(ends, start=Value.cast(begun)) + inside.complete + offsets.valid
    checker.lemma("numbers", ~walks | (walk.numbers_left < spec.n))
    checker.lemma("ahead", walk.ahead == waits)
    pending = Signal(range(2 * _MOST + WORDS_AHEAD + 1))
    gained = sum((Mux(event, words, 0) for event, words in gains), Value.cast(0))
    checker.m.d.sync += pending.eq(pending + gained - checker.moves("offsets"))
    checker.lemma("owed", pending == Mux(walks, walk.left, 0) - begun + walk.ahead)
