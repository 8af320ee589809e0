"""Record of a campaign: a file of JSON lines, the first with what the results depend on, then one for each fault."""

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
        The fault's number in the campaign.
    fault : CellFault
        The fault.
    status : "killed", "equivalent", "survived" or "undecided"
        Survived: the bench passes, and there are inputs that tell the mutant from the block. Undecided: the bench
        passes, and there is neither a proof of equivalence nor such inputs within the time.
    by : str
        What killed it: ``mismatch``, a wrong word; ``objection`` of the bench, for instance a word that did not come;
        ``time``, no end. Or the engine of the proof of equivalence.
    detail : str
        The first mismatch or objection.
    cycles : int
        Of a survivor: cycles of an input that shows it.
    seconds : float
        Time that it took.
    """

    number: int
    fault: CellFault
    status: Status
    by: str = ""
    detail: str = ""
    cycles: int = 0
    seconds: float = 0.0


class Record:
    """File with the results of a campaign, to which results are added as they come.

    Parameters
    ----------
    path : Path
        The file; it and its folder are made with the first result.
    header : dict
        What the results depend on, in plain JSON, by names that a user knows.
    force : bool
        Replace a file that is there.

    Attributes
    ----------
    results : dict of int to Result
        By the number of the fault, those of earlier runs too.

    Raises
    ------
    UserError
        If the file is not a campaign's, or one of another campaign.
    """

    def __init__(self, path: Path, header: dict[str, Any], force: bool = False) -> None:
        self._path, self._header = path, header
        self.results: dict[int, Result] = {}
        self._begun = False
        # a run that was ended in the middle of a line has left a part of it
        self._lines = path.read_bytes().split(b"\n")[:-1] if path.exists() and not force else []
        if path.exists() and not force:
            self._continue()

    def _continue(self) -> None:
        campaign, results = read_record(self._path, self._lines)
        if other := [name for name in self._header if campaign.get(name) != self._header[name]]:
            raise UserError(f"{self._path} is of a campaign with another {' and '.join(other)}: {REMEDY}")
        self.results = {one.number: one for one in results}

    def left(self, numbers: Iterable[int]) -> list[int]:
        """List those of some faults' numbers that have no result yet."""
        return [number for number in numbers if number not in self.results]

    def keep(self, results: Iterable[Result], on_result: Callable[[Result], None]) -> None:
        """Add results as they come, and call a function with each."""
        for result in results:
            self.add(result)
            on_result(result)

    def add(self, result: Result) -> None:
        """Append a result; the first one makes the file, or leaves out the part of a line with which it ends."""
        self.results[result.number] = result
        if not self._begun:
            lines = self._lines or [json.dumps({"campaign": self._header}).encode()]
            with whole(self._path) as made:
                made.write_bytes(b"".join(line + b"\n" for line in lines))
            self._begun = True
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def refuse_other_file(path: Path, force: bool) -> None:
    """Refuse a file that `Record` would refuse whatever the campaign, before the minutes that its netlist may take.

    Raises
    ------
    UserError
        If a file that may not be replaced is not a campaign's.
    """
    if path.exists() and not force:
        read_record(path)


def judged(judge: Callable[[int], Result | None], numbers: Iterable[int]) -> Iterator[Result]:
    """Judge faults, as many at a time as there are processors, in the order in which they are done.

    Where `judge` gives None, there is no result yet.
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
    """Read what a campaign's results depend on, and the results; `lines` are those of the file where they are known.

    Raises
    ------
    UserError
        If the file is not a campaign's.
    """
    try:
        told, *rest = (json.loads(line) for line in (path.read_bytes().split(b"\n")[:-1] if lines is None else lines))
        results = [Result(**{**one, "fault": _fault(**one["fault"])}) for one in rest]
        campaign: dict[str, Any] = dict(told["campaign"])
        campaign["block"]
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{path} is not the record of a campaign: {REMEDY}") from None
    return campaign, results


def _fault(files: list[str], **told: Any) -> CellFault:
    """Make a fault of what JSON tells, which has no tuples."""
    return CellFault(files=tuple(files), **told)


@dataclass(frozen=True)
class Score:
    """Counts of a campaign's results.

    Parameters
    ----------
    faults, killed, equivalent, undecided, survived : int
        Numbers of faults, of all and by status.
    by : dict of str to int
        Killed faults by what killed them.
    """

    faults: int
    killed: int
    equivalent: int
    undecided: int
    survived: int
    by: dict[str, int]

    @property
    def score(self) -> float:
        """Share of killed mutants among those that are not proved equivalent; 1 where there are none."""
        distinct = self.faults - self.equivalent
        return self.killed / distinct if distinct else 1.0


def score_of(results: Iterable[Result]) -> Score:
    """Count results."""
    found = list(results)
    count = {status: sum(one.status == status for one in found) for status in Status.__args__}  # type: ignore[attr-defined]
    killers = [one.by for one in found if one.status == "killed"]
    by = {name: killers.count(name) for name in sorted(set(killers))}
    return Score(len(found), count["killed"], count["equivalent"], count["undecided"], count["survived"], by)


def scores_by_component(results: Iterable[Result]) -> dict[str, Score]:
    """Count results by the Python files that made the cells; a cell that several made counts for each."""
    found = list(results)
    files = sorted({file for one in found for file in one.fault.files})
    return {file: score_of(one for one in found if file in one.fault.files) for file in files}
