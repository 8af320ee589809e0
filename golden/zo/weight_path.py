"""`weight_path`: what feeds the multipliers of a zeroth-order accelerator, from four bits a weight to ``w +- eps z``.

NF4 codes become Q4.12, the sensitive weights are added (sensitive-sparse ZO keeps them in 16 bits and gives them the
code for 0 in the rest), and the sum is perturbed on its way (PeZO, equation 1). Three blocks in a row: `nf4_dequant`,
`sparse_add`, `perturb`; nothing is stored perturbed, so nothing has to be restored.

A block's scale is the largest magnitude among its Q4.12 weights, itself in Q4.12. Level times scale, rounded half to
even to the scale's own last place, is then Q4.12: the dequantiser's one rounding, and no second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Format, Integers
from ..nf4.codec import CODES, Codes
from ..nf4.nf4_dequant import Nf4DequantSpec
from ..packets import last_flags
from ..rng.perturbation import cycles_of
from ..rng.urng import BIT
from .perturb import SIGN, PerturbSpec
from .sparse_add import SparseAddSpec

SCALE = Format(3, 12, signed=False)
"""A block's largest magnitude: Q4.12 without its sign."""
ZERO = int(np.flatnonzero(CODES == 0)[0])
"""The code that stands for 0, whatever the scale."""


