"""Record of a campaign: JSON lines, first a header with everything the results depend on, then a line per fault."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..golden.errors import UserError
from ..golden.files import whole
from .faults import CellFault

Status = Literal["killed", "equivalent", "survived", "undecided"]

REMEDY = "--force starts again, -o names another file"


@dataclass(frozen=True)
class Result:
    """Result for one fault.

    Parameters
    ----------
    number : int
        Number of the fault in the campaign.
    status : "killed", "equivalent", "survived" or "undecided"
        Survived: the bench passes, but distinguishing inputs exist. Undecided: the bench passes, and neither an
        equivalence proof nor distinguishing inputs were found in time.
    by : str
        Cause of a kill: ``mismatch``, a wrong word; ``objection`` of the bench, for instance a missing word; ``time``,
        a hang. For equivalent faults the engine of the proof.
    detail : str
        First mismatch or objection.
    cycles : int
        For a survivor, length of a distinguishing input.
    seconds : float
        Run time.
    """

    number: int
    fault: CellFault
    status: Status
    by: str = ""
    detail: str = ""
    cycles: int = 0
    seconds: float = 0.0


class Record:
    """File of a campaign's results, extended with each result; attribute `results` holds all by fault number.

    `header` contains everything the results depend on, as plain JSON under user-visible names. The first result creates
    file and folder; `force` replaces an existing file. Raises `UserError` if the file is not a record of this campaign.
    """

    def __init__(self, path: Path, header: dict[str, Any], force: bool = False) -> None:
        self._path, self._header = path, header
        self.results: dict[int, Result] = {}
        self._begun = False
        # an interrupted run may leave an incomplete last line
        self._lines = path.read_bytes().split(b"\n")[:-1] if path.exists() and not force else []
        if path.exists() and not force:
            self._continue()

    def _continue(self) -> None:
        campaign, results = read_record(self._path, self._lines)
        if other := [name for name in self._header if campaign.get(name) != self._header[name]]:
            raise UserError(f"{self._path} is of a campaign with another {' and '.join(other)}: {REMEDY}")
        self.results = {result.number: result for result in results}

    def left(self, numbers: Iterable[int]) -> list[int]:
        """Fault numbers without a result."""
        return [number for number in numbers if number not in self.results]

    def keep(self, results: Iterable[Result], on_result: Callable[[Result], None]) -> None:
        """Add results as they arrive, and pass each to `on_result`."""
        for result in results:
            self.add(result)
            on_result(result)

    def add(self, result: Result) -> None:
        """Append a result; the first one creates the file, or drops an incomplete last line."""
        self.results[result.number] = result
        if not self._begun:
            lines = self._lines or [json.dumps({"campaign": self._header}).encode()]
            with whole(self._path) as made:
                made.write_bytes(b"".join(line + b"\n" for line in lines))
            self._begun = True
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def refuse_other_file(path: Path, force: bool) -> None:
    """Raise UserError for a file that `Record` would reject, before the netlist, which may take minutes."""
    if path.exists() and not force:
        read_record(path)


def judged(judge: Callable[[int], Result | None], numbers: Iterable[int]) -> Iterator[Result]:
    """Judge faults on all processor cores; yields results in order of completion.

    None from `judge` means no result yet.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(judge, number) for number in numbers]
        try:
            for future in as_completed(running):
                if (result := future.result()) is not None:
                    yield result
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def read_record(path: Path, lines: Sequence[bytes] | None = None) -> tuple[dict[str, Any], list[Result]]:
    """Header and results of a campaign's file; `lines` are its lines, if already read.

    Raises `UserError` if the file is not a campaign record.
    """
    try:
        header, *rest = (json.loads(line) for line in (path.read_bytes().split(b"\n")[:-1] if lines is None else lines))
        results = [Result(**{**row, "fault": _fault(**row["fault"])}) for row in rest]
        campaign: dict[str, Any] = dict(header["campaign"])
        campaign["block"]
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{path} is not the record of a campaign: {REMEDY}") from None
    return campaign, results


def _fault(files: list[str], **fields: Any) -> CellFault:
    """Fault from JSON, which has no tuples."""
    return CellFault(files=tuple(files), **fields)


@dataclass(frozen=True)
class Score:
    """Number of faults in total and by status, and killed faults by cause."""

    faults: int
    killed: int
    equivalent: int
    undecided: int
    survived: int
    by: dict[str, int]

    @property
    def score(self) -> float:
        """Killed fraction of the faults not proved equivalent; 1 without any."""
        distinct = self.faults - self.equivalent
        return self.killed / distinct if distinct else 1.0


def score_of(results: Iterable[Result]) -> Score:
    found = list(results)
    count = {status: sum(one.status == status for one in found) for status in Status.__args__}  # type: ignore[attr-defined]
    killers = [one.by for one in found if one.status == "killed"]
    by = {name: killers.count(name) for name in sorted(set(killers))}
    return Score(len(found), count["killed"], count["equivalent"], count["undecided"], count["survived"], by)


def scores_by_component(results: Iterable[Result]) -> dict[str, Score]:
    """Scores by Python file; a cell created by several files counts for each."""
    all_results = list(results)
    files = sorted({file for result in all_results for file in result.fault.files})
    return {file: score_of(result for result in all_results if file in result.fault.files) for file in files}
