"""Parsing of Yosys netlists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fabtune.boards.estimate.netlist import read_netlist


def lut(table: str, inputs: list[int | str], output: int, **attributes: str) -> dict[str, Any]:
    return {
        "type": "$lut",
        "parameters": {"LUT": table},
        "attributes": attributes,
        "port_directions": {"A": "input", "Y": "output"},
        "connections": {"A": inputs, "Y": [output]},
    }


def register(data: int, output: int, kind: str = "FDRE") -> dict[str, Any]:
    return {
        "type": kind,
        "parameters": {},
        "attributes": {},
        "port_directions": {"D": "input", "Q": "output"},
        "connections": {"D": [data], "Q": [output]},
    }


def test_luts_are_primitives_and_unread_cells_are_left_out(tmp_path: Path) -> None:
    cells = {
        "and": lut("1000", [2, 3], 10),
        "not": lut("01", [10], 11),
        "one_input": lut("10", [11], 12),
        "kept": lut("01", [4], 13, keep="1"),
        "on_a_kept_net": register(12, 14),
        "of_a_kept_kind": register(12, 15, "KEPT"),
        "last_of_a_chain": register(17, 18),
        "middle": lut("01", [16], 17),
        "first": register(12, 16),
    }
    nets = {
        "visible": {"bits": [10], "hide_name": 0, "attributes": {}},
        "held": {"bits": [14], "hide_name": 0, "attributes": {"keep": "1"}},
    }
    ports = {"out": {"direction": "output", "bits": [12]}, "in": {"direction": "input", "bits": [2, 3, 4]}}
    top = {"attributes": {}, "ports": ports, "cells": cells, "netnames": nets}
    file = tmp_path / "netlist.json"
    file.write_text(json.dumps({"modules": {"top": top, "KEPT": {"attributes": {"keep": "1"}}}}))

    found = {cell.name: cell for cell in read_netlist(file, "top").cells}

    assert found.keys() == cells.keys() - {"last_of_a_chain", "middle", "first"}
    assert [found[name].kind for name in ("and", "not", "one_input")] == ["LUT2", "INV", "LUT1"]
    assert found["and"].parameters == {"INIT": "1000"}
    assert found["and"].inputs == {"I0": (2,), "I1": (3,)}
    assert found["not"].inputs == {"I": (10,)}


@pytest.mark.parametrize(
    ("yosys", "primitive", "enable", "reset"),
    [
        ("$_SDFFE_PP0P_", "FDRE", "CE", "R"),
        ("$_SDFFE_NP1P_", "FDSE_1", "CE", "S"),
        ("$_DFFE_PP0P_", "FDCE", "CE", "CLR"),
        ("$_DFFE_NP1P_", "FDPE_1", "CE", "PRE"),
        ("$_DLATCH_NP0_", "LDCE", "G", "CLR"),
        ("$_DLATCH_PP1_", "LDPE", "G", "PRE"),
    ],
)
def test_registers_and_latches_of_yosys_are_primitives(
    tmp_path: Path, yosys: str, primitive: str, enable: str, reset: str
) -> None:
    one = {
        "type": yosys,
        "parameters": {},
        "attributes": {},
        "port_directions": {"D": "input", "E": "input", "R": "input", "Q": "output"},
        "connections": {"D": [2], "E": [3], "R": [4], "Q": [5]},
    }
    ports = {"out": {"direction": "output", "bits": [5]}}
    top = {"attributes": {}, "ports": ports, "cells": {"one": one}, "netnames": {}}
    file = tmp_path / "netlist.json"
    file.write_text(json.dumps({"modules": {"top": top}}))

    (found,) = read_netlist(file, "top").cells

    assert found.kind == primitive
    assert found.inputs == {"D": (2,), enable: (3,), reset: (4,)}
    assert found.outputs == {"Q": (5,)}