@dataclass(frozen=True, kw_only=True)
class WeightPathSpec(Spec):
    """Parameters and model of `weight_path`.

    Parameters
    ----------
    lanes : int
        Weights a cycle: 8, 16, 32 or 64.
    scales : int
        Scales that come with a beat; one where every block is a whole number of beats.
    index_bits, queue : int
        Of `sparse_add`.
    numbers : int
        Numbers a cycle of the perturbation's source.
    number : str
        Format of a number.
    odd : bool
        Whether an integer y stands for ``y + 1/2`` last places.
    scale : str
        Format of the factor that comes with the numbers; empty where they are scaled already.
    eps_shift : int
        ``eps = 2**-eps_shift``.
    overflow : "saturate" or "wrap"
        Of the perturbed weights.
    """

    name: ClassVar[str] = "weight_path"
    summary: ClassVar[str] = "NF4 codes to perturbed Q4.12 weights: dequantise, add sparse corrections, + or - eps * u"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "pool": {"numbers": 8, "number": "Q2.10", "odd": False, "scale": ""},
        "otf8": {"numbers": 31, "number": "Q1.7", "odd": True, "scale": "U2.2"},
        "otf14": {"numbers": 31, "number": "Q1.13", "odd": True, "scale": "U2.2"},
    }

    lanes: int = 32
    scales: int = 1
    index_bits: int = 32
    queue: int = 16
    numbers: int = 8
    number: str = "Q2.10"
    odd: bool = False
    scale: str = ""
    eps_shift: int = 10
    overflow: Literal["saturate", "wrap"] = "saturate"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.add, self.dequant, self.perturb

    @cached_property
    def dequant(self) -> Nf4DequantSpec:
        """Codes to weights; `last` and `sign` travel with them."""
        return Nf4DequantSpec(lanes=self.lanes, scales=self.scales, tag=BIT.width + SIGN.width)

    @cached_property
    def add(self) -> SparseAddSpec:
        """The corrections; `sign` travels with the beat."""
        return SparseAddSpec(lanes=self.lanes, index_bits=self.index_bits, queue=self.queue, tag=SIGN.width)

    @cached_property
    def perturb(self) -> PerturbSpec:
        """The perturbation; `last` and `error` travel with the beat."""
        return PerturbSpec(
            lanes=self.lanes,
            numbers=self.numbers,
            number=self.number,
            odd=self.odd,
            scale=self.scale,
            eps_shift=self.eps_shift,
            overflow=self.overflow,
            tag=2 * BIT.width,
        )

    @property
    def latency(self) -> int:
        """From codes to weights, of a beat that waits for nothing."""
        return self.dequant.latency + self.add.latency + self.perturb.latency

    def streams(self) -> dict[str, Stream]:
        """Codes, corrections and numbers in, weights out."""
        dequant, add, perturb = (one.streams() for one in (self.dequant, self.add, self.perturb))
        last = Field("last", BIT)
        select = tuple(item for item in dequant["i"].fields if item.name == "select")
        codes = (dequant["i"].fields[0], Field("scale", SCALE, self.scales), *select, Field("sign", SIGN), last)
        return {
            "codes": Stream("in", codes),
            "sparse": add["sparse"],
            "u": Stream("in", tuple(item for item in perturb["i"].fields if item.name in ("number", "scale"))),
            "o": Stream("out", (perturb["o"].fields[0], last, Field("error", BIT))),
        }

    # -- the door ----------------------------------------------------------------------------------------------------

    def packet(
        self, codes: Codes, scales: Integers, block: int, indices: Integers, values: Integers, sign: int
    ) -> dict[str, Words]:
        """Words of `codes` and `sparse` for one tensor.

        Parameters
        ----------
        codes : array of uint8, (weights,)
        scales : array of int, (blocks,)
            Largest magnitude of each block, Q4.12.
        block : int
            Weights of a block; the last one may have fewer.
        indices, values : array of int, (k,)
            Corrections, Q4.12, in the order of their indices.
        sign : int
            1 or -1 to perturb, 0 not to.

        Raises
        ------
        UserError
            If shapes or ranges do not fit, an index is not above the one before, or a beat reaches more blocks than
            come with it.
        """
        count = codes.size
        if codes.ndim != 1 or not count or block < 1 or scales.shape != (cycles_of(count, block),):
            raise UserError(f"codes {codes.shape} in blocks of {block} do not go with scales {scales.shape}")
        if not 0 <= codes.min() <= codes.max() < len(CODES):
            raise UserError(f"a code is 0 to {len(CODES) - 1}; found {codes.min()} to {codes.max()}")
        if not 0 <= scales.min() <= scales.max() <= SCALE.maximum:
            raise UserError(f"a scale is 0 to {SCALE.maximum}; found {scales.min()} to {scales.max()}")
        if sign not in (-1, 0, 1):
            raise UserError(f"sign = {sign} is not 1, -1 or 0")
        beats = cycles_of(count, self.lanes)
        places = np.arange(beats * self.lanes).reshape(beats, self.lanes).clip(max=count - 1) // block
        reach = int((places[:, -1] - places[:, 0]).max()) + 1
        if reach > self.scales:
            raise UserError(f"a beat of {self.lanes} weights reaches {reach} blocks of {block}; scales = {self.scales}")
        padded = np.full(beats * self.lanes, ZERO, np.int64)
        padded[:count] = codes
        words = {
            "code": padded.reshape(beats, self.lanes),
            "scale": scales[(places[:, :1] + np.arange(self.scales)).clip(max=len(scales) - 1)],
            "sign": np.full((beats, 1), sign),
            "last": last_flags([beats]),
        }
        if self.dequant.select_bits:
            words["select"] = places - places[:, :1]
        return {"codes": words, "sparse": self.add.sparse_words(indices, values, count)}

    # -- the model ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Packet by packet; a beat whose sign is 0 or -2 passes as it is and takes no numbers."""
        codes = inputs["codes"]
        plain = {name: column for name, column in codes.items() if name in ("code", "scale", "select")}
        dense = self.dequant.run({"i": plain | {"tag": codes["last"]}}, len(codes["last"]))["o"]["value"]
        beats = {"i": {"weight": dense, "last": codes["last"], "tag": codes["sign"]}, "sparse": inputs["sparse"]}
        added = self.add.run(beats, words)["o"]
        sign = added["tag"]
        moved = np.flatnonzero(sign[:, 0] & 1)
        steps = np.zeros((len(sign), self.perturb.used), np.int64)
        numbers = {name: column[: len(moved)] for name, column in inputs["u"].items()}
        steps[moved] = self.perturb.delta(numbers["number"], numbers.get("scale"))
        return {
            "o": {
                "weight": self.perturb.apply(added["weight"], steps, sign),
                "last": added["last"],
                "error": added["error"],
            }
        }

    def cycles(self, inputs: dict[str, Words]) -> int:
        """Cycles from the entry of an idle block's first word to the exit of its last, at full speed."""
        slots = self.add.slots({"i": inputs["codes"], "sparse": inputs["sparse"]})
        start = max(self.dequant.latency, self.add.lead)
        return start + slots + self.add.latency + self.perturb.latency
