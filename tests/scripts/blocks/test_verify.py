"""`fabtune verify` and `fabtune mutate`: comparisons, kept files, refusals."""

import json

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.sim.simulator import BenchRun


def test_verify_reports_what_it_compared(fabtune, fast_simulator):
    status, out, _ = fabtune("verify", "urng", "--simulator", fast_simulator, "--words", 100, "--json")
    verdict = json.loads(out)
    assert status == 0
    assert verdict["mismatches"] == 0
    assert verdict["compared"] > 6000
    assert verdict["cycles"] > 800
    assert verdict["simulator"] == fast_simulator


def test_verify_fails_when_the_rtl_is_another(fabtune, fast_simulator, monkeypatch):
    import fabtune.sim.verify as module

    real = module.emit
    monkeypatch.setattr(module, "emit", lambda spec: real(build(BLOCKS["pool"], ["seed=1"])))
    status, out, err = fabtune("verify", "pool", "--simulator", fast_simulator, "--words", 50)
    assert status == 1
    assert "differ" in out
    assert "golden" in err


@pytest.mark.parametrize(("given", "seed"), [((), None), (("--power-up", 0), 0), (("--power-up", 7), 7)])
def test_contents_at_power_up_are_chosen(fabtune, monkeypatch, given, seed):
    import fabtune.sim.verify as module

    seeds = []
    monkeypatch.setattr(module, "simulate", lambda *_, power_up: seeds.append(power_up) or BenchRun({}, ("none",)))
    assert fabtune("verify", "urng", "--words", 10, *given)[0] == 1
    assert seeds == [seed]


@pytest.mark.parametrize("simulator", [pytest.param("verilator", marks=pytest.mark.slow), "icarus"], indirect=True)
def test_waveforms_are_kept_and_replaced_only_by_force(fabtune, tmp_path, simulator, monkeypatch):
    waves = ("verify", "urng", "--set", "n=3", "--words", 20, "--simulator", simulator, "--waves", "w.vcd")
    assert fabtune(*waves)[0] == 0
    assert (tmp_path / "w.vcd").stat().st_size > 1000
    with monkeypatch.context() as patch:
        patch.setattr("fabtune.sim.verify.scenario", None)  # refused before any work
        status, _, err = fabtune(*waves)
    assert status == 2
    assert "w.vcd exists" in err
    (tmp_path / "w.vcd").write_text("old")
    assert fabtune(*waves, "--force")[0] == 0
    assert (tmp_path / "w.vcd").stat().st_size > 1000


def test_a_simulator_that_is_not_there_is_named_with_its_remedy(fabtune, monkeypatch):
    import fabtune.sim.simulator as module

    monkeypatch.setattr(module, "find", lambda simulator: None)
    status, _, err = fabtune("verify", "urng", "--simulator", "icarus")
    assert status == 2
    assert err == "fabtune: icarus is not installed: apt install iverilog\n"


MISTAKES = {
    "verify urng --simulator vcs": "choose one of verilator, icarus",
    "verify urng --seed 99999999999999999999999": "'--seed': 99999999999999999999999 is not in the range",
    "verify urng --power-up 4294967296": "'--power-up': 4294967296 is not in the range",
    "verify urng --words 0": "Invalid value for '--words'",
    "verify urng --waves /proc/none/w.vcd": "/proc/none/w.vcd cannot be written",
    "verify urng --waves w.txt": "w.txt: waveforms are FST or VCD, so the name ends in .fst or .vcd",
    "verify urng --force": "--force has no meaning with no --waves",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)


COMPONENTS = ("hw/primitives/rounding.py", "hw/zo/perturb.py")


def test_a_campaign_is_reported_and_continued(fabtune, fast_simulator, tmp_path):
    of_components = [word for file in COMPONENTS for word in ("--component", file)]
    line = ("mutate", "perturb", "--faults", 1, "--words", 40, "--simulator", fast_simulator, "--seconds", 20)
    line += tuple(of_components)
    status, out, err = fabtune(*line, "--json")
    told = json.loads(out)
    assert {name: one["faults"] for name, one in told["components"].items()} == dict.fromkeys(COMPONENTS, 1)
    assert told["faults"] == 2 == len(told["results"])
    assert status == (1 if told["survived"] or told["undecided"] else 0)
    assert {"description", "by", "seconds"} <= set(told["results"][0])
    assert (tmp_path / "build/mutation/perturb.jsonl").read_text().count("\n") == 3
    status, out, err = fabtune(*line)
    assert "score" in out
    assert err == ""
    counts = " | ".join(str(told[name]) for name in ("faults", "killed", "equivalent", "undecided", "survived"))
    status, out, _ = fabtune("mutate")
    assert status == 0
    campaign = json.loads((tmp_path / "build/mutation/perturb.jsonl").read_text().splitlines()[0])["campaign"]
    measured = " | ".join(f"`{campaign[f'version of the {what}'][:8]}`" for what in ("RTL", "bench"))
    assert "| survived | RTL | bench |\n" in out
    assert f"| `perturb` | {counts} | {measured} |\n| all | {counts} |  |  |\n" in out
    assert out.count("\n- `perturb`, ") == told["survived"] + told["undecided"]


def test_a_record_of_another_campaign_is_kept(fabtune, fast_simulator, tmp_path):
    (tmp_path / "mine.jsonl").write_text("mine\n")
    line = ("mutate", "perturb", "--simulator", fast_simulator, "-o", "mine.jsonl")
    status, _, err = fabtune(*line)
    assert status == 2
    assert "mine.jsonl is not the record of a campaign" in err
    assert (tmp_path / "mine.jsonl").read_text() == "mine\n"


def test_what_cannot_be_done_is_refused(fabtune):
    for line, told in (
        (("zotrain", "--words", "10"), "--words has no meaning with zotrain, a whole core"),
        (("gone",), "there is no block"),
        ((), "there is no record in build/mutation: run fabtune mutate BLOCK"),
        (("--faults", "7"), "--faults has no meaning with no BLOCK"),
        (("perturb", "--simulator", "gone"), "no simulator called"),
        (("perturb", "--faults", "0"), "--faults"),
        (("perturb", "--component", "hw/gone.py"), "choose from hw/"),
    ):
        status, out, err = fabtune("mutate", *line)
        assert (status, out) == (2, "")
        assert told in err
        assert err.count("\n") == 1
