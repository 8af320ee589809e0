"""`fabtune prove`: proofs, counterexample files, refusals."""

import json

import pytest

from fabtune.sim.formal.checker import Checker


def test_prove_reports_each_rule(fabtune):
    status, out, _ = fabtune("prove", "nf4_dequant", "--json")
    proofs = json.loads(out)["proofs"]
    assert status == 0
    assert {proof["status"] for proof in proofs} == {"proved"}
    assert {"o_words_made", "o_words_lost", "o_held", "o_stable"} <= {proof["rule"] for proof in proofs}


def test_own_parameters_are_proved(fabtune):
    status, out, err = fabtune("prove", "perturb", "--set", "lanes=3", "--set", "tag=4", "--rule", "o_words_lost")
    assert status == 0
    assert "perturb" in out
    assert err.startswith("perturb: o_words_lost: proved")
    assert len(err.splitlines()) == 1


def test_a_broken_rule_is_status_1_and_leaves_a_waveform(fabtune, tmp_path, monkeypatch):
    words = Checker.words

    def fewer(self, *arguments, capacity, **others):
        return words(self, *arguments, capacity=capacity - 1, **others)

    monkeypatch.setattr(Checker, "words", fewer)
    status, out, err = fabtune("prove", "perturb", "--rule", "o_words_lost", "--counterexamples", "broken")
    assert status == 1
    assert "o_words_lost" in out
    assert "perturb: o_words_lost: broken" in err
    assert (tmp_path / "broken" / "perturb" / "o_words_lost.vcd").exists()


MISTAKES = {
    "prove nosuch": "no block or part is called 'nosuch': choose from",
    "prove perturb --rule nosuch": "no rule called 'nosuch': choose from o_words_made",
    "prove perturb --set lanes=0": "lanes = 0",
    "prove perturb urng --rule o_held": "--rule are for one BLOCK",
    "prove --preset small": "are for one BLOCK",
    "prove fifo --set depth=4": "there is no block 'fifo'",
    "prove perturb --seconds 0": "Invalid value for '--seconds'",
    "prove perturb --counterexamples /proc/none/new": "/proc/none/new/rule.vcd cannot be written",
    "prove perturb --counterexamples .": ". exists: name another folder",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
