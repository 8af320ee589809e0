"""Faults of a submodule with rules: breaking a rule kills; other faults are equivalent only with complete rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabtune.golden.errors import UserError
from fabtune.mutation import campaign, rule_campaign
from fabtune.mutation.faults import CellFault, CellNetlist, list_faults
from fabtune.mutation.record import score_of
from fabtune.mutation.rule_campaign import RuleCampaign, RuleSettings
from fabtune.sim.primitives import formal_rounding

SETTINGS = RuleSettings(faults=24, seconds=10)
FEW = (0, 9, 22)
"""Representatives for the fast test: one fault per rule, and one that breaks none."""


def few(made: CellNetlist, count: int, seed: int, component: str) -> list[CellFault]:
    found = list_faults(made, count, seed, component)
    return [found[number] for number in FEW]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("campaign") / "rounding.jsonl"
    RuleCampaign("rounding", SETTINGS, path).run()
    return path


def test_rules_kill_faults_of_rounding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "list_faults", few)
    path = tmp_path / "rounding.jsonl"
    RuleCampaign("rounding", SETTINGS, path).run()
    results = RuleCampaign("rounding", SETTINGS, path).run()  # from the file
    assert [one.status for one in results] == ["killed", "killed", "equivalent"]
    assert [one.detail for one in results[:2]] == ["o", "clipped"]
    assert {one.fault.files for one in results} == {("hw/primitives/rounding.py",)}


@pytest.mark.slow
def test_rules_kill_all_faults_of_rounding(record: Path) -> None:
    results = RuleCampaign("rounding", SETTINGS, record).run()
    score = score_of(results)
    assert (score.faults, score.undecided, score.survived) == (24, 0, 0)
    assert score.killed > 18
    assert score.equivalent > 0
    assert {one.fault.files for one in results} == {("hw/primitives/rounding.py",)}
    assert {one.detail for one in results if one.status == "killed"} <= {"o", "clipped"}


@pytest.mark.slow
def test_rules_that_leave_outputs_open_prove_no_equivalence(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    equivalent = {one.number for one in RuleCampaign("rounding", SETTINGS, record).run() if one.status == "equivalent"}
    monkeypatch.delattr(formal_rounding, "COMPLETE")
    open_rules = RuleCampaign("rounding", RuleSettings(faults=max(equivalent) + 1, seconds=10), tmp_path / "a.jsonl")
    assert {one.number for one in open_rules.run() if one.status != "killed"} == equivalent
    assert not [one for one in open_rules.run() if one.status == "equivalent"]


def test_a_part_that_breaks_a_rule_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unfaulted, mutant = RuleCampaign("rounding", RuleSettings(faults=1), tmp_path / "a.jsonl"), rule_campaign.mutant
    broken = list_faults(unfaulted._made, 1, 0, "hw/primitives/rounding.py")[0]
    monkeypatch.setattr(rule_campaign, "mutant", lambda made, _: mutant(made, broken))
    with pytest.raises(UserError, match=r"rounding without a fault: .* is not proved"):
        unfaulted.run()
