"""The complete demo and the paper's table."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from fabtune import __version__
from fabtune.boards.estimate.estimate import estimate_emitted
from fabtune.boards.vivado.package import package
from fabtune.golden.cores.core import CoreSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.datasets.tasks import task_of
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset
from fabtune.golden.rng.grng import GrngSpec
from fabtune.golden.settings import build
from fabtune.golden.train.adapters.methods import adapter_defaults
from fabtune.golden.train.zo.integer import IntegerTuning
from fabtune.golden.train.zo.methods import zo_defaults
from fabtune.hw.verilog import emit
from fabtune.scripts.cli import main
from fabtune.scripts.demo import adapters, zeroth
from fabtune.scripts.demo import run as demo
from fabtune.scripts.demo.run import summary
from fabtune.scripts.demo.zeroth import CORE, core_for_digits, settings_for
from fabtune.scripts.tables import pezo
from fabtune.scripts.tables.options import Options
from fabtune.sim.compiled.comparison import observable


def with_monitor(spec):
    """Add the monitor's pins to a core."""
    return observable(spec) if isinstance(spec, CoreSpec) else spec


TUNE = adapters.tune_adapters


def tune_few(network, module, task, *more):
    """Fine-tune with adapters on the first samples of a task."""
    return TUNE(network, module, replace(task, tune=task.tune[:100]), *more)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_demo_from_end_to_end(tmp_path, monkeypatch, whole):
    command = ["demo", "-o", str(tmp_path / "demo"), "--date", "2026-11-26", "--json"]
    if not whole:
        # synthesis of a core would double the time: a generator's estimate replaces all others
        estimate = estimate_emitted(emit(GrngSpec()))
        monkeypatch.setattr(demo, "estimate_emitted", lambda _: estimate)
        monkeypatch.setattr(pezo, "estimate_spec", lambda _: estimate)
        # each core is generated once, with the pins of its simulation
        monkeypatch.setattr(demo, "emit", lambda core: emit(observable(core)))
        monkeypatch.setattr(demo, "package", lambda spec, name: package(with_monitor(spec), name))
        few = replace(zo_defaults("digits"), steps=150)
        monkeypatch.setattr(zeroth, "zo_defaults", lambda _: few)
        monkeypatch.setattr(zeroth, "STEPS_IN_RTL", 10)
        monkeypatch.setattr(zeroth, "WORDS", 100)
        two = replace(adapter_defaults("digits"), epochs=2)
        monkeypatch.setattr(adapters, "adapter_defaults", lambda _: two)
        monkeypatch.setattr(adapters, "tune_adapters", tune_few)
        command += ["--simulator", "icarus"]  # for generators only: no compilation
    output = tmp_path / "demo"
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["accuracy_undrifted"] > 0.95
    assert facts["accuracy_before"] < 0.5
    assert facts["zotrain_accuracy_after"] > (0.8 if whole else facts["zotrain_accuracy_in_rtl"])
    assert facts["instantft_accuracy_after"] > (0.9 if whole else facts["accuracy_before"])
    assert facts["bit_exact"]
    assert facts["zotrain_bit_exact"]
    assert facts["instantft_bit_exact"]
    assert facts["zotrain_mismatches"] == facts["instantft_mismatches"] == facts["pezo_mismatches"] == 0
    assert facts["zotrain_steps_compared"] == zeroth.STEPS_IN_RTL
    assert facts["instantft_batches_compared"] == (500 if whole else 10)
    assert facts["pezo_compared"] > (300_000 if whole else 25_000)
    for core in ("zotrain", "instantft"):
        assert set(facts[f"{core}_kv260"]) == {"lut", "ff", "bram36", "uram", "dsp"}
    assert (facts["date"], facts["seed"], facts["version"]) == ("2026-11-26", 0, __version__)
    assert facts["zotrain_accuracy_in_rtl"] > facts["accuracy_before"]
    assert facts["zotrain_cycles_per_step"] == round(facts["zotrain_cycles"] / zeroth.STEPS_IN_RTL)
    page = (output / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert page.count('class="ok"') == 4
    assert "NOT EQUAL" not in page
    assert "fabtune estimate zotrain --preset tiny" in page
    assert f"fabtune demo -o {output} --simulator" in page
    assert f"on 2026-11-26, seed 0; fabtune {__version__}, Python" in page
    for core in ("zotrain", "instantft"):
        assert f"<td>{facts[f'{core}_kv260']['lut']:,g} (" in page
    host, rtl = (
        page.index(f"<th>{name}") for name in ("time on this machine, ms", "time of the core at 187.5 MHz, ms")
    )
    assert host < rtl < page.index("<td>InstantFT")
    assert page.count('<div class="table"><table>') == page.count("<table>") == page.count("</table></div>")
    for folder in ("pezo_pool", "pezo_otf8", "pezo_otf14", "tile", "zotrain", "instantft"):
        assert (output / folder / "synth_ooc.tcl").exists()

    lines = summary(facts).splitlines()
    assert len(lines) <= 10
    assert lines[-1].startswith(f"report: {output / 'report.html'}")
    assert f"{facts['instantft_cycles']:,} cycles" in "".join(lines)
    assert f"{facts['zotrain_cycles_per_step']:,} cycles a step" in "".join(lines)

    again = CliRunner().invoke(main, ["demo", "-o", str(output)])
    assert again.exit_code == 2
    assert "report.html exists" in again.stderr


def test_the_zeroth_order_core_is_the_preset_that_the_report_names():
    assert core_for_digits(preset("digits"), task_of("digits", drift="camera")) == build(ZotrainSpec, [], CORE)


def test_the_first_steps_are_those_of_the_whole_run():
    task, network = task_of("digits", drift="camera"), preset("digits")
    module = module_of(network)
    runs = [
        IntegerTuning(network, module, task, settings_for(steps), lanes=16, columns=4).integers
        for steps in (zeroth.STEPS_IN_RTL, 2000)
    ]
    assert len({run.job.settings.shift for run in runs}) == 1
    assert len({run.job.position for run in runs}) == 1
    for one, other in zip(*(run.orders[: zeroth.STEPS_IN_RTL] for run in runs), strict=True):
        assert one.rate == other.rate
        assert np.array_equal(one.indices, other.indices)


@pytest.mark.slow
def test_table_6_beside_the_papers_numbers():
    rows = {row["design"]: row for row in pezo.pezo_6(Options())["rows"]}
    trees = rows["MeZO, 1,024 trees"]
    assert trees["lut paper"] == 133_120
    assert 0.65 <= trees["lut ratio"] <= 1, "the estimate regroups comparators more than Vivado does"
    assert trees["ff ratio"] == pytest.approx(1, abs=0.05)
    for design, most in {"PeZO on the fly, 8 bit": (52, 268, 0), "PeZO pool": (12, 20, 2)}.items():
        row = rows[design]
        assert (row["lut measured"], row["ff measured"], row["bram36 measured"]) <= most
        assert row["lut measured"] <= most[0]
        assert row["ff measured"] <= most[1]
        assert row["bram36 measured"] <= most[2]
    assert trees["lut measured"] > 2000 * rows["PeZO on the fly, 8 bit"]["lut measured"]
