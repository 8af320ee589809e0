"""`fabtune table`: the papers' tables, from a user's view."""

import json
import operator
import time

import pytest

from fabtune.boards.estimate.estimate import Estimate
from fabtune.boards.estimate.paths import TimingPath
from fabtune.golden.errors import UserError
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.scripts.tables import table_of
from fabtune.scripts.tables.options import Options
from fabtune.scripts.tables.trials import kept_trials, run_trials
from fabtune.scripts.tables.zeroth import Way, _trial
from fabtune.sim.cores.zotrain.measured_jobs import StepCycles


def short(model, steps):
    """Options of a short table of text: one task, one seed, few steps."""
    return (
        *["--task", "sst-2", "--seeds", "1", "--processes", "1", "--data-dir", "data"],
        "--model",
        model,
        "--steps",
        steps,
    )


@pytest.mark.parametrize(
    ("table", "column", "count"),
    [
        pytest.param("pezo-3", "perturbation", 6, marks=pytest.mark.slow),
        *[("pezo-4", "method", 3), ("sparse-1", "tuned", 5), ("pezo-fig4", "generator", 10)],
    ],
)
def test_tables_of_text(fabtune, sentences, tmp_path, tiny_transformer, table, column, count):
    status, out, _ = fabtune("table", table, *short(tiny_transformer, 3), "--plot", "curves.svg", "--json")
    assert status == 0
    result = json.loads(out)
    assert len({row[column] for row in result["rows"]}) == len(result["rows"]) == count
    assert all(0 <= row["after"] <= 100 for row in result["rows"])
    assert (tmp_path / "curves.svg").stat().st_size > 1000
    if table == "sparse-1":
        assert any("13.47" in note and "13.5" in note for note in result["notes"])


def test_a_rate_is_that_of_all_weights(fabtune, sentences, tiny_transformer):
    status, out, _ = fabtune("table", "sparse-1", *short(tiny_transformer, 9), "--rate", "1e30", "--json")
    assert status == 0
    assert [row["collapsed"] for row in json.loads(out)["rows"]] == [1, 0, 0, 0, 0]


@pytest.mark.slow
def test_trials_side_by_side_are_those_one_after_the_other():
    arguments = {("a", 1): (17, 5), ("a", 2): (23, 7), ("b", 1): (31, 3)}
    lines = []
    for processes in (1, 2):
        options = Options(processes=processes, progress=lines.append)
        found = run_trials(divmod, arguments, options)
        assert list(found.items()) == [(key, divmod(*numbers)) for key, numbers in arguments.items()]
    assert [line.partition(",")[0] for line in lines] == 2 * [f"{done} of 3 trials" for done in range(4)]


def test_trials_that_are_done_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers").write_text("17 5")
    arguments = {at: (tmp_path / "data", at) for at in range(4)}
    with monkeypatch.context() as patch:
        patch.setitem(arguments, 2, (tmp_path / "gone", 2))
        with pytest.raises(FileNotFoundError) as caught:
            kept_trials(numbers_of, arguments, Options(processes=1))
    assert caught.value.__notes__ == ["2 of 4 trials, which are kept: the same command goes on"]
    lines = []
    found = kept_trials(numbers_of, arguments, Options(processes=1, progress=lines.append), "sums")
    assert found == {0: [17, 5, 0], 1: [17, 5, 1], 2: [17, 5, 2], 3: [17, 5, 3]}
    assert lines == ["0 of 2 sums", "1 of 2 sums", "2 of 2 sums"]
    entry = next((tmp_path / "cache" / "trials").iterdir())
    entry.write_bytes(entry.read_bytes()[:-3])
    (tmp_path / "data" / "numbers").write_text("23 7 1")
    assert kept_trials(numbers_of, arguments, Options(processes=1))[3] == [23, 7, 1, 3]


def numbers_of(folder, at):
    """Numbers in a file, and one more."""
    return [*map(int, (folder / "numbers").read_text().split()), at]


