"""Captures against golden: agreement, first difference, and explanation."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabtune.golden.block import Field, Spec, Stream
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.rng.urng import UrngSpec
from fabtune.sim.captures.compare import CaptureComparison, compare

URNG = UrngSpec(n=5, bits=8)
BIT = Format(1, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class Sum(Spec):
    """A fed block with two fields: running sums of the input, and their parity."""

    name: ClassVar[str] = "sum"
    summary: ClassVar[str] = "for tests"
    latency = 0

    def streams(self):
        return {
            "i": Stream("in", (Field("a", Format(4, 12), 2),)),
            "load": Stream("in", (Field("bit", BIT),)),
            "o": Stream("out", (Field("sum", Format(8, 12), 2), Field("odd", BIT))),
        }

    def stimulus(self, rng, words):
        return {"i": {"a": rng.integers(-100, 100, (words, 2))}}

    def run(self, inputs, words):
        total = np.cumsum(inputs["i"]["a"][:words], axis=0)
        return {"o": {"sum": total, "odd": total[:, :1] & 1}}


@dataclass(frozen=True, kw_only=True)
class Counter(Spec):
    """A source that a sideband resets to 0 after a word."""

    name: ClassVar[str] = "counter"
    summary: ClassVar[str] = "for tests"
    latency = 0

    def streams(self):
        return {
            "o": Stream("out", (Field("count", Format(16, 0)),)),
            "again": Stream("in", (Field("bit", BIT),), follows="o"),
        }

    def stimulus(self, rng, words):
        return {"again": {"bit": (rng.random((words, 1)) < 0.2).astype(np.int64)}}

    def run(self, inputs, words):
        count, counts = 0, []
        again = inputs["again"]["bit"][:, 0] if "again" in inputs else []
        for k in range(words):
            counts.append([count])
            count = 0 if k < len(again) and again[k] else count + 1
        return {"o": {"count": np.array(counts, np.int64).reshape(-1, 1)}}


SUM, COUNTER = Sum(), Counter()


def urng_words(start, count, spec=URNG):
    return {"o": {"number": spec.run({}, start + count)["o"]["number"][start:].copy()}}


def fed_words(count=50):
    given = SUM.stimulus(np.random.default_rng(1), count)
    return given | SUM.run(given, count)


def test_a_source_that_agrees():
    found = compare(URNG, urng_words(0, 40))
    assert (found.passed, found.compared, found.mismatches) == (True, 200, 0)
    assert (found.differences, found.first, found.hint) == ([], None, "")


def test_a_fed_block_that_agrees():
    found = compare(SUM, fed_words())
    assert (found.passed, found.compared) == (True, 150)


@settings(deadline=None, max_examples=20)
@given(skip=st.integers(0, 3000), count=st.integers(1, 50))
def test_skip_is_where_the_capture_starts(skip, count):
    assert compare(URNG, urng_words(skip, count), skip=skip).passed


def test_drop_leaves_the_first_words_out():
    capture = urng_words(0, 40)
    capture["o"]["number"] = np.concatenate([np.zeros((3, 5), np.int64), capture["o"]["number"]])
    found = compare(URNG, capture, drop=3)
    assert (found.passed, found.compared) == (True, 200)


def test_a_capture_shorter_than_its_input_agrees():
    capture = fed_words()
    capture["o"] = {name: column[:7] for name, column in capture["o"].items()}
    assert compare(SUM, capture).compared == 21


def test_a_sideband_belongs_to_the_captured_words():
    bits = COUNTER.stimulus(np.random.default_rng(2), 60)["again"]["bit"]
    bits[:15] = 0
    bits[20] = 1
    words = COUNTER.run({"again": {"bit": bits}}, 60)
    late = {"o": {"count": words["o"]["count"][10:]}, "again": {"bit": bits[10:]}}
    assert bits.any()
    assert compare(COUNTER, words | {"again": {"bit": bits}}).passed
    assert compare(COUNTER, late, skip=10).passed
    assert compare(COUNTER, late, skip=15, drop=5).passed
    assert not compare(COUNTER, {"o": late["o"]}, skip=10).passed


def test_every_single_bit_counts():
    for word, lane, bit in [(0, 0, 0), (39, 4, 7), (17, 2, 3)]:
        capture = urng_words(0, 40)
        capture["o"]["number"][word, lane] ^= 1 << bit
        found = compare(URNG, capture)
        assert (found.passed, found.mismatches, found.compared) == (False, 1, 200)
        assert (found.first.word, found.first.lane) == (word, lane)
        assert found.hint == ""


def test_first_difference_in_detail():
    capture = urng_words(100, 40)
    golden = capture["o"]["number"].copy()
    capture["o"]["number"][17, 3] = -golden[17, 3]
    capture["o"]["number"][20:] = 0
    first = compare(URNG, capture, skip=100).first
    assert (first.stream, first.field, first.lane, first.word, first.golden_word) == (
        "o",
        "number",
        3,
        17,
        117,
    )
    assert (first.expected, first.got) == (golden[17, 3], -golden[17, 3])
    assert first.around == tuple((k, golden[k, 3], capture["o"]["number"][k, 3]) for k in range(15, 20))


def test_first_difference_in_words():
    capture = fed_words()
    capture["o"]["sum"][1, 0] = -6144
    expected = fed_words()["o"]["sum"][:, 0]
    lines = compare(SUM, capture).first.lines()
    assert lines[0] == "o.sum, lane 0, word 1, Q8.12:"
    assert len(lines) == 1 + 4
    pattern, value = f"0x{expected[1] & 0xFFFFF:05x}", f"{expected[1] / 4096:.10g}"
    assert lines[2] == f"> word 1: expected {expected[1]} {pattern} {value}, got -6144 0xfe800 -1.5"
    assert all(line.startswith("  word ") for line in (lines[1], *lines[3:]))


def test_the_first_difference_is_the_earliest_of_all_fields():
    capture = fed_words()
    capture["o"]["sum"][9, 1] += 1
    capture["o"]["odd"][4, 0] ^= 1
    found = compare(SUM, capture)
    assert (found.first.field, found.first.word, found.mismatches) == ("odd", 4, 2)


def test_surplus_words_are_mismatches():
    capture = fed_words()
    capture["i"]["a"] = capture["i"]["a"][:-2]
    found = compare(SUM, capture)
    assert (found.passed, found.mismatches, found.compared) == (False, 6, 150)
    assert found.differences[0] == "o.sum: 50 words, golden has 48"
    assert found.first is None


def test_comparison_of_nothing_has_not_passed():
    assert not CaptureComparison().passed


def test_a_missing_field_counts_with_all_its_words():
    found = CaptureComparison()
    found.add("o", {"number": np.zeros((3, 5), np.int64)}, {})
    assert (found.compared, found.mismatches) == (15, 15)


@pytest.mark.parametrize("start", [1, 17, 1000, 99_990])
def test_a_late_capture_of_a_source_is_recognised(start):
    found = compare(URNG, urng_words(start, 40))
    place = min(start, start % URNG.period)
    assert found.hint.startswith(f"40 of 40 words of o agree with golden from its word {place} on")
    options = re.search(r"pass --skip (\d+)$", found.hint)
    assert compare(URNG, urng_words(start, 40), skip=int(options[1])).passed


def test_words_before_reset_are_recognised():
    capture = urng_words(0, 40)
    capture["o"]["number"] = np.concatenate([np.full((17, 5), 3), capture["o"]["number"]])
    found = compare(URNG, capture)
    assert found.hint.startswith("40 of 40 words of o agree with golden from its first on, 17 came before")
    assert found.hint.endswith("; pass --drop 17")
    assert compare(URNG, capture, drop=17).passed
    assert compare(URNG, capture, drop=5).hint.endswith("; pass --drop 17")
    assert compare(URNG, capture, skip=2).hint.endswith("; pass --skip 0 --drop 17")


def test_faults_of_a_shifted_capture_stay_visible():
    capture = urng_words(30, 40)
    capture["o"]["number"][[0, 1, 20]] = 3
    found = compare(URNG, capture)
    assert found.hint == "37 of 40 words of o agree with golden from its word 30 on; pass --skip 30"
    found = compare(URNG, capture, skip=30)
    assert (found.first.word, found.hint) == (0, "")
    assert {int(re.search(r"word (\d+)", line)[1]) for line in found.differences} == {0, 1}


def test_drop_stays_while_skip_is_looked_for():
    capture = urng_words(30, 40)
    capture["o"]["number"][:20] = 3
    found = compare(URNG, capture, drop=20)
    assert found.hint.endswith("pass --skip 50 --drop 20")
    assert compare(URNG, capture, skip=50, drop=20).passed


def test_a_late_capture_of_a_fed_block_is_recognised():
    capture = fed_words()
    capture["o"] = {name: column[6:] for name, column in capture["o"].items()}
    found = compare(SUM, capture)
    assert found.hint.endswith("44 of 44 words of o agree with golden from its word 6 on; pass --skip 6")
    assert compare(SUM, capture, skip=6).passed


def test_a_skip_too_many_is_recognised():
    found = compare(URNG, urng_words(0, 40), skip=3)
    assert found.hint.endswith("pass --skip 0")


def test_no_hint_without_proof():
    assert compare(URNG, urng_words(5, 1)).hint == ""
    assert compare(URNG, urng_words(5, 2)).hint.endswith("--skip 5")


def test_no_hint_where_nothing_agrees():
    other = UrngSpec(n=5, bits=8, seeds=(1, 2, 3, 4, 5))
    assert compare(URNG, urng_words(0, 40, other)).hint == ""
    reversed_lanes = {"o": {"number": urng_words(0, 40)["o"]["number"][:, ::-1]}}
    assert compare(URNG, reversed_lanes).hint == ""


def test_no_hint_under_a_sideband():
    bits = np.ones((40, 1), np.int64)
    assert compare(COUNTER, {"o": {"count": np.arange(5, 45)[:, None]}, "again": {"bit": bits}}).hint == ""


def test_a_load_in_the_capture_is_mentioned():
    load = {name: np.ones((40, 1), np.int64) for name in ("bit", "last")}
    capture = {"load": load, "o": {"number": np.zeros((40, 5), np.int64)}}
    assert "the capture holds a load, golden starts at reset" in compare(URNG, capture).hint


def test_a_missing_input_is_named():
    with pytest.raises(UserError, match=r"lacks what went into i: sum needs it, capture both"):
        compare(SUM, {"o": fed_words()["o"]})


def test_a_missing_field_is_named():
    capture = fed_words()
    del capture["o"]["odd"]
    with pytest.raises(UserError, match=r"the capture of o lacks odd"):
        compare(SUM, capture)
    with pytest.raises(UserError, match=r"the capture of i lacks a"):
        compare(SUM, fed_words() | {"i": {}})


def test_an_unknown_stream_is_named():
    with pytest.raises(UserError, match=r"urng has no stream out: its streams are load, scan, o"):
        compare(URNG, {"out": urng_words(0, 4)["o"]})


@pytest.mark.parametrize("capture", [{}, {"scan": {"bit": np.ones((4, 1), np.int64)}}, urng_words(0, 4)])
def test_nothing_to_compare_is_refused(capture):
    with pytest.raises(UserError, match=r"nothing to compare: the capture needs one of o with more than 4 words"):
        compare(URNG, capture, drop=4)


@pytest.mark.parametrize("option", ["skip", "drop"])
def test_words_are_counted_from_zero(option):
    with pytest.raises(UserError, match=rf"{option} = -1"):
        compare(URNG, urng_words(0, 4), **{option: -1})


def test_a_skip_beyond_memory_is_refused():
    with pytest.raises(UserError, match=r"skip = 1000000000 with 4 captured words"):
        compare(URNG, urng_words(0, 4), skip=10**9)
