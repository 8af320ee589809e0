"""Read Vivado's utilisation report and compare an estimate with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...golden.errors import UserError
from ..board import BOARDS, RESOURCES, Board

_ROWS = {
    "CLB LUTs": "lut",
    "Slice LUTs": "lut",
    "CLB Registers": "ff",
    "Slice Registers": "ff",
    "Block RAM Tile": "bram36",
    "URAM": "uram",
    "DSPs": "dsp",
}


@dataclass(frozen=True)
class Report:
    """Contents of a utilisation report.

    Parameters
    ----------
    resources : dict of str to float
        The amount of each of `RESOURCES`. Vivado lists only what a device has; ``uram`` is 0 where the report's device
        is that of a board without any, and left out where the device is not one of ours.
    board : Board or None
        The board with the report's device; None if there is no such.
    design : str or None
        Name of the top module; None where the report does not say it.
    """

    resources: dict[str, float]
    board: Board | None
    design: str | None


def read_report(path: Path) -> Report:
    """Read the file that ``report_utilization -file`` wrote; see `parse_report`.

    Raises
    ------
    UserError
        If there is no such file, and as `parse_report` does.
    """
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}: give the path of a report of Vivado's report_utilization")
    return parse_report(path.read_text(encoding="utf-8", errors="replace"))


def ratios(estimate: Mapping[str, float], vivado: Mapping[str, float]) -> dict[str, float | None]:
    """Divide the estimate of each resource that the report has by Vivado's figure; None where Vivado uses none."""
    return {name: estimate[name] / used if used else None for name, used in vivado.items()}


def parse_report(text: str) -> Report:
    """Parse the text of Vivado's ``report_utilization``, whole design.

    Raises
    ------
    UserError
        If there is no utilisation table, or a row is missing, contradicts another or is not a number.
    """
    found: dict[str, float] = {}
    used: int | None = None
    columns, tables = 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            used = used if line.startswith("+") else None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "Site Type" in cells:
            used = cells.index("Used") if "Used" in cells and cells[0] == "Site Type" else None
            columns, tables = len(cells), tables + (used is not None)
        elif used is not None and len(cells) == columns and (key := _ROWS.get(cells[0].rstrip("*"))):
            amount = _amount(cells[used], cells[0], number)
            if found.setdefault(key, amount) != amount:
                raise UserError(
                    f"line {number}: {cells[0]} is {amount:g} here and {found[key]:g} above: one report each"
                )
    if not tables:
        raise UserError("no table with the columns 'Site Type' and 'Used': give what report_utilization -file wrote")
    device = re.search(r"^\|\s*Device\s*:\s*(\S+)", text, re.MULTILINE)
    board = next((one for one in BOARDS.values() if device and device[1].startswith(one.device)), None)
    design = re.search(r"^\|\s*Design\s*:\s*(\S+)", text, re.MULTILINE)
    return Report(_complete(found, board), board, design[1] if design else None)


def _amount(text: str, row: str, number: int) -> float:
    try:
        amount = float(text.replace(",", ""))
    except ValueError:
        amount = -1
    if not 0 <= amount < float("inf"):
        raise UserError(f"line {number}: {row} uses {text!r}, which is not an amount: was the report edited?")
    return amount


def _complete(found: Mapping[str, float], known: Board | None) -> dict[str, float]:
    """Check that every resource that the device has is there."""
    result = {}
    for key in RESOURCES:
        if key in found:
            result[key] = found[key]
        elif known and not known.resources[key]:
            result[key] = 0.0
        elif known or key != "uram":
            names = " or ".join(repr(name) for name, kind in _ROWS.items() if kind == key)
            raise UserError(f"no row {names}: the report is not complete; run report_utilization without options")
    return result
