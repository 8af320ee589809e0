"""Contract of a core's stress tests: jobs, settings and their limits, wrong inputs."""

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
    """Command at a limit, and the expected end.

    Parameters
    ----------
    name : str
        Description of the limit.
    command : IntEnum, optional
        By default `Trials.command`. The commands of `Trials.loads` run first.
    error : IntEnum, optional
        None without an error.
    value : int
        Offending value, entry number or address, as the core reports it.
    images : dict of str to array of uint8
        Images beside or in place of `Trials.images`, by address setting.
    settings : dict of str to int
        Settings that differ from `Trials.usual`.
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
    """Make the ending of a sample schedule with these words."""
    order = np.array(words, "<u4").view(np.uint8)
    return Ending(f"{words}, {settings}", None, error, value, {"order": order}, settings)


class Trials(Protocol[Core, Variation]):
    """Stress tests of a core, the ``TRIALS`` in ``sim/cores/CORE/trials.py``; a variation holds the settings of a job.

    Attributes
    ----------
    command : IntEnum
        Command that reads a sample schedule; each setting is tried with it.
    loads : tuple of IntEnum
        Preceding commands, which load a network.
    keeps : bool
        The network survives an error of a started command; otherwise a load must follow.
    """

    command: ClassVar[IntEnum]
    loads: ClassVar[tuple[IntEnum, ...]]
    keeps: ClassVar[bool] = True

    @abstractmethod
    def job(self, spec: Core, seed: int, variation: Variation) -> ShortJob:
        """Make a job with golden's results; `seed` determines all random numbers."""

    @abstractmethod
    def short(self, spec: Core) -> dict[str, Variation]:
        """Jobs by name, together covering every part of the core."""

    @abstractmethod
    def random(self, spec: Core, rng: np.random.Generator) -> Variation:
        """Draw a job with random settings and more data."""

    def edge(self, spec: Core) -> dict[str, Variation]:
        """Jobs by name with values at edges that random jobs rarely reach."""
        return {}

    def long(self, spec: Core) -> dict[str, Variation]:
        """Jobs by name with very many steps."""
        return {}

    @abstractmethod
    def usual(self, spec: Core) -> dict[str, int]:
        """Accepted values of all settings except addresses, and the addresses of `images`."""

    def images(self, spec: Core) -> dict[str, Bytes]:
        """Images for every job, by address setting.

        The images for `loads` lie at their addresses in `usual`; no other access of a test reaches them.
        """
        return {}

    def ends(self, spec: Core, command: int, settings: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Possible ends of an accepted command besides memory errors, if all accesses outside `images` fail.

        Each is the error's name and value; the name is empty without an error.
        """
        yield from ()

    @abstractmethod
    def limits(self, spec: Core) -> set[int]:
        """Limits of the core's settings."""

    def together(self, spec: Core, values: Sequence[int]) -> Iterator[dict[str, int]]:
        """Settings for `command` that reach a limit only together, drawn from values around all limits."""
        yield from ()

    @abstractmethod
    def entries(self, spec: Core) -> Iterator[Ending]:
        """Sample schedules with an entry at a limit."""

    def wrong_inputs(self, spec: Core) -> Iterator[Ending]:
        """Other inputs with an error, for the core to refuse."""
        yield from ()


def told_address(spec: CoreSpec, address: int) -> int:
    """`error_address` of a burst; for an address beyond the address bits, these bits, and a 1 in the bit above."""
    beyond = address >> spec.address != 0
    return address % (1 << spec.address) | beyond << spec.address


def trials_of(spec: CoreSpec) -> Trials[Any, Any]:
    """Find a core's stress tests; a core without them is a `UserError`."""
    found: Trials[Any, Any] | None = spec.part("sim", "trials", "TRIALS")
    if found is None:
        raise UserError(f"{spec.name} has no trials, and cannot be mutated as a whole")
    return found
