"""The demo and the paper's table, whole."""

import json

import pytest
from click.testing import CliRunner

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.golden.rng.grng import GrngSpec
from fabtune.hw.verilog import emit
from fabtune.scripts import demo
from fabtune.scripts.cli import main
from fabtune.scripts.demo import summary
from fabtune.scripts.tables import pezo
from fabtune.scripts.tables.options import Options


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_demo_from_end_to_end(tmp_path, monkeypatch, whole):
    if not whole:  # the synthesis of the core takes as long as everything else: here a generator's stands for it
        tree = emit(GrngSpec())
        monkeypatch.setattr(demo, "estimate_rtlil", lambda _, top: estimate_rtlil(tree.rtlil, tree.top))
    output = tmp_path / "demo"
    result = CliRunner().invoke(main, ["demo", "-o", str(output), "--json"])
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["accuracy_before"] < 0.6
    assert facts["accuracy_after"] > 0.85
    assert facts["instantft_accuracy_before"] < 0.6
    assert facts["instantft_accuracy_after"] > 0.9
    assert facts["bit_exact"]
    assert facts["instantft_bit_exact"]
    assert facts["instantft_batches_compared"] == 500
    assert set(facts["instantft_kv260"]) == {"lut", "ff", "bram36", "uram", "dsp"}
    assert facts["mismatches"] == 0
    assert facts["compared"] > 600_000
    page = (output / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 5
    assert page.count('class="ok"') == 4
    assert "NOT EQUAL" not in page
    for folder in ("pezo_pool", "pezo_otf8", "pezo_otf14", "tile", "instantft"):
        assert (output / folder / "synth_ooc.tcl").exists()

    lines = summary(facts).splitlines()
    assert len(lines) <= 8
    assert lines[-1].startswith(f"report: {output / 'report.html'}")
    assert f"{facts['instantft_cycles']:,} cycles" in "".join(lines)

    again = CliRunner().invoke(main, ["demo", "-o", str(output)])
    assert again.exit_code == 2
    assert "report.html exists" in again.stderr


def test_table_6_beside_the_papers_numbers():
    rows = {row["design"]: row for row in pezo.pezo_6(Options())["rows"]}
    trees = rows["MeZO, 1,024 trees"]
    assert trees["lut paper"] == 133_120
    assert trees["lut ratio"] == pytest.approx(1, abs=0.05)
    assert trees["ff ratio"] == pytest.approx(1, abs=0.05)
    for design, most in {"PeZO on the fly, 8 bit": (52, 268, 0), "PeZO pool": (12, 20, 2)}.items():
        row = rows[design]
        assert (row["lut measured"], row["ff measured"], row["bram36 measured"]) <= most
        assert row["lut measured"] <= most[0]
        assert row["ff measured"] <= most[1]
        assert row["bram36 measured"] <= most[2]
    assert trees["lut measured"] > 2000 * rows["PeZO on the fly, 8 bit"]["lut measured"]