def test_a_trial_that_collapses_is_told_from_one_that_cannot_start(sentences, tmp_path, tiny_transformer):
    trial = {"task": "sst-2", "shots": 16, "seed": 0, "steps": 50, "data_dir": tmp_path / "data"}
    outcome = _trial(way=Way("mezo"), rate=1e30, folder=tiny_transformer, **trial)
    assert outcome.collapsed
    assert 0 <= outcome.after <= 1
    (tmp_path / "data" / "text" / "tinyshakespeare" / "input.txt").unlink()
    with pytest.raises(UserError, match=r"the generic text .* is missing"):
        _trial(way=Way("sparse-zo"), rate=1e-3, folder=tiny_transformer, **trial)


def test_table_1_of_instantft_is_as_printed():
    rows = table_of("instantft-1")(Options())["rows"]
    assert len(rows) == 12
    for row in rows:
        for what in ("parameters", "forward M", "backward M", "KB"):
            assert row[what] == row[f"{what} paper"], row


def test_skip2_takes_less_time_than_lora_all(monkeypatch):
    from fabtune.scripts.tables import skip2

    monkeypatch.setattr(skip2, "_ROUNDS", 1)
    monkeypatch.setattr(skip2, "_EPOCHS", 2)
    rows = table_of("skip2-6")(Options())["rows"]
    assert [row["method"] for row in rows[:8]] == [row["method"] for row in rows[8:]]
    assert all(row["ms here"] > 0 for row in rows)
    counted = {row["method"]: row["operations, % of LoRA-All"] for row in rows[:8]}
    assert counted["LoRA-All"] == 100
    assert counted["Skip2-LoRA"] < 10


@pytest.mark.slow
def test_cores_with_pezo_and_gaussian_generators(monkeypatch, tmp_path):
    from fabtune.scripts.cores.zotrain import pezo_core

    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path))  # replaced estimates must not enter the shared cache
    simulated, lines, told = [], [], []

    def estimate(spec):
        whole = {"lut": 2000, "ff": 1000, "bram36": 7.5, "uram": 0, "dsp": 3}
        share = {"lut": spec.width, "ff": spec.state_bits} if hasattr(spec, "width") else {}
        return Estimate(whole | share, {}, 1, 1, TimingPath(1.0, "a", "b", {}), 0, [])

    def cycles(spec, batch):
        simulated.append(spec)
        return StepCycles(1000 + spec.source.replay_cycles, 0)

    monkeypatch.setattr(pezo_core, "estimate_spec", estimate)
    monkeypatch.setattr(pezo_core, "step_cycles", cycles)
    options = Options(preset="tiny", seeds=2, steps=3, processes=1, progress=lines.append, announce=told.append)
    result = table_of("pezo-core")(options)
    assert told == ["6 cores to estimate and 4 to simulate, some minutes each; each is kept"]
    rows = {row.pop("core"): row for row in result["rows"]}
    assert [row["generator lut"] for row in rows.values()] == [31, 31, 32, 64, 64, 64]
    assert rows["Gaussian, tree"]["generator ff"] == 64 * 68
    assert rows["Gaussian, tree"]["generator % of lut"] == 3.2
    assert [row["cycles a step"] for row in rows.values()] == [1256, 1448, 1000, 1544, 1544, 1544]
    assert [spec.gaussian for spec in simulated] == ["none", "none", "none", "sum"]
    assert rows["Gaussian, tree"]["after"] == rows["Gaussian, select"]["after"] != rows["Gaussian, sum"]["after"]
    assert len({row["before"] for row in rows.values()}) == 1
    assert any("2 seeds" in note and "3 steps" in note for note in result["notes"])
    assert result["title"].endswith("digits, tiny")
    assert {"0 of 6 cores estimated", "4 of 4 cores simulated", "10 of 10 trials"} < set(lines)
    assert "before" not in table_of("pezo-core")(Options())["rows"][0]


