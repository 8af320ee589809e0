"""`fabtune utilisation`: Vivado's report beside the estimate."""

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


MISTAKES = {
    "utilisation": "Missing argument 'REPORT'",
    "utilisation urng.rpt": "Missing argument 'BLOCK'",
    "utilisation gone.rpt urng": "no file 'gone.rpt'",
    "utilisation urng.rpt nosuch": "there is no block 'nosuch'",
    "utilisation . urng": "no file '.'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
