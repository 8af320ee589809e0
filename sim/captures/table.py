"""CSV table of a logic analyser: columns by wire name, cells as integers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...golden.errors import UserError
from ...golden.files import csv_rows, read_text

_BASES = {"HEX": 16, "UNSIGNED": 10, "SIGNED": 10, "BINARY": 2, "OCTAL": 8}
RADICES = tuple(_BASES)
"""Numeric radices of Vivado's logic analyser."""
_DIGITS = {16: r"(?:0[xX])?([0-9a-fA-F][0-9a-fA-F_]*)", 10: r"(-?\d+)", 8: r"([0-7]+)", 2: r"([01]+)"}
_DIGIT_BITS = {"HEX": 4, "OCTAL": 3, "BINARY": 1}
_MARKS = ["Sample in Buffer", "Sample in Window", "TRIGGER"]
"""First columns of every Vivado export; ``GAP`` may follow."""
_ALL = ""
"""Key of the default radix."""


def radices_of(arguments: Iterable[str]) -> dict[str, str]:
    """Radices by wire from command-line arguments ``RADIX`` or ``WIRE=RADIX``.

    Raises
    ------
    UserError
        If a radix is not in `RADICES`, or occurs twice.
    """
    radices: dict[str, str] = {}
    for text in arguments:
        wire, equals, radix = text.rpartition("=")
        if radix.upper() not in RADICES or bool(wire) != bool(equals):
            known = ", ".join(RADICES).lower()
            raise UserError(f"--radix {text}: give RADIX or WIRE=RADIX, the radix one of {known}")
        if wire in radices:
            raise UserError(f"--radix is given twice for {wire or 'all wires'}: {radices[wire].lower()} and {text}")
        radices[wire] = radix.upper()
    return radices


