"""Contract of the trials with a core: jobs, settings and their limits, wrong inputs; each core's room answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ..compiled.playing import ShortJob
from ..compiled.session import Bytes

Core = TypeVar("Core", bound=CoreSpec, contravariant=True)
Variation = TypeVar("Variation")


@dataclass(frozen=True, eq=False)
class Ending:
    """Command with one thing at a limit, and how it must end.

    Parameters
    ----------
    name : str
        What is at the limit.
    command : IntEnum, optional
        By default `Trials.command`. It runs behind those of `Trials.loads`, or behind the ones before it.
    error : IntEnum, optional
        None where the command ends without one.
    value : int
        Offending value, place or address.
    images : dict of str to array of uint8
        Images in place of `Trials.images`, or beside them, by the setting that has their address.
    settings : dict of str to int
        Settings that are not the usual ones.
    """

    name: str
    command: IntEnum | None = None
    error: IntEnum | None = None
    value: int = 0
    images: Mapping[str, Bytes] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)


def order_ending(
    words: tuple[int, ...], settings: Mapping[str, int], error: IntEnum | None = None, value: int = 0
) -> Ending:
    """Make the ending of an order list of these words."""
    order = np.array(words, "<u4").view(np.uint8)
    return Ending(f"{words}, {settings}", None, error, value, {"order": order}, settings)


class Trials(Protocol[Core, Variation]):
    """Trials of a core, its room's ``TRIALS``; a variation holds the settings of a job.

    Attributes
    ----------
    command : IntEnum
        Command that runs an order list, with which each setting is tried.
    loads : tuple of IntEnum
        Commands that load a network before it.
    keeps : bool
        The network stays where a command ends in an error behind its start; else it must be loaded again.
    """

    command: ClassVar[IntEnum]
    loads: ClassVar[tuple[IntEnum, ...]]
    keeps: ClassVar[bool] = True

    @abstractmethod
    def job(self, spec: Core, seed: int, variation: Variation) -> ShortJob:
        """Make a job with golden's results; the seed is that of its numbers."""

    @abstractmethod
    def short(self, spec: Core) -> dict[str, Variation]:
        """List jobs that together reach every part of the core, by name."""

    @abstractmethod
    def random(self, spec: Core, rng: np.random.Generator) -> Variation:
        """Draw a job with random settings and more data."""

    def edge(self, spec: Core) -> dict[str, Variation]:
        """List jobs whose values lie at edges that random values rarely show, by name."""
        return {}

    def long(self, spec: Core) -> dict[str, Variation]:
        """List jobs of very many steps, by name."""
        return {}

    @abstractmethod
    def usual(self, spec: Core) -> dict[str, int]:
        """Make settings which the core does not refuse: all that are no addresses, and the addresses of `images`."""

    def images(self, spec: Core) -> dict[str, Bytes]:
        """Make the images without which the core begins no job, by the setting that has their address.

        The ones that `loads` read have addresses of `usual`, at which no other access of a trial is.
        """
        return {}

    def ends(self, spec: Core, command: int, settings: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """List how a command that is not refused may end where every access but those to `images` is an error.

        Beside the memory's error: the error's name and value, an empty name where there is none.
        """
        yield from ()

    @abstractmethod
    def limits(self, spec: Core) -> set[int]:
        """Numbers at which settings of the core end."""

    def together(self, spec: Core, values: Sequence[int]) -> Iterator[dict[str, int]]:
        """Make settings that are at a limit together, of values around all limits, for `command`."""
        yield from ()

    @abstractmethod
    def entries(self, spec: Core) -> Iterator[Ending]:
        """Make order lists with one entry at a limit."""

    def wrong_inputs(self, spec: Core) -> Iterator[Ending]:
        """Make images that the core must refuse, beside order lists: each with one thing that is wrong."""
        yield from ()


def told_address(spec: CoreSpec, address: int) -> int:
    """Give what `error_address` tells of a burst: of one beyond the address bits these, and the bit above them."""
    beyond = address >> spec.address != 0
    return address % (1 << spec.address) | beyond << spec.address


def trials_of(spec: CoreSpec) -> Trials[Any, Any]:
    """Find the trials of a core in its room.

    Raises
    ------
    UserError
        If there are none.
    """
    found: Trials[Any, Any] | None = spec.part("sim", "trials", "TRIALS")
    if found is None:
        raise UserError(f"{spec.name} has no trials, and cannot be mutated as a whole")
    return found
