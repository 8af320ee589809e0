"""Read the CSV table of a logic analyser: columns by wire name, cells as integers."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from ...golden.errors import UserError

_BASES = {"HEX": 16, "UNSIGNED": 10, "SIGNED": 10, "BINARY": 2, "OCTAL": 8}
_DIGITS = {16: r"(?:0[xX])?([0-9a-fA-F][0-9a-fA-F_]*)", 10: r"(-?\d+)", 8: r"([0-7]+)", 2: r"([01]+)"}


class Table:
    """Rows of a CSV file; cells are converted when they are used.

    Parameters
    ----------
    path : Path
        Header row, perhaps a ``Radix`` row as Vivado's logic analyser writes it, then one row a sample. A
        header may have a path in front and a range of bits behind, as in ``design_1_i/core/o_number[247:0]``.

    Raises
    ------
    UserError
        If the file is empty, a row has more or fewer cells than the header, or a wire has two columns.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        rows = self._read()
        if not rows:
            raise UserError(f"{path}: is empty: export the capture with a header row")
        self._header = [cell.strip() for cell in rows[0][1]]
        names = [_wire(cell) for cell in self._header]
        self.columns = {name: index for index, name in enumerate(names)}
        self._twice = {name for name, count in Counter(names).items() if count > 1}
        self._radix = ["HEX"] * len(names)
        rows = rows[1:]
        for number, row in rows:
            if len(row) != len(names):
                raise UserError(f"{path}: line {number}: {len(row)} cells, the header has {len(names)}: is it cut off?")
        if rows and rows[0][1][0].strip().lower().startswith("radix"):
            self._radix = [cell.split("-")[-1].strip().upper() for cell in rows[0][1]]
            rows = rows[1:]
        if not rows:
            raise UserError(f"{path}: has a header but no samples: export the capture again")
        self._rows = rows

    @property
    def listed(self) -> str:
        """Headers of all columns, for a message."""
        return ", ".join(self._header)

    @property
    def samples(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def width(self, wire: str) -> int:
        """Bits of a wire by its header: 1 without a range."""
        return _range(self._header[self.columns[wire]]) or 1

    def rows_with(self, wires: list[str]) -> list[int]:
        """Indices of the rows in which all of these wires are 1."""
        chosen = list(range(len(self._rows)))
        for wire in wires:
            bits = self.integers(wire, 1, chosen)
            chosen = [row for row, bit in zip(chosen, bits, strict=True) if bit]
        return chosen

    def integers(self, wire: str, width: int, rows: list[int]) -> list[int]:
        """A column's bit patterns as integers from 0 up.

        Parameters
        ----------
        wire : str
            One of `columns`.
        width : int
            Bits of the wire.
        rows : list of int
            Indices of the rows.

        Raises
        ------
        UserError
            If the column has another width, two columns have this name, or a cell is no number of that width.
        """
        column = self.columns[wire]
        header, radix = self._header[column], self._radix[column]
        if wire in self._twice:
            twins = [cell for cell in self._header if _wire(cell) == wire]
            raise UserError(f"{self.path}: line 1: several columns for {wire}, {', '.join(twins)}: keep one")
        if (shown := _range(header)) is not None and shown != width:
            raise UserError(
                f"{self.path}: line 1: {header!r} has {shown} bits, {wire} has {width}: capture all of it, "
                "or give the parameters that the hardware was made with"
            )
        if radix not in _BASES:
            raise UserError(f"{self.path}: line 2: {wire} has the radix {radix!r}: set it to HEX and export again")
        return [self._integer(row, column, wire, width, radix) for row in rows]

    def _integer(self, row: int, column: int, wire: str, width: int, radix: str) -> int:
        number, cells = self._rows[row]
        text = cells[column].strip()
        where = f"{self.path}: line {number}: {wire} = {text!r}"
        base = _BASES[radix]
        # a number that fits has no more digits than bits; beyond 4,300 decimal ones int() gives up
        found = re.fullmatch(_DIGITS[base], text, re.ASCII) if len(text) <= min(width + 8, 4000) or base != 10 else None
        if not found:
            if re.fullmatch(r"(?:0[xXbB])?[\da-fA-F_]*[xXzZ?uU][\da-fA-F_xXzZ?uU]*", text):
                raise UserError(f"{where} is not known or not driven: capture after reset, and only valid words")
            hint = "" if base == 16 else ", or set the column's radix to HEX"
            raise UserError(f"{where} is not a number of base {base} for {width} bits: export the capture again{hint}")
        value = int(found[1].replace("_", ""), base)
        signed = radix == "SIGNED" and width > 1
        low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        if not low <= value < high:
            raise UserError(f"{where} does not fit into {width} bits as {radix}: is the capture of another block?")
        return value & ((1 << width) - 1)

    def _read(self) -> list[tuple[int, list[str]]]:
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file)
                return [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
        except (csv.Error, UnicodeDecodeError) as problem:
            raise UserError(f"{self.path}: is not text with commas ({problem}): export the capture as CSV") from None


def _wire(header: str) -> str:
    """Strip path and range from a header."""
    return re.split(r"[/.]", re.sub(r"\s*\[[^\]]*\]$", "", header))[-1]


def _range(header: str) -> int | None:
    """Number of bits in a header's range, None where it has none."""
    found = re.search(r"\[(\d+):(\d+)\]$", header)
    return abs(int(found[1]) - int(found[2])) + 1 if found else None