class Table:
    """Rows of a CSV file, converted on access.

    Parameters
    ----------
    path : Path
        CSV with a header row, an optional ``Radix`` row (Vivado's logic analyser since 2019.2), then a row per sample.
        A header may have a path prefix and a bit range, as in ``design_1_i/core/o_number[247:0]``. A row with 1 under
        ``GAP`` is no sample.
    radices : mapping of str to str, optional
        For a file without ``Radix`` row: radices by wire, or by "" for all wires. A column with unambiguous cells needs
        none.

    Raises
    ------
    UserError
        If the file is empty, a row has more or fewer cells than the header, the export has several windows, or radices
        are passed in addition to a ``Radix`` row.
    """

    def __init__(self, path: Path, radices: Mapping[str, str] | None = None) -> None:
        self.path = path
        rows = self._read()
        if not rows:
            raise UserError(f"{path}: is empty: export the capture with a header row")
        (self._line, header), *rows = rows
        self._header = [cell.strip() for cell in header]
        names = [_wire(cell) for cell in self._header]
        self.columns = {name: index for index, name in enumerate(names)}
        self._twice = {name for name, count in Counter(names).items() if count > 1}
        self._export = self._header[: len(_MARKS)] == _MARKS
        gap = len(_MARKS) if self._export and names[len(_MARKS) :][:1] == ["GAP"] else None
        self._radix: list[str] | None = None
        if rows and rows[0][1][0].strip().lower().startswith("radix"):
            self._radix_line, cells = rows.pop(0)
            self._radix = self._whole([cell.split("-")[-1].strip().upper() for cell in cells], gap)
        self._given = dict(radices or {})
        self._check_given()
        for number, row in rows:
            if len(row) != len(names):
                raise UserError(f"{path}: line {number}: {len(row)} cells, the header has {len(names)}: is it cut off?")
        if self._export:
            self._check_windows(rows)
        if gap is not None:
            rows = [entry for entry in rows if self._has_sample(*entry, gap)]
        if not rows:
            raise UserError(f"{path}: has a header but no samples: export the capture again")
        self._rows = rows

    @property
    def listed(self) -> str:
        """All headers, for messages."""
        return ", ".join(self._header)

    @property
    def samples(self) -> int:
        return len(self._rows)

    def where(self, line: int | None = None) -> str:
        """File and line for messages, by default the header's line."""
        return f"{self.path}: line {self._line if line is None else line}"

    def width(self, wire: str) -> int:
        """Bits of a wire according to its header: 1 without a range."""
        bits = _bits(self._header[self.columns[wire]])
        return bits[1] if bits else 1

    def rows_with(self, wires: list[str]) -> list[int]:
        """Indices of the rows with 1 on all of these wires."""
        chosen = list(range(len(self._rows)))
        for wire in wires:
            bits = self.integers(wire, 1, chosen)
            chosen = [row for row, bit in zip(chosen, bits, strict=True) if bit]
        return chosen

    def integers(self, wire: str, width: int, rows: list[int]) -> list[int]:
        """Bit patterns of a column, a key of `columns`, as unsigned integers of `width` bits, at row indices `rows`.

        Raises
        ------
        UserError
            If the column has another width or lacks bits, its name is ambiguous, its radix is missing or unknown, or a
            cell is not a number of this width.
        """
        column = self.columns[wire]
        header = self._header[column]
        if wire in self._twice:
            twins = [cell for cell in self._header if _wire(cell) == wire]
            raise UserError(
                f"{self.where()}: several columns for {wire}, {', '.join(twins)}: keep one, of all its bits"
            )
        low, shown = _bits(header) or (0, 1 if self._export else width)
        if shown != width or low:
            first = f" from bit {low} on" if low else ""
            raise UserError(
                f"{self.where()}: {header!r} has {shown} bit{'s'[: shown > 1]}{first}, {wire} has {width}: capture all "
                "of it, or give the parameters that the hardware was made with"
            )
        radix = self._radix[column] if self._radix else self._given.get(wire) or self._given.get(_ALL)
        radix = radix or self._possible(wire, width)
        if radix not in _BASES:
            raise UserError(
                f"{self.where(self._radix_line)}: {wire} has the radix {radix!r}: set it to HEX and export again"
            )
        return [self._integer(row, column, wire, width, radix) for row in rows]

    def _possible(self, wire: str, width: int) -> str:
        """Radix in which all cells of a column are readable: the only such radix, or any if all give equal numbers."""
        texts = {cells[self.columns[wire]].strip() for _, cells in self._rows}
        values = {
            radix: {text: _value(text, width, radix) for text in texts if _written(text, width, radix, self._export)}
            for radix in RADICES
        }
        readable = {text for readings in values.values() for text in readings}
        possible = [radix for radix, readings in values.items() if readings.keys() == readable]
        if not readable:
            return "HEX"  # every cell is then rejected
        if not possible:
            raise UserError(
                f"{self.where()}: no radix fits all cells of {wire}, which has no row of radices: export it as HEX"
            )
        if any(values[radix] != values[possible[0]] for radix in possible):
            raise UserError(
                f"{self.where()}: {wire} may be {' or '.join(possible)}, and there is no row of radices: "
                f"say which, as in --radix {wire}={possible[0].lower()}"
            )
        return possible[0]

    def _integer(self, row: int, column: int, wire: str, width: int, radix: str) -> int:
        number, cells = self._rows[row]
        text = cells[column].strip()
        value = _value(text, width, radix)
        if value is not None:
            return value & ((1 << width) - 1)
        where = f"{self.where(number)}: {wire} = {text[:80]!r}"
        if re.fullmatch(r"(?:0[xXbB])?[\da-fA-F_]*[xXzZ?uU][\da-fA-F_xXzZ?uU]*", text):
            raise UserError(f"{where} is not known or not driven: capture after reset, and only valid words")
        if _matched(text, width, radix):
            raise UserError(f"{where} does not fit into {width} bits as {radix}: is the capture of another block?")
        hint = "" if radix == "HEX" else ", or set the column's radix to HEX"
        raise UserError(f"{where} is not a number of base {_BASES[radix]} for {width} bits: export it again{hint}")

    def _read(self) -> list[tuple[int, list[str]]]:
        text = read_text(self.path)
        try:
            return [(line, row) for line, row in csv_rows(text) if any(cell.strip() for cell in row)]
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from None

    def _whole(self, radices: list[str], gap: int | None) -> list[str]:
        """Radix row extended to the header's length: chipscopy omits ``GAP``."""
        if gap is not None and len(radices) == len(self._header) - 1 and len(set(radices[gap:])) == 1:
            radices = [*radices[:gap], "UNSIGNED", *radices[gap:]]
        if len(radices) != len(self._header):
            raise UserError(
                f"{self.where(self._radix_line)}: {len(radices)} radices for {len(self._header)} columns: "
                "export the capture again"
            )
        return radices

    def _check_given(self) -> None:
        if self._given and self._radix:
            raise UserError(f"{self.where(self._radix_line)} has a row of radices: leave --radix out")
        if unknown := [wire for wire in self._given if wire != _ALL and wire not in self.columns]:
            raise UserError(f"--radix: {self.path} has no column for {unknown[0]}; the columns are {self.listed}")

    def _check_windows(self, rows: list[tuple[int, list[str]]]) -> None:
        """Refuse an export of several windows: words between them are lost. Windows of one sample are accepted."""
        last, largest = -1, 0
        for line, cells in rows:
            number = _value(cells[1].strip(), 32, "UNSIGNED")
            if number is None:
                raise UserError(f"{self.where(line)}: Sample in Window is {cells[1][:80]!r}: export the capture again")
            largest = max(largest, number)
            if largest and number <= last:
                raise UserError(
                    f"{self.where(line)}: another window of the analyser begins: words between windows are not in the "
                    "file, export one window, or keep its rows"
                )
            last = number

    def _has_sample(self, line: int, cells: list[str], gap: int) -> bool:
        text = cells[gap].strip()
        if text not in ("0", "1"):
            raise UserError(f"{self.where(line)}: GAP is {text[:80]!r}, neither 0 nor 1: export the capture again")
        return text == "0"


