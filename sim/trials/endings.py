"""Commands of a core and how each must end: with an error and its value, or without one."""

from __future__ import annotations

from collections.abc import Mapping

from ...golden.cores.core import CoreSpec
from ..compiled.session import Session
from .refusals import LIMIT, usual_settings, write_settings

_WHERE = "status", "error_address", "error_address_high"


class Endings:
    """Commands with the usual settings, but for some, in one session.

    Parameters
    ----------
    session : Session
    spec : CoreSpec
        The core.
    """

    def __init__(self, session: Session, spec: CoreSpec) -> None:
        self._session, self._core, self.usual = session, spec.registers, usual_settings(spec)
        self._written = dict[str, int]()
        self._wanted = list[tuple[str, int, int]]()

    def command(
        self, number: int, settings: Mapping[str, int], name: str, error: int | None = None, value: int = 0
    ) -> None:
        """Note a command and its end.

        Parameters
        ----------
        number : int
            Code of the command.
        settings : mapping of str to int
            Those that are not the usual ones.
        name : str
            What it is, for findings.
        error, value : int
            Error code, None where it ends without one, and the offending value or address.
        """
        write_settings(self._session, self._core, self.usual | dict(settings), self._written)
        self._session.write(self._core.map["command"].offset, number)
        self._session.wait(LIMIT)
        for register in _WHERE:
            self._session.read(self._core.map[register].offset)
        self._wanted.append((f"command {number} with {name}", int(error or 0), value))

    def findings(self) -> list[str]:
        """Run all commands, and list those that end in another way."""
        values = iter(access["value"] for access in self._session.run()["reads"])
        found = []
        for name, *wanted in self._wanted:
            status, value = next(values), next(values) | next(values) << 32
            ended = [status >> 8 & 0xFF, value]
            if ended != wanted or status & 3 != 2:
                found.append(f"{name}: {status:#x}, {ended}, not {wanted}")
        return found
