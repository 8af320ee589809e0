"""Parser of Vivado's utilisation report."""

import re

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.vivado.utilisation import parse_report, ratios, read_report
from fabtune.golden.errors import UserError

ULTRASCALE = """\
Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
------------------------------------------------------
| Tool Version : Vivado v.2023.2 (lin64)
| Device       : xck26-sfvc784-2LV-c
| Design State : Synthesized
------------------------------------------------------

1. CLB Logic
------------

+----------------------------+------+-------+------------+-----------+-------+
|          Site Type         | Used | Fixed | Prohibited | Available | Util% |
+----------------------------+------+-------+------------+-----------+-------+
| CLB LUTs*                  | 1377 |     0 |          0 |    117120 |  1.18 |
|   LUT as Logic             | 1309 |     0 |          0 |    117120 |  1.12 |
|   LUT as Memory            |   68 |     0 |          0 |     57600 |  0.12 |
|     LUT as Shift Register  |   68 |     0 |            |           |       |
| CLB Registers              | 2041 |     0 |          0 |    234240 |  0.87 |
|   Register as Flip Flop    | 2041 |     0 |          0 |    234240 |  0.87 |
| CARRY8                     |   31 |     0 |          0 |     14640 |  0.21 |
+----------------------------+------+-------+------------+-----------+-------+
* Warning! The Final LUT count, after physical optimizations, is typically lower.

2. BLOCKRAM
-----------

+-------------------+------+-------+------------+-----------+-------+
|     Site Type     | Used | Fixed | Prohibited | Available | Util% |
+-------------------+------+-------+------------+-----------+-------+
| Block RAM Tile    | 42.5 |     0 |          0 |       144 | 29.51 |
|   RAMB36/FIFO*    |   42 |     0 |          0 |       144 | 29.17 |
|   RAMB18          |    1 |     0 |          0 |       288 |  0.35 |
| URAM              |    3 |     0 |          0 |        64 |  4.69 |
+-------------------+------+-------+------------+-----------+-------+

3. ARITHMETIC
-------------

+----------------+------+-------+------------+-----------+-------+
|    Site Type   | Used | Fixed | Prohibited | Available | Util% |
+----------------+------+-------+------------+-----------+-------+
| DSPs           |   24 |     0 |          0 |      1248 |  1.92 |
|   DSP48E2 only |   24 |       |            |           |       |
+----------------+------+-------+------------+-----------+-------+

8. Primitives
-------------

+----------+------+---------------------+
| Ref Name | Used | Functional Category |
+----------+------+---------------------+
| DSPs     |  999 |          Arithmetic |
+----------+------+---------------------+
"""
FOUND = {"lut": 1377, "ff": 2041, "bram36": 42.5, "uram": 3, "dsp": 24}


def without(row):
    """The report without one row."""
    return re.sub(rf"(?m)^\| {row} .*\n", "", ULTRASCALE)


def test_utilisation_report_is_read():
    assert parse_report(ULTRASCALE).resources == FOUND
    assert BOARDS["kv260"].lacks(parse_report(ULTRASCALE).resources) == ()


def test_columns_are_found_by_their_heads():
    # older Vivado has no column `Prohibited`; additional columns must not matter
    swapped = re.sub(r"(?m)^\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", r"|\1|\3|\2|\5|\6|", ULTRASCALE)
    assert "Prohibited" not in swapped
    assert parse_report(swapped).resources == FOUND


def test_seven_series_names():
    text = ULTRASCALE.replace("CLB LUTs", "Slice LUTs").replace("CLB Reg", "Slice Reg").replace("xck26", "xc7z020")
    assert parse_report(text).resources == FOUND


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (r"CLB LUTs\*", "CLB LUTs"),
        ("CLB Registers", "CLB Registers"),
        ("Block RAM Tile", "Block RAM Tile"),
        ("URAM", "URAM"),
        ("DSPs", "DSPs"),
    ],
)
def test_a_missing_row_is_an_error_not_zero(row, name):
    with pytest.raises(UserError, match=f"no row '{name}'"):
        parse_report(without(row))


def test_uram_of_devices_without_any():
    zcu102 = without("URAM").replace("xck26-sfvc784-2LV-c", "xczu9eg-ffvb1156-2-e")
    assert parse_report(zcu102).resources == FOUND | {"uram": 0}
    assert BOARDS["zcu102"].lacks(parse_report(zcu102).resources) == ()
    stranger = without("URAM").replace("xck26-sfvc784-2LV-c", "7z020clg484-1")
    assert "uram" not in parse_report(stranger).resources


@pytest.mark.parametrize("used", ["", "many", "-1", "nan", "inf"])
def test_an_amount_that_is_none_is_refused_with_its_line(used):
    with pytest.raises(UserError, match=rf"^line 14: CLB LUTs\* uses '{used}', which is not an amount"):
        parse_report(ULTRASCALE.replace("| 1377 |", f"| {used} |"))


def test_two_reports_in_one_are_refused():
    with pytest.raises(UserError, match="DSPs is 25 here and 24 above"):
        parse_report(ULTRASCALE + ULTRASCALE.replace("|   24 |     0 ", "|   25 |     0 "))


