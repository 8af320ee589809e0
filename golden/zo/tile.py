"""`tile`: weights in, perturbed weights out, the generator inside: what is new in a zeroth-order accelerator.

Weights stream through L a cycle; ``tlast`` ends a perturbation. ``tuser`` says what is done to them: bits 1
to 0 the sign (+1, -1, 0), bit 2 whether the same perturbation is drawn again after ``tlast``. Plus with
*again*, minus with *again*, and a last pass without it is one step of MeZO; no weight needs to be restored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Q4_12, Format, Integers
from ..rng.perturbation import cycles_of, walk
from ..rng.pezo import PezoSpec
from ..rng.urng import BIT, state_ports
from .perturb import PerturbSpec

AGAIN = 4
"""The bit of ``tuser`` that asks for the same perturbation once more."""


@dataclass(frozen=True, kw_only=True)
class TileSpec(Spec):
    """Parameters and model of `tile`.

    Parameters
    ----------
    lanes : int
        Weights a cycle.
    pezo : PezoSpec
        The generator.
    eps_shift : int
        ``eps = 2**-eps_shift``.
    overflow : "saturate" or "wrap"
        Of the perturbed weights.
    """

    name: ClassVar[str] = "tile"
    summary: ClassVar[str] = "AXI4-Stream weights in, perturbed weights out: generator, scaler and lanes together"
    core: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict[str, object]]] = {
        name: {f"pezo.{path}": value for path, value in settings.items()} for name, settings in PezoSpec.presets.items()
    }

    lanes: int = 32
    pezo: PezoSpec = field(default_factory=PezoSpec)
    eps_shift: int = 10
    overflow: Literal["saturate", "wrap"] = "saturate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pezo.can_replay:
            raise UserError("a tile draws each perturbation several times: pezo.replay must be true")
        _ = self.perturb

    @cached_property
    def perturb(self) -> PerturbSpec:
        """The lanes, with the generator's formats."""
        fields = {item.name: item for item in self.pezo.streams()["o"].fields}
        return PerturbSpec(
            lanes=self.lanes,
            numbers=fields["number"].lanes,
            number=str(fields["number"].format),
            odd=self.pezo.strategy == "on-the-fly",
            scale=str(fields["scale"].format) if "scale" in fields else "",
            eps_shift=self.eps_shift,
            overflow=self.overflow,
            tag=1,
        )

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """The generator's."""
        return self.pezo.roms()

    @property
    def latency(self) -> int:
        """From a word's entry to its exit; the first one after reset waits for the generator."""
        return self.perturb.latency

    def streams(self) -> dict[str, Stream]:
        """Weights in and out; `load` and `scan` are the generator's."""
        weight, last = Field("weight", Q4_12, self.lanes), Field("last", BIT)
        return {
            **state_ports(),
            "i": Stream("in", (weight, last, Field("user", Format(3, 0, signed=False)))),
            "o": Stream("out", (weight, last)),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Perturbed weights, word for word."""
        return {"o": self.perturbed({name: column[:words] for name, column in inputs["i"].items()}, 0)}

    def perturbed(self, given: Words, start: int) -> Words:
        """What comes out for these words when the generator stands, and is marked, at a position."""
        last, user = given["last"][:, 0], given["user"][:, 0]
        again = last * (user & AGAIN) // AGAIN
        numbers = self.pezo.words_at(start + walk(again, last - again, len(last)))
        delta = self.perturb.delta(numbers["number"][:, : self.perturb.used], numbers.get("scale"))
        sign = ((user & 3) ^ 2) - 2
        return {"weight": self.perturb.apply(given["weight"], delta, sign[:, None]), "last": given["last"]}

    def cycles(self, last: Integers) -> int:
        """Cycles from the entry of a job's first word to the exit of its last, at full speed.

        One a word; behind each `last` but the final one the generator's replay or mark; and the lanes' latency.
        """
        return len(last) + int(last[:-1].sum()) * self.pezo.replay_cycles + self.latency

    def step(self, weights: Integers, position: int) -> tuple[Integers, Integers, int]:
        """Both perturbed copies of a flat vector of weights, and the position of the next perturbation.

        The copies are what two passes through the RTL give: equal to `draw_perturbation` scaled, rounded and added.
        """
        passes = self.passes(weights)
        plus, minus = (self.perturbed(one["i"], position)["weight"].reshape(-1)[: len(weights)] for one in passes[:2])
        return plus, minus, position + len(passes[0]["i"]["last"])

    def passes(self, weights: Integers) -> list[dict[str, Words]]:
        """The words of one step: plus and minus with *again*, then a pass that leaves the weights alone."""
        count = cycles_of(len(weights), self.lanes)
        padded = np.zeros(count * self.lanes, np.int64)
        padded[: len(weights)] = weights
        last = np.zeros((count, 1), np.int64)
        last[-1] = 1
        return [
            {"i": {"weight": padded.reshape(count, -1), "last": last, "user": np.full((count, 1), user)}}
            for user in (1 | AGAIN, 3 | AGAIN, 0)
        ]
