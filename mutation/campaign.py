"""Campaign of mutation testing: what those of blocks, of parts with rules and of whole cores share."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from .. import __version__
from ..golden.cache import digest_of, package_version
from .faults import CellFault, CellNetlist, list_faults
from .record import Record, Result, refuse_other_file


@dataclass(frozen=True)
class CampaignSettings:
    """Settings of any campaign.

    Parameters
    ----------
    faults : int
        How many; of each component, where there are some.
    seed : int
        Seed of the sample of faults, and of all that is to see them.
    """

    faults: int = 40
    seed: int = 0


Settings = TypeVar("Settings", bound=CampaignSettings)


class Campaign(ABC, Generic[Settings]):
    """Faults and the results so far; `run` goes on where an earlier run of the same campaign ended.

    Parameters
    ----------
    name : str
        What the faults are in.
    parameters : dict
        Its parameters.
    settings : CampaignSettings
    path : Path
        File of the results; see `Record`.
    force : bool
        Start again, whatever the file holds.

    Attributes
    ----------
    record : Record
        The results.

    Raises
    ------
    UserError
        See `Record`.
    """

    _components: tuple[str, ...]
    """Python files, of whose cells there is a sample each, see `faults.list_faults`; none for one of all cells."""

    def __init__(
        self, name: str, parameters: dict[str, Any], settings: Settings, path: Path, force: bool = False
    ) -> None:
        # before the minutes that the netlist may take
        refuse_other_file(path, force)
        self._settings, self._made = settings, self._netlist()
        header: dict[str, Any] = {
            "block": name,
            # as they are read back: tuples are lists
            **json.loads(json.dumps({"parameters": parameters} | asdict(settings))),
            "version of the RTL": digest_of(self._made.text, package_version("pyosys"), __version__),
            "version of the bench": self._bench(),
        }
        self.record = Record(path, header, force)

    def run(self, on_result: Callable[[Result], None] = lambda _: None) -> list[Result]:
        """Run what is left of the campaign.

        Parameters
        ----------
        on_result : callable
            Called with each new result.

        Returns
        -------
        list of Result
            All results, in the order of the faults.

        Raises
        ------
        UserError
            If what is to see the faults objects without one.
        """
        samples = [
            list_faults(self._made, self._settings.faults, self._settings.seed, component)
            for component in self._components or ("",)
        ]
        # a cell that several files made may be in the sample of each
        faults = list(dict.fromkeys(chain.from_iterable(samples)))
        self._run(faults, on_result)
        return [self.record.results[number] for number in range(len(faults))]

    @abstractmethod
    def _netlist(self) -> CellNetlist:
        """Make the netlist in which the faults are."""

    @abstractmethod
    def _bench(self) -> str:
        """Digest of what is to see the faults."""

    @abstractmethod
    def _run(self, faults: Sequence[CellFault], on_result: Callable[[Result], None]) -> None:
        """Find the results that are left, and add them to the record."""