def _matched(text: str, width: int, radix: str) -> str | None:
    """Digits of a number, or None."""
    base = _BASES[radix]
    # a number has at most as many digits as bits; int() raises beyond 4,300 decimal digits
    if base == 10 and len(text) > min(width + 8, 4000):
        return None
    match = re.fullmatch(_DIGITS[base], text, re.ASCII)
    return match[1].replace("_", "") if match else None


def _value(text: str, width: int, radix: str) -> int | None:
    """Number in a cell, None unless valid for this width."""
    digits = _matched(text, width, radix)
    if digits is None:
        return None
    value = int(digits, _BASES[radix])
    signed = radix == "SIGNED" and width > 1
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
    return value if low <= value < high else None


def _written(text: str, width: int, radix: str, padded: bool) -> bool:
    """True if a cell may be in a radix: at most the wire's number of digits, exactly this number if Vivado pads."""
    digits = _matched(text, width, radix) if _value(text, width, radix) is not None else None
    if digits is None:
        return False
    zeros = padded and len(digits) > 1 and digits[0] == "0"
    if radix not in _DIGIT_BITS:
        return not zeros
    most = -(-width // _DIGIT_BITS[radix])
    return len(digits) == most if zeros else len(digits) <= most


def _wire(header: str) -> str:
    """Header without path and bit range."""
    return re.split(r"[/.]", re.sub(r"\s*\[[^\]]*\]$", "", header))[-1]


def _bits(header: str) -> tuple[int, int] | None:
    """Lowest bit and number of bits of a header's range or single bit, else None."""
    match = re.search(r"\[(\d{1,9})(?::(\d{1,9}))?\]$", header)
    if not match:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return min(first, last), abs(first - last) + 1
