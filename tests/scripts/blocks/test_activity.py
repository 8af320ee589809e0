"""`fabtune activity`: files, figures, refusals."""

import json
from pathlib import Path

import pytest

from fabtune.sim.simulator import find

SMALL = ("--set", "network=1x4x4 flatten fc8 relu fc4", "--set", "lanes=16", "--set", "columns=2")

needs_verilator = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


@pytest.mark.slow  # tests/sim/compiled also checks job and toggles
@needs_verilator
def test_files_and_figures(fabtune):
    command = ("activity", "zotrain", *SMALL, "--steps", "2", "--batch", "3", "--mhz", "250", "-o", "out")
    status, out, err = fabtune(*command, "--alone", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["files"] == ["zotrain.saif", "power.tcl"]
    assert found["compared"] is None
    assert (found["steps"], found["batch"]) == (2, 3)
    assert found["registers"]["generator"]["toggles"] > 1000
    assert "simulate the job" in err
    # files have 4 ns per cycle, and the core's instance path
    saif = Path("out/zotrain.saif").read_text()
    duration = int(saif.split("(DURATION ")[1].split(")")[0])
    assert duration % 4000 == 0
    assert duration > 4000 * found["cycles"]
    assert "set instance {TOP/zotrain}" in Path("out/power.tcl").read_text()
    # a second run replaces no user file
    status, _, err = fabtune(*command, "--alone")
    assert status == 2
    assert "zotrain.saif" in err
    assert len(err.splitlines()) == 1
    status, out, _ = fabtune(*command, "--alone", "--force")
    assert status == 0
    assert "steps: 2 of 3 samples" in out
    assert "generator" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("urng",), "urng is no core"),
        (("zotrain", "--raw"), "in DRAM"),
        (("instantft", "--preset", "tiny", "--batch", "500"), "takes 1 to"),
        (("zotrain", "--mhz", "0"), "MHz"),
        (("zotrain", "--mhz", "210"), "210 MHz is no clock of this board"),
        (("zotrain", "--steps", "0"), "--steps"),
    ],
)
def test_refusals_come_before_the_work(fabtune, arguments, message):
    status, out, err = fabtune("activity", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "..." not in err
