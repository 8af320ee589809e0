"""Base of mutation campaigns: for blocks, for submodules with rules, and for cores."""

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
    """Settings of any campaign: number of faults, per component if given, and seed of fault sample and stimulus."""

    faults: int = 40
    seed: int = 0


Settings = TypeVar("Settings", bound=CampaignSettings)


class Campaign(ABC, Generic[Settings]):
    """Faults and results of design `name`; `run` continues an interrupted campaign.

    `path` is the file of the results; `force` ignores an existing file. Raises `UserError` for the file of another
    campaign, see `Record`.
    """

    _components: tuple[str, ...]
    """Python files, each with its own sample of faults in its cells, see `faults.list_faults`; () samples all cells."""

    def __init__(
        self, name: str, parameters: dict[str, Any], settings: Settings, path: Path, force: bool = False
    ) -> None:
        # before the netlist, which may take minutes
        refuse_other_file(path, force)
        self._settings, self._made = settings, self._netlist()
        header: dict[str, Any] = {
            "block": name,
            # as read back from JSON: tuples become lists
            **json.loads(json.dumps({"parameters": parameters} | asdict(settings))),
            "version of the RTL": digest_of(self._made.text, package_version("pyosys"), __version__),
            "version of the bench": self._bench(),
        }
        self.record = Record(path, header, force)

    def run(self, on_result: Callable[[Result], None] = lambda _: None) -> list[Result]:
        """Run the remaining faults; returns all results in the order of the faults.

        `on_result` is called with each new result. Raises `UserError` if the bench or a rule fails without a fault.
        """
        samples = [
            list_faults(self._made, self._settings.faults, self._settings.seed, component)
            for component in self._components or ("",)
        ]
        # a cell created by several files may be in several samples
        faults = list(dict.fromkeys(chain.from_iterable(samples)))
        self._run(faults, on_result)
        return [self.record.results[number] for number in range(len(faults))]

    @abstractmethod
    def _netlist(self) -> CellNetlist:
        """Netlist to put faults into."""

    @abstractmethod
    def _bench(self) -> str:
        """Digest of the sources and data that detect faults."""

    @abstractmethod
    def _run(self, faults: Sequence[CellFault], on_result: Callable[[Result], None]) -> None:
        """Compute the missing results and add them to the record."""
