"""`weight_path`: weights for the multipliers of a zeroth-order accelerator, from NF4 codes to ``w +- eps z``.

NF4 codes are dequantised to Q4.12, sensitive weights are added (sensitive-sparse ZO stores them in 16 bits, with code 0
at their positions), and the sum is perturbed (PeZO, equation 1). The path is a pipeline of `nf4_dequant`, `sparse_add`
and `perturb`. Perturbed weights are not stored, so nothing has to be restored.

A block's scale is the largest magnitude among its Q4.12 weights, in Q4.12. Level times scale is rounded once, half to
even, to Q4.12.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ..block import Field, Spec, Stream, Words, last_flags
from ..errors import UserError
from ..fixed import Format, Integers
from ..nf4.codec import CODES, Codes
from ..nf4.nf4_dequant import Nf4DequantSpec
from ..rng.perturbation import cycles_of
from ..rng.urng import BIT
from .perturb import SIGN, PerturbSpec
from .sparse_add import SparseAddSpec

SCALE = Format(3, 12, signed=False)
"""Format of a block's largest magnitude: Q4.12 without its sign."""
ZERO = int(np.flatnonzero(CODES == 0)[0])
"""Code of 0 for any scale."""


@dataclass(frozen=True, kw_only=True)
class WeightPathSpec(Spec):
    """Parameters and model of `weight_path`.

    Parameters
    ----------
    lanes : int
        Weights a cycle: 8, 16, 32 or 64.
    scales : int
        Maximum number of scales in a beat, 1 to 64; 1 if every block is a whole number of beats.
    index_bits : int
        Bits of a correction's index, see `sparse_add`.
    queue : int
        Corrections in the input FIFO, see `sparse_add`.
    numbers : int
        Numbers a cycle of the perturbation source, 1 to 4096.
    number : str
        Format of a number, see `perturb`.
    odd : bool
        True if an integer y represents ``y + 1/2`` last places.
    scale : str
        Format of the factor beside the numbers, see `perturb`; empty for already scaled numbers.
    eps_shift : int
        ``eps = 2**-eps_shift``, see `perturb`.
    overflow : "saturate" or "wrap"
        Overflow of the perturbed weights.
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
        """Spec of the dequantiser; `last` and `sign` pass through."""
        return Nf4DequantSpec(lanes=self.lanes, scales=self.scales, tag=BIT.width + SIGN.width)

    @cached_property
    def add(self) -> SparseAddSpec:
        """Spec of the corrections; `sign` passes through."""
        return SparseAddSpec(lanes=self.lanes, index_bits=self.index_bits, queue=self.queue, tag=SIGN.width)

    @cached_property
    def perturb(self) -> PerturbSpec:
        """Spec of the perturbation; `last` and `error` pass through."""
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
        """Cycles of a beat from codes to weights, without stalls."""
        return self.dequant.latency + self.add.latency + self.perturb.latency

    def streams(self) -> dict[str, Stream]:
        dequant, add, perturb = (spec.streams() for spec in (self.dequant, self.add, self.perturb))
        last = Field("last", BIT, doc="last beat of a packet, a tensor")
        select = tuple(item for item in dequant["i"].fields if item.name == "select")
        codes = (
            dequant["i"].fields[0],
            Field("scale", SCALE, self.scales, doc="largest magnitudes of blocks, 15 bits each"),
            *select,
            Field("sign", SIGN, doc="+1, -1, 0; -2 leaves the weights alone as 0 does"),
            last,
        )
        return {
            "codes": Stream(
                "in",
                codes,
                doc="NF4 weights as `Nf4Dequant` takes them, and the sign of their perturbation as `Perturb` takes "
                "it; `last` marks a packet's final beat.",
            ),
            "sparse": add["sparse"],
            "u": Stream(
                "in",
                tuple(item for item in perturb["i"].fields if item.name in ("number", "scale")),
                doc="Random numbers; one word for each beat that is perturbed, none for others.",
            ),
            "o": Stream(
                "out",
                (
                    perturb["o"].fields[0],
                    last,
                    Field("error", BIT, doc="with the last beat: a correction of this packet was dropped"),
                ),
                doc="The weights. `error` with `last`: a correction of the packet was out of order or beyond its end"
                " and was dropped.",
            ),
        }

    # -- words from tensors ------------------------------------------------------------------------------------------

    def packet(
        self, codes: Codes, scales: Integers, block: int, indices: Integers, values: Integers, sign: int
    ) -> dict[str, Words]:
        """Words of `codes` and `sparse` for one tensor.

        Raises `UserError` if shapes or ranges do not fit, indices do not ascend, or a beat has weights of more than
        `scales` blocks.

        Parameters
        ----------
        codes : array of uint8, (weights,)
            0 to 15.
        scales : array of int, (blocks,)
            Largest magnitude of each block, Q4.12.
        block : int
            Weights of a block; the last one may have fewer.
        indices, values : array of int, (k,)
            Corrections in Q4.12, sorted by index.
        sign : int
            1 or -1 to perturb, 0 for no perturbation.
        """
        count = codes.size
        if codes.ndim != 1 or not count or block < 1 or scales.shape != (cycles_of(count, block),):
            raise UserError(f"codes {codes.shape} in blocks of {block} do not fit scales {scales.shape}")
        if not 0 <= codes.min() <= codes.max() < len(CODES):
            raise UserError(f"a code is 0 to {len(CODES) - 1}; found {codes.min()} to {codes.max()}")
        if not 0 <= scales.min() <= scales.max() <= SCALE.maximum:
            raise UserError(f"a scale is 0 to {SCALE.maximum}; found {scales.min()} to {scales.max()}")
        if sign not in (-1, 0, 1):
            raise UserError(f"sign = {sign} is not 1, -1 or 0")
        beats = cycles_of(count, self.lanes)
        blocks = np.arange(beats * self.lanes).reshape(beats, self.lanes).clip(max=count - 1) // block
        reach = int((blocks[:, -1] - blocks[:, 0]).max()) + 1
        if reach > self.scales:
            raise UserError(f"a beat of {self.lanes} weights has {reach} blocks of {block}; scales = {self.scales}")
        padded = np.full(beats * self.lanes, ZERO, np.int64)
        padded[:count] = codes
        words = {
            "code": padded.reshape(beats, self.lanes),
            "scale": scales[(blocks[:, :1] + np.arange(self.scales)).clip(max=len(scales) - 1)],
            "sign": np.full((beats, 1), sign),
            "last": last_flags([beats]),
        }
        if self.dequant.select_bits:
            words["select"] = blocks - blocks[:, :1]
        return {"codes": words, "sparse": self.add.sparse_words(indices, values, count)}

    # -- the model ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Weights of all packets; a beat with sign 0 or -2 takes no numbers."""
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
        """Cycles from the entry of an idle block's first word to the exit of its last, without back-pressure."""
        slots = self.add.slots({"i": inputs["codes"], "sparse": inputs["sparse"]})
        start = max(self.dequant.latency, self.add.lead)
        return start + slots + self.add.latency + self.perturb.latency
