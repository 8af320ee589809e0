"""`tile`: perturbs a stream of weights with its own generator.

L weights per cycle stream through; ``tlast`` ends a perturbation. ``tuser`` has the sign (+1, -1, 0) in bits 1 to 0;
bit 2, *again*, repeats the same perturbation after ``tlast``. A step of MeZO is a pass with plus and *again*, one with
minus and *again*, and one without *again*; no weight has to be restored.
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
"""Bit of ``tuser`` to repeat the perturbation."""


@dataclass(frozen=True, kw_only=True)
class TileSpec(Spec):
    """Parameters and model of `tile`.

    Parameters
    ----------
    lanes : int
        Weights a cycle, 1 to 4096; lane j takes number j mod n.
    pezo : PezoSpec
        Generator: `pezo.strategy`, `pezo.scale.urng.bits`, ... On the fly `pezo.replay` is true, as a step draws a
        perturbation several times.
    eps_shift : int
        ``eps = 2**-eps_shift``, see `perturb`.
    overflow : "saturate" or "wrap"
        Overflow of the perturbed weights.
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
        return self.pezo.roms()

    @property
    def latency(self) -> int:
        """Cycles from input to output of a word; the first word after reset waits for the generator."""
        return self.perturb.latency

    def streams(self) -> dict[str, Stream]:
        weight, last = Field("weight", Q4_12, self.lanes), Field("last", BIT)
        return {
            **state_ports(),
            "i": Stream(
                "in",
                (weight, last, Field("user", Format(3, 0, signed=False))),
                doc="Weights of a pass; `last` marks its final word. `user` bits 1:0 are the sign of `Perturb`; bit "
                "2, sampled with `last`: replay the pass's numbers, else the next word becomes the mark.",
            ),
            "o": Stream("out", (weight, last), doc="Perturbed weights, `spec.latency` cycles later."),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": self.perturbed({name: column[:words] for name, column in inputs["i"].items()}, 0)}

    def perturbed(self, fields: Words, start: int) -> Words:
        """Output for these words with the generator's position and mark at `start`."""
        last, user = fields["last"][:, 0], fields["user"][:, 0]
        again = last * (user & AGAIN) // AGAIN
        numbers = self.pezo.words_at(start + walk(again, last - again, len(last)))
        delta = self.perturb.delta(numbers["number"][:, : self.perturb.used], numbers.get("scale"))
        sign = ((user & 3) ^ 2) - 2
        return {"weight": self.perturb.apply(fields["weight"], delta, sign[:, None]), "last": fields["last"]}

    def cycles(self, last: Integers) -> int:
        """Cycles from the first input word of a job to its last output word, without stalls.

        One cycle per word, a replay or mark of the generator after each `last` except the final one, and the lanes'
        latency.
        """
        return len(last) + int(last[:-1].sum()) * self.pezo.replay_cycles + self.latency

    def step(self, weights: Integers, position: int) -> tuple[Integers, Integers, int]:
        """Both perturbed copies of a flat vector of weights, and the position of the next perturbation.

        The copies are the outputs of two passes through the RTL: `draw_perturbation`, scaled, rounded and added.
        """
        passes = self.passes(weights)
        plus, minus = (
            self.perturbed(words["i"], position)["weight"].reshape(-1)[: len(weights)] for words in passes[:2]
        )
        return plus, minus, position + len(passes[0]["i"]["last"])

    def passes(self, weights: Integers) -> list[dict[str, Words]]:
        """Words of one step: plus and minus with *again*, then a pass without a change."""
        count = cycles_of(len(weights), self.lanes)
        padded = np.zeros(count * self.lanes, np.int64)
        padded[: len(weights)] = weights
        last = np.zeros((count, 1), np.int64)
        last[-1] = 1
        return [
            {"i": {"weight": padded.reshape(count, -1), "last": last, "user": np.full((count, 1), user)}}
            for user in (1 | AGAIN, 3 | AGAIN, 0)
        ]
