"""Record of a campaign: a file of JSON lines, the first with what the results depend on, then one for each fault."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...golden.errors import UserError
from ...golden.files import whole
from .faults import Fault

Status = Literal["killed", "equivalent", "survived", "undecided"]


@dataclass(frozen=True)
class Result:
    """Result for one fault.

    Parameters
    ----------
    number : int
        The fault's number in the campaign.
    fault : Fault
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
    fault: Fault
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
        The file. Its folder is made at once, a new file with the call of `begin`.
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
        path.parent.mkdir(parents=True, exist_ok=True)
        # a run that was ended in the middle of a line has left a part of it
        self._lines = path.read_bytes().split(b"\n")[:-1] if path.exists() and not force else []
        if path.exists() and not force:
            self._continue()

    def _continue(self) -> None:
        remedy = "--force starts again, -o names another file"
        try:
            told, *rest = (json.loads(line) for line in self._lines)
            results = [Result(**{**one, "fault": Fault(**one["fault"])}) for one in rest]
            other = [name for name in self._header if told["campaign"][name] != self._header[name]]
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{self._path} is not the record of a campaign: {remedy}") from None
        if other:
            raise UserError(f"{self._path} is of a campaign with another {' and '.join(other)}: {remedy}")
        self.results = {one.number: one for one in results}

    def begin(self) -> None:
        """Write the file as far as it is known, so that `add` can append to it."""
        lines = self._lines or [json.dumps({"campaign": self._header}).encode()]
        with whole(self._path) as made:
            made.write_bytes(b"".join(line + b"\n" for line in lines))

    def add(self, result: Result) -> None:
        """Append a result."""
        self.results[result.number] = result
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")


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
