"""`fabtune roofline`: figures and refusals."""

import json

import pytest

from fabtune.sim.simulator import find

from ...small_cores import NETWORK, options

# shares the build of tests/sim/cores/instantft/test_job.py
SMALL = options({"network": NETWORK, "lanes": 16, "batch": 4, "cache_entries": 64})

needs_verilator = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


@needs_verilator
def test_figures_and_a_table(fabtune):
    command = ("roofline", "instantft", *SMALL, "--samples", "8")
    status, out, err = fabtune(*command, "--json")
    found = json.loads(out)
    assert (status, found["batches_compared"], found["mismatches"]) == (0, 10, 0)
    new, known = found["samples"]["new"], found["samples"]["in the cache"]
    assert new["cycles"] > known["cycles"] > 0
    assert known["parts"]["words"] == 0 < new["parts"]["words"]
    assert "simulate the jobs" in err
    status, out, _ = fabtune(*command, "--duty", "0.1")
    assert status == 0
    lines = {line.split("│")[1].strip(): line.split("│")[2:4] for line in out.splitlines() if line.startswith("│")}
    assert [one.strip() for one in lines["words of the frozen network"]] == [f"{new['parts']['words']:.1f}", "0.0"]
    assert lines["limit"][1].strip() == "port 0"
    assert "10 batches compared with the integers, 0 mismatches" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("urng",), "urng is no core"),
        (("zotrain",), "zotrain does not show which of its parts are at work, but instantft"),
        (("instantft", "--preset", "chip", "--raw"), "the cache of this core is chip"),
        (("instantft", "--preset", "chip", "--samples", "1025"), "takes 1 to 1024"),
        (("instantft", "--duty", "0"), "--duty"),
    ],
)
def test_refusals_come_before_the_work(fabtune, arguments, message):
    status, out, err = fabtune("roofline", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "..." not in err
