"""Compare parameter updates seen on a core's monitor port with the golden self-test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...boards.example.package import Task
from ...boards.packaging import selftest_of
from ...golden.axi.bus import BEAT
from ...golden.axi.regions import Bytes
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from .compare import CaptureComparison
from .table import Table

_BITS = 8 * BEAT
_BEAT_NUMBER = 16


@dataclass(frozen=True)
class GoldenUpdate:
    """A batch or step of a job: name for messages, parameter images before and after it."""

    name: str
    before: Bytes
    after: Bytes


@dataclass
class CapturedUpdate:
    """Monitor words up to the end of a batch or step.

    `beats` has for each beat number the 128-bit data written last; `complete` is True if the capture has the update's
    end.
    """

    beats: dict[int, int]
    complete: bool = False


def golden_updates(spec: CoreSpec, task: Task | None = None) -> list[GoldenUpdate]:
    """Batches or steps of a core's self-test, on random samples or on a task's, in order."""
    updates = []
    for number, stage in enumerate(selftest_of(spec, task).stages, 1):
        for at, (before, after) in enumerate(zip(stage.images[:-1], stage.images[1:], strict=True), 1):
            updates.append(GoldenUpdate(f"stage {number}, {stage.name}, its update {at}", before, after))
    return updates


def read_updates(path: Path, radices: Mapping[str, str] | None = None) -> list[CapturedUpdate]:
    """Updates from a logic analyser's table of a core's monitor port.

    Parameters
    ----------
    path : Path
        CSV as exported by Vivado, with columns ``monitor_valid``, ``monitor_beat``, ``monitor_data`` and
        ``monitor_done``, or names with these endings, such as ``system_i/core_monitor_valid[7:0]``. Samples without a
        change may be omitted.
    radices : mapping of str to str, optional
        Radices of a file without a radix row, see `Table`.

    Returns
    -------
    list of CapturedUpdate
        In order; the last may be incomplete.

    Raises
    ------
    UserError
        If a column is missing or a cell is not a number of its width, with file and line.
    """
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}: give the path of a capture")
    if path.suffix.lower() != ".csv":
        raise UserError(f"{path}: the updates of a core are read from a .csv, as Vivado's logic analyser writes it")
    table = Table(path, radices)
    names = {wire: _column(table, f"monitor_{wire}") for wire in ("valid", "beat", "data", "done")}
    beats, rest = divmod(table.width(names["data"]), _BITS)
    if rest or not beats:
        raise UserError(
            f"{table.where()}: {names['data']} has {_BITS * beats + rest} bits, no multiple of {_BITS}: capture all"
        )
    rows = range(table.samples)
    valid = table.integers(names["valid"], beats, list(rows))
    done = table.integers(names["done"], 1, list(rows))
    written = [row for row in rows if valid[row]]
    first = dict(zip(written, table.integers(names["beat"], _BEAT_NUMBER, written), strict=True))
    data = dict(zip(written, table.integers(names["data"], _BITS * beats, written), strict=True))
    updates = [CapturedUpdate({})]
    for row in rows:
        for at in (at for at in range(beats) if valid[row] >> at & 1):
            updates[-1].beats[first[row] + at] = data[row] >> _BITS * at & (1 << _BITS) - 1
        if done[row]:
            updates[-1].complete = True
            updates.append(CapturedUpdate({}))
    return updates if updates[-1].beats else updates[:-1]


def compare_updates(
    golden: list[GoldenUpdate], captured: list[CapturedUpdate], skip: int = 0, drop: int = 0
) -> CaptureComparison:
    """Compare complete captured updates with the golden updates; the latter repeat when a job runs again.

    Every captured beat is compared, and every beat that the golden update changes.

    Parameters
    ----------
    skip : int
        Golden updates before the first captured update.
    drop : int
        Captured updates to ignore at the beginning, for instance a truncated first update.

    Raises
    ------
    UserError
        If no update is complete.
    """
    if skip < 0 or drop < 0:
        raise UserError(f"skip = {skip}, drop = {drop}: updates are counted from 0")
    complete = [update for update in captured if update.complete]
    if not complete[drop:]:
        raise UserError(
            f"nothing to compare: {len(complete)} updates of the capture are complete, {drop} are to be left out: "
            "capture from before the first write to monitor_done"
        )
    comparison = _compared(golden, complete[drop:], skip, drop)
    if comparison.mismatches:
        comparison.hint = _hint(golden, complete, skip, drop)
    return comparison


def compare_capture(
    spec: CoreSpec,
    path: Path,
    skip: int = 0,
    drop: int = 0,
    task: Task | None = None,
    radices: Mapping[str, str] | None = None,
) -> CaptureComparison:
    """Compare a logic analyser's CSV with a core's self-test; see `read_updates` and `compare_updates`."""
    return compare_updates(golden_updates(spec, task), read_updates(path, radices), skip, drop)


def _compared(
    golden: list[GoldenUpdate], captured: list[CapturedUpdate], skip: int, drop: int = 0
) -> CaptureComparison:
    comparison = CaptureComparison()
    for number, update in enumerate(captured):
        expected = golden[(skip + number) % len(golden)]
        before, after = _beats(expected.before), _beats(expected.after)
        for beat in sorted(update.beats.keys() | _changed(expected)):
            comparison.compared += 1
            got, want = update.beats.get(beat, before.get(beat)), after.get(beat)
            if got == want:
                continue
            comparison.mismatches += 1
            how = "golden has no such beat" if want is None else f"golden 0x{want:032x}"
            missing = "" if beat in update.beats else " (not written)"
            where = f"update {drop + number} of the capture ({expected.name}), beat {beat}"
            comparison.note(f"{where}: 0x{got or 0:032x}{missing}, {how}")
    return comparison


def _hint(golden: list[GoldenUpdate], complete: list[CapturedUpdate], skip: int, drop: int) -> str:
    """Advice: options with which a late or truncated capture agrees."""
    for dropped, skipped in ((dropped, skipped) for dropped in (0, 1) for skipped in range(len(golden))):
        if (dropped, skipped) == (drop, skip) or not complete[dropped:]:
            continue
        if dropped and _whole(golden[skipped - 1], complete[0]):
            continue  # complete, hence wrong rather than truncated
        if not _compared(golden, complete[dropped:], skipped).mismatches:
            return f"it agrees with --skip {skipped} --drop {dropped}"
    return ""


def _whole(golden: GoldenUpdate, captured: CapturedUpdate) -> bool:
    """True if a captured update writes every beat changed by the golden update."""
    return _changed(golden) <= captured.beats.keys()


def _changed(golden: GoldenUpdate) -> set[int]:
    before, after = _beats(golden.before), _beats(golden.after)
    return {at for at in after if before[at] != after[at]}


def _beats(image: Bytes) -> dict[int, int]:
    """Image beats by number."""
    rows = np.asarray(image, np.uint8).reshape(-1, BEAT)
    return {number: int.from_bytes(row.tobytes(), "little") for number, row in enumerate(rows)}


def _column(table: Table, wire: str) -> str:
    """The only column of a wire."""
    names = [name for name in table.columns if name == wire or name.endswith(f"_{wire}")]
    if not names:
        raise UserError(f"{table.where()}: no column for {wire}; the columns are {table.listed}")
    if len(names) > 1:
        raise UserError(f"{table.where()}: several columns for {wire}, {', '.join(names)}: keep one")
    return names[0]