def test_a_plot_that_is_there_is_kept(fabtune, tmp_path):
    (tmp_path / "a.png").write_text("precious")
    status, _, err = fabtune("table", "pezo-4", "--plot", "a.png")
    assert status == 2
    assert "a.png exists" in err
    assert (tmp_path / "a.png").read_text() == "precious"


def test_a_trial_that_fails_ends_the_others():
    """Pending trials are not started, running trials are not waited for."""
    sleep = (time.sleep, 1e6)
    arguments = {0: sleep, 1: (build, PezoSpec, ["nope=1"]), **dict.fromkeys(range(2, 9), sleep)}
    with pytest.raises(UserError, match="nope"):
        run_trials(operator.call, arguments, Options(processes=2))


MISTAKES = {
    "table nope": "there is no table 'nope'; there are: pezo-3, pezo-4, pezo-6",
    "table instantft-7a": "--data-dir",
    "table skip2-4": "--data-dir",
    "table pezo-4": "--data-dir",
    "table pezo-4 --data-dir gone": "is missing",
    "table pezo-4 --data-dir data --task poems": "no text task 'poems'",
    "table pezo-4 --rate 0": "0.0 is not in the range x>0",
    "table pezo-6 --plot curve.gif": ".png, .svg, .pdf",
    "table pezo-4 --force": "--force has no meaning with no --plot",
    "table pezo-6 --plot curve.png": "--plot has no meaning with table pezo-6",
    "table pezo-6 --seeds 3": "--seeds has no meaning with table pezo-6",
    "table pezo-6 --preset small": "--preset has no meaning with table pezo-6",
    "table pezo-core --preset huge": "zotrain has no preset 'huge'; it has: tiny, small, fast",
    "table fedspzo --seeds 1000000000": "'--seeds': 1000000000 is not in the range 1<=x<=1000",
    "table fedspzo --processes 0": "'--processes': 0 is not in the range 1<=x<=1000",
    "table fedspzo --shots 3": "--shots has no meaning with table fedspzo",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, sentences, mistake):
    assert MISTAKES[mistake] in refused(mistake)


def test_software_beside_the_cores(monkeypatch):
    from fabtune.scripts.demo import software

    lenet = software.Measured("a", "b tiny", 500, 0.1, 0.2, 500, 750_000, 6.0)
    part = software.Measured("c", "d tiny", 2000, 1.0, 2.0, 200, 1_500_000)
    monkeypatch.setattr(software, "_adapters", lambda *_: lenet)
    monkeypatch.setattr(software, "_zeroth_order", lambda *_: part)
    monkeypatch.setattr(software, "clock_mhz", lambda: 2666.0)
    monkeypatch.setattr(software.torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    first, second = table_of("software")(Options())["rows"]
    assert (first["A53 by clock"], first["A53 by clock and vectors"], first["four A53, paper"]) == (200, 400, 6000)
    # 187.5 MHz: 750,000 cycles are 4 ms; 200 of 2,000 steps in 8 ms are a job of 80
    assert (first["core, ms"], second["core, ms"]) == (4.0, 80.0)
    assert (first["core is faster"], second["core is faster"]) == ("50 to 100 times", "25 to 50 times")


def test_a_processor_that_does_not_say_its_clock_is_refused(monkeypatch, tmp_path):
    from fabtune.scripts.demo import software

    for text in ("", "processor\t: 0\nBogoMIPS\t: 48.00\n"):
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(software, "CPUINFO", tmp_path / "cpuinfo")
        with pytest.raises(UserError, match="does not say the clock"):
            table_of("software")(Options())
    (tmp_path / "cpuinfo").write_text("cpu MHz\t\t: 2596.140\n")
    assert software.clock_mhz() == 2596.14


@pytest.mark.slow
def test_software_and_cores_are_measured():
    rows = table_of("software")(Options())["rows"]
    assert [row["updates"] for row in rows] == [500, 2000]
    # docs/blocks/cores: 1,537 cycles a batch and 9,052 a step, plus start and end of a job
    assert [round(row["core, ms"] * 187_500 / row["updates"], -2) for row in rows] == [1500, 9100]
