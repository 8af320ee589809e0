"""Read Vivado's utilisation report and compare an estimate with the report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...golden.errors import UserError
from ...golden.files import lines_of, read_text
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
_HIERARCHY = {
    "Total LUTs": ("lut", 1.0),
    "FFs": ("ff", 1.0),
    "RAMB36": ("bram36", 1.0),
    "RAMB18": ("bram36", 0.5),
    "URAM": ("uram", 1.0),
    "DSP Blocks": ("dsp", 1.0),
    "DSP48 Blocks": ("dsp", 1.0),
}
"""By column of ``report_utilization -hierarchical``: the resource, and how much of it one unit is."""
# excludes Virtex UltraScale, xcvu
_VERSAL = re.compile(r"x[aq]?[cq]?r?(v(?!u)|2v)")


@dataclass(frozen=True)
class Report:
    """Contents of a utilisation report.

    Parameters
    ----------
    resources : dict of str to float
        Amount of each of `RESOURCES`. Vivado lists only resources that the device has: a missing ``uram`` is 0 if the
        device is that of a known board without UltraRAM, and left out for an unknown device.
    board : Board or None
        Board that has the report's device, if known.
    design : str or None
        Name of the top module, if the report has it.
    """

    resources: dict[str, float]
    board: Board | None
    design: str | None


def read_report(path: Path) -> Report:
    """Read a file of ``report_utilization -file``; see `parse_report`.

    A `UserError` if the file does not exist, and as `parse_report` does.
    """
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}: give the path of a report of Vivado's report_utilization")
    text = read_text(path, errors="replace")
    try:
        return parse_report(text)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def ratios(estimate: Mapping[str, float], vivado: Mapping[str, float]) -> dict[str, float | None]:
    """Ratio of the estimate to Vivado's figure for each resource of the report; None if Vivado uses none."""
    return {name: estimate[name] / used if used else None for name, used in vivado.items()}


def parse_report(text: str) -> Report:
    """Parse Vivado's ``report_utilization``, of the whole design or by hierarchy; of a hierarchy the top row counts.

    Raises
    ------
    UserError
        If no utilisation table is found, a row is missing, contradicts another or is not a number, or the report is of
        a Versal device or of a pblock.
    """
    device = _said(text, "Device")
    if _VERSAL.match(device) or re.search(r"^\|\s*LOOKAHEAD8\s*\|", text, re.MULTILINE):
        named = f"{device}, a Versal device" if device else "a Versal device"
        raise UserError(
            f"the report is of {named}, whose slices and DSPs no estimate is for: give an UltraScale+ one's"
        )
    if "-pblocks" in _said(text, "Command", r".*"):
        raise UserError("the report is of pblocks: run report_utilization without -pblocks")
    tables = list(_tables(text))
    flat = [table for table in tables if table.head[0] == "Site Type" and "Used" in table.head]
    by_hierarchy = [table for table in tables if "Instance" in table.head and "Total LUTs" in table.head]
    if flat:
        amounts = _of_rows(flat)
    elif by_hierarchy:
        amounts = _of_hierarchy(by_hierarchy)
    else:
        raise UserError(
            "no table with the columns 'Site Type' and 'Used', and none by hierarchy: "
            "give what report_utilization -file wrote"
        )
    board = next((candidate for candidate in BOARDS.values() if device.startswith(candidate.device)), None)
    return Report(_complete(amounts, board, hierarchy=not flat), board, _said(text, "Design") or None)


@dataclass(frozen=True)
class _Table:
    """Table of a report: column names; for each row the line number and the cells with their spaces."""

    head: list[str]
    rows: list[tuple[int, list[str]]]


def _said(text: str, key: str, what: str = r"\S+") -> str:
    """Value of a key in a report's head; empty if missing."""
    match = re.search(rf"^\|\s*{key}\s*:\s*({what})", text, re.MULTILINE)
    return match[1] if match else ""


def _tables(text: str) -> Iterator[_Table]:
    """Tables of a report. A line without bars ends a table, except the rule of dashes below the heads."""
    table: _Table | None = None
    for number, line in enumerate(lines_of(text), 1):
        if line.startswith("|"):
            cells = line.rstrip().strip("|").split("|")
            names = [cell.strip() for cell in cells]
            if "Site Type" in names or "Instance" in names:
                if table:
                    yield table
                table = _Table(names, [])
            elif table and len(cells) == len(table.head):
                table.rows.append((number, cells))
        elif table and not line.startswith("+"):
            yield table
            table = None
    if table:
        yield table


def _of_rows(tables: list[_Table]) -> dict[str, float]:
    amounts: dict[str, float] = {}
    for table in tables:
        used = table.head.index("Used")
        for number, cells in table.rows:
            row = cells[0].strip()
            if not (key := _ROWS.get(row.rstrip("*"))):
                continue
            amount = _amount(cells[used].strip(), row, number)
            if amounts.setdefault(key, amount) != amount:
                raise UserError(f"line {number}: {row} is {amount:g} here and {amounts[key]:g} above: one report each")
    return amounts


def _of_hierarchy(tables: list[_Table]) -> dict[str, float]:
    """Amounts from a table with a column for each resource: those of the top row, which includes all other rows."""
    if len(tables) > 1:
        raise UserError("several tables by hierarchy: one report each")
    (table,) = tables
    column_index = table.head.index("Instance")
    depth = [len(cells[column_index]) - len(cells[column_index].lstrip()) for _, cells in table.rows]
    top = [row for row, deep in zip(table.rows, depth, strict=True) if deep == min(depth)]
    if len(top) != 1:
        names = ", ".join(cells[column_index].strip() for _, cells in top) or "none"
        raise UserError(f"{len(top)} instances at the top, {names}: run report_utilization -hierarchical of one")
    if ("RAMB36" in table.head) != ("RAMB18" in table.head):
        raise UserError("the table by hierarchy has one of the columns RAMB36 and RAMB18: was the report edited?")
    ((number, cells),) = top
    amounts: dict[str, float] = {}
    for column, text in zip(table.head, cells, strict=True):
        if column in _HIERARCHY:
            key, each = _HIERARCHY[column]
            # drop the percentages that -hierarchical_percentage adds
            amount = re.sub(r"\(\s*<?[\d.]+%\)$", "", text.strip())
            amounts[key] = amounts.get(key, 0.0) + each * _amount(amount, column, number)
    return amounts


def _amount(text: str, row: str, number: int) -> float:
    try:
        amount = float(text.replace(",", ""))
    except ValueError:
        amount = -1
    if not 0 <= amount < float("inf"):
        raise UserError(f"line {number}: {row} uses {text!r}, which is not an amount: was the report edited?")
    return amount


def _complete(amounts: Mapping[str, float], known: Board | None, hierarchy: bool) -> dict[str, float]:
    """Check that the report has every resource of the device."""
    result = {}
    for key in RESOURCES:
        if key in amounts:
            result[key] = amounts[key]
        elif known and not known.resources[key]:
            result[key] = 0.0
        elif known or key != "uram":
            named = {name: kind for name, (kind, _) in _HIERARCHY.items()} if hierarchy else _ROWS
            names = " or ".join(repr(name) for name, kind in named.items() if kind == key)
            what = "column" if hierarchy else "row"
            raise UserError(f"no {what} {names}: the report is not complete; run report_utilization without options")
    return result
