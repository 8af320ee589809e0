"""Counted work of the parts of `instantft`: words, rows and beats of the mapping, and golden's bits."""

import pytest

from fabtune.golden.errors import UserError
from fabtune.sim.compiled.roofline import RooflineJob, Work, roofline, roofline_of
from fabtune.sim.compiled.session import Dram
from fabtune.sim.simulator import find

from ....small_cores import OPTIONS, instantft

needs_verilator = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


def check_counts(spec, found, batches):
    """Compare counts that do not depend on memory pauses with golden's mapping."""
    mapping = spec.mapping
    assert (found.compared, found.mismatches) == (batches, 0)
    for kind, work in found.work.items():
        assert work.turns["words"] == (0 if kind == "in the cache" else mapping.forward.cycles)
        assert work.turns["forward"] == mapping.adapter_rows + mapping.logit_rows
        assert work.turns["backward"] == mapping.adapter_rows
        assert work.turns["head"] > 0
        assert work.turns["update"] > 0
        assert work.limit in {"array", "port 0"}
        updated = mapping.a_beats / mapping.words_per_cycle / spec.batch
        assert work.beside["gradients"] >= updated
        assert work.beside["port 0"] >= work.beats
        assert 0 < work.beside["load"] < work.beats


@needs_verilator
def test_words_rows_and_beats_are_those_of_the_mapping():
    spec = instantft()
    found = roofline(spec, RooflineJob(samples=8), Dram(duty=1.0))
    check_counts(spec, found, batches=10)
    mapping, known = spec.mapping, found.work["in the cache"]
    batch = mapping.forward.sample_beats + mapping.record_beats
    assert known.beats == batch + 1 / spec.batch  # and of the order list
    assert known.beside["record"] == known.beside["sample"] == known.turns["pauses"] == 0
    new = found.work["new"]
    assert new.beats == known.beats + mapping.forward.sample_beats + mapping.record_beats
    assert new.turns["pauses"] >= 3 * len(spec.described.stages)
    assert 0 < known.cycles < new.cycles


@pytest.mark.slow
@needs_verilator
def test_without_a_cache_all_samples_are_alike():
    spec = instantft(**OPTIONS)
    found = roofline(spec, RooflineJob(samples=8))
    check_counts(spec, found, batches=10)
    assert [*found.work] == ["sample"]


def test_the_limit_is_what_is_at_work_the_longest():
    work = Work(90, {"words": 50, "head": 20}, {"record": 60, "port 0": 80}, 40)
    assert (work.idle, work.limit) == (20, "port 0")
    assert Work(90, {"words": 50, "head": 35}, {"record": 60, "port 0": 80}, 40).limit == "array"
    assert work.of_each(10).facts == {
        "cycles": 9,
        "parts": {"words": 5, "head": 2, "idle": 2, "record": 6, "port 0": 8},
        "beats": 4,
        "limit": "port 0",
    }


@pytest.mark.parametrize(
    ("settings", "job", "message"),
    [
        ({}, RooflineJob(samples=65), "65 samples: this core takes 1 to 64"),
        ({"cache": "chip"}, RooflineJob(samples=4, raw=True), "the cache of this core is chip"),
    ],
)
def test_jobs_that_a_core_cannot_run_are_refused(settings, job, message):
    spec = instantft(**settings)
    with pytest.raises(UserError, match=message):
        roofline_of(spec).check(spec, job)
