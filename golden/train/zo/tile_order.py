"""Order in which a transformer's parameters are perturbed: tile by tile, as they are read, beside their frozen base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...fixed import Integers
from ...stream.words import sensitive_word


@dataclass(frozen=True)
class TileOrder:
    """Order of a transformer's parameters, see `golden.stream.words`, and what they are offsets of.

    Parameters
    ----------
    lanes, columns : int
        Size of a tile.
    base : str
        Kind of the frozen matrices, see `golden.stream.frozen_base`.
    sensitive : tuple of (str, tuple of int)
        Of tensors that are tuned in part their name and the places of the values, ascending.
    cut : int
        First operation of the part with perturbations of its own; 0: there is none.

    Raises
    ------
    UserError
        If places are not ascending.
    """

    lanes: int
    columns: int
    base: str
    sensitive: tuple[tuple[str, tuple[int, ...]], ...] = ()
    cut: int = 0

    def __post_init__(self) -> None:
        for name, places in self.sensitive:
            if not places or places[0] < 0 or (np.diff(places) <= 0).any():
                raise UserError(f"places of {name} are not ascending")

    def __str__(self) -> str:
        return f"{self.lanes} x {self.columns} {self.base}" + (f" cut {self.cut}" if self.cut else "")

    @classmethod
    def parse(cls, text: str, sensitive: Mapping[str, NDArray[Any]]) -> TileOrder:
        """Make the order of a text, and of places by name."""
        text, _, cut = text.partition(" cut ")
        size, base = text.rsplit(" ", 1)
        lanes, columns = map(int, size.split(" x "))
        own = sorted((name, tuple(map(int, places))) for name, places in sensitive.items())
        return cls(lanes, columns, base, tuple(own), int(cut or 0))

    @property
    def width(self) -> int:
        """Parameters of a word; where tensors are tuned in part, of a word of these."""
        return sensitive_word(self.columns) if self.sensitive else self.lanes * self.columns

    @property
    def places(self) -> dict[str, Integers]:
        """Places of the sensitive values of each tensor."""
        return {name: np.array(places) for name, places in self.sensitive}
