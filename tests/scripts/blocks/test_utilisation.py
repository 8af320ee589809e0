"""`fabtune utilisation`: Vivado's report next to the estimate."""

import json

import pytest

REPORT = """\
| Device       : xck26-sfvc784-2LV-c
+-----------------+------+-------+
|    Site Type    | Used | Fixed |
+-----------------+------+-------+
| CLB LUTs*       |   32 |     0 |
| CLB Registers   |  249 |     0 |
| Block RAM Tile  |    0 |     0 |
| URAM            |    0 |     0 |
| DSPs            |    0 |     0 |
+-----------------+------+-------+
"""


@pytest.fixture(autouse=True)
def _report(fabtune, tmp_path):
    (tmp_path / "urng.rpt").write_text(REPORT)


def test_report_and_estimate_side_by_side(fabtune):
    status, out, _ = fabtune("utilisation", "urng.rpt", "urng", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["vivado"] == {"lut": 32, "ff": 249, "bram36": 0, "uram": 0, "dsp": 0}
    estimate = json.loads(fabtune("estimate", "urng", "--json")[1])["resources"]
    assert found["estimate"] == estimate
    assert found["ratio"] == {"lut": estimate["lut"] / 32, "ff": 1, "bram36": None, "uram": None, "dsp": None}
    status, out, _ = fabtune("utilisation", "urng.rpt", "urng")
    assert status == 0
    assert "1.000" in out


@pytest.mark.parametrize(
    ("device", "named", "board"),
    [
        ("xck26-sfvc784-2LV-c", (), "kv260"),
        ("xczu9eg-ffvb1156-2-e", (), "zcu102"),
        ("xczu7ev-ffvc1156-2-e", (), "zcu102"),
        ("xczu7ev-ffvc1156-2-e", ("--board", "kv260"), "kv260"),
    ],
)
def test_the_estimate_is_for_the_device_of_the_report(fabtune, tmp_path, device, named, board):
    (tmp_path / "urng.rpt").write_text(REPORT.replace("xck26-sfvc784-2LV-c", device))
    assert json.loads(fabtune("utilisation", "urng.rpt", "urng", *named, "--json")[1])["board"] == board


def test_a_report_of_another_design_is_noted(fabtune, tmp_path):
    for design in ("urng", "urng_otf8", "mine"):
        (tmp_path / "urng.rpt").write_text(f"| Design       : {design}\n{REPORT}")
        status, out, err = fabtune("utilisation", "urng.rpt", "urng", "--json")
        assert (status, json.loads(out)["design"]) == (0, design)
        noted = "" if design == "urng" else f"fabtune: note: urng.rpt is of the design {design}, not of urng\n"
        assert err == noted


MISTAKES = {
    "utilisation": "Missing argument 'REPORT'",
    "utilisation urng.rpt": "Missing argument 'BLOCK'",
    "utilisation gone.rpt urng": "no file 'gone.rpt'",
    "utilisation urng.rpt nosuch": "there is no block 'nosuch'",
    "utilisation . urng": "no file '.'",
    "utilisation urng.rpt urng --board zcu102": "urng.rpt is of the kv260's device, not of the zcu102's",
    "utilisation urng.rpt urng --board zedboard": "no board called 'zedboard'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