# a core within a design, from -hierarchical; submodules share LUTs, so their sum exceeds the total
HIERARCHY = """\
Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
| Command      : report_utilization -hierarchical -file hierarchy.rpt
| Design       : urng
| Device       : xck26-sfvc784-2LV-c

1. Utilization by Hierarchy
---------------------------

+--------------+-----------+------------+------------+---------+------+------+--------+--------+------+------------+
|   Instance   |   Module  | Total LUTs | Logic LUTs | LUTRAMs | SRLs |  FFs | RAMB36 | RAMB18 | URAM | DSP Blocks |
+--------------+-----------+------------+------------+---------+------+------+--------+--------+------+------------+
| urng         |     (top) |       1377 |       1309 |       0 |   68 | 2041 |     42 |      1 |    3 |         24 |
|   (urng)     |     (top) |         20 |         20 |       0 |    0 |   41 |      0 |      0 |    0 |          0 |
|   generators | urng_lfsr |       1380 |       1312 |       0 |   68 | 2000 |     42 |      1 |    3 |         24 |
|     rows     | urng_rows |        380 |        312 |       0 |   68 |  500 |     42 |      1 |    3 |         24 |
+--------------+-----------+------------+------------+---------+------+------+--------+--------+------+------------+
"""


def test_the_top_of_a_hierarchy_is_read():
    report = parse_report(HIERARCHY)
    assert report.resources == FOUND
    assert (report.board, report.design) == (BOARDS["kv260"], "urng")
    with_percent = re.sub(r" (\d+) \|(?=.*\n)", r" \1(<0.01%) |", HIERARCHY)
    assert "2041(<0.01%)" in with_percent
    assert parse_report(with_percent).resources == FOUND
    older = HIERARCHY.replace("DSP Blocks", "DSP48 Blocks").replace("(top)", "urng").replace("\n", "\r\n")
    assert parse_report(older).resources == FOUND
    # the table of the whole design has more
    assert parse_report(HIERARCHY.replace("1377", "1400") + ULTRASCALE).resources == FOUND


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("Total LUTs", "LUTs"), "and none by hierarchy"),
        (lambda text: text.replace("FFs", "Regs"), "no column 'FFs'"),
        (lambda text: text.replace("RAMB18", "BRAM18"), "one of the columns RAMB36 and RAMB18"),
        (lambda text: text.replace("|   generators", "| generators  "), "2 instances at the top, urng, generators"),
        (lambda text: re.sub(r"(?m)^\| .*\d \|\n", "", text), "0 instances at the top, none"),
        (lambda text: text.replace("2041", "many"), "line 12: FFs uses 'many', which is not an amount"),
        (lambda text: text + text, "several tables by hierarchy"),
        (lambda text: text.replace("xck26-sfvc784-2LV-c", "xcvc1902-vsva2197-2MP-e-S"), "xcvc1902.*, a Versal device"),
        (lambda text: text.replace("-hierarchical", "-pblocks [get_pblocks a]"), "the report is of pblocks"),
    ],
)
def test_a_hierarchy_that_says_something_else_is_refused(change, says):
    with pytest.raises(UserError, match=says):
        parse_report(change(HIERARCHY))


@pytest.mark.parametrize("device", ["xcvc1902-vsva2197-2MP-e-S", "xqrvc1902", "xcv80-lsva4737", "xc2ve3858", None])
def test_versal_is_the_reason(device):
    text = ULTRASCALE.replace("CLB Reg", "Reg").replace("CARRY8    ", "LOOKAHEAD8").replace("DSPs  ", "DSP58 ")
    text = text.replace("xck26-sfvc784-2LV-c", device) if device else re.sub(r"\| Device.*\n", "", text)
    with pytest.raises(UserError, match="a Versal device, whose slices and DSPs no estimate is for"):
        parse_report(text)


@pytest.mark.parametrize("device", ["xcvu9p-flga2104-2L-e", "xc7vx485tffg1761-2", "xczu9eg-ffvb1156-2-e"])
def test_devices_before_versal_are_none(device):
    assert parse_report(ULTRASCALE.replace("xck26-sfvc784-2LV-c", device)).resources == FOUND


@pytest.mark.parametrize("text", ["", "hello", ULTRASCALE[:300], ULTRASCALE.replace("Used", "Spent")])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(UserError, match="no table with the columns 'Site Type' and 'Used'"):
        parse_report(text)


def test_a_file_is_read(tmp_path):
    (tmp_path / "urng.rpt").write_text(ULTRASCALE)
    assert read_report(tmp_path / "urng.rpt").resources == FOUND
    (tmp_path / "urng.rpt").write_bytes(b"\xef\xbb\xbf" + ULTRASCALE.replace("\n", "\r\n").encode())
    assert read_report(tmp_path / "urng.rpt").resources == FOUND
    (tmp_path / "urng.rpt").write_text(ULTRASCALE, encoding="utf-16")
    with pytest.raises(UserError, match="is UTF-16 text"):
        read_report(tmp_path / "urng.rpt")
    (tmp_path / "urng.rpt").write_text(without("DSPs"))
    with pytest.raises(UserError, match=r"urng\.rpt: no row 'DSPs'"):
        read_report(tmp_path / "urng.rpt")
    with pytest.raises(UserError, match=r"no file '.*gone.rpt'"):
        read_report(tmp_path / "gone.rpt")


def test_ratios_to_an_estimate():
    estimate = {"lut": 50.0, "ff": 10.0, "bram36": 1.0, "uram": 0.0, "dsp": 3.0}
    assert ratios(estimate, {"lut": 40.0, "ff": 10.0, "bram36": 0.0}) == {"lut": 1.25, "ff": 1.0, "bram36": None}
