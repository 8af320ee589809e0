"""PeZO's figures 3 and 4, and the questions that they leave open: how many numbers, generators and bits are enough?"""

from __future__ import annotations

from .options import Options, Rows
from .zeroth import MEZO, STAND_IN, Way, compared

_POOLS = (255, 1023, 4095, 16_383, 65_535)
_GENERATORS = (3, 7, 15, 31, 63)
_BITS = (5, 6, 8, 10, 12, 14)


def pezo_fig3(options: Options) -> Rows:
    """Figure 3: accuracy by number of numbers in the pool, and by number of generators on the fly."""
    ways = {MEZO: "MeZO"}
    ways |= {Way("pezo-pool", "pool", (f"pool.size={size}",)): f"pool of {size:,}" for size in _POOLS}
    ways[Way("pezo-pool", "pool", ("pool.size=4064", "pool.p=32"))] = "pool of 4,064, 32 a cycle"
    ways |= {Way("pezo-otf", "otf8", (f"scale.urng.n={n}",)): f"{n} generators" for n in _GENERATORS}
    return _rows(
        "PeZO, figure 3: numbers in the pool, generators on the fly",
        ways,
        options,
        [
            "paper: accuracy grows to 2^12 numbers and to 2^5 generators, and not beyond",
            "tiles of 32 lanes: of 63 generators 32 are used in a cycle; the 8 numbers of a pool four times each, "
            "unless it says otherwise",
        ],
    )


def pezo_fig4(options: Options) -> Rows:
    """Figure 4: accuracy by number of bits; also the influence of the factor's table and of the leap."""
    ways = {MEZO: "MeZO"}
    ways |= {Way("pezo-otf", "otf8", (f"scale.urng.bits={bits}",)): f"{bits} bits" for bits in _BITS}
    ways |= {
        Way("pezo-otf", "otf8", ("scale.mode=pow2",)): "8 bits, factor a power of two",
        Way("pezo-otf", "otf8", ("scale.mode=constant",)): "8 bits, constant factor",
        Way("pezo-otf", "otf8", ("scale.urng.leap=4",)): "8 bits, leap 4",
    }
    return _rows(
        "PeZO, figure 4: bits of a generator; beyond the paper: its factor, and its leap",
        ways,
        options,
        ["paper: RoBERTa's loss falls until 8 bits, OPT's until 14"],
    )


def _rows(title: str, ways: dict[Way, str], options: Options, notes: list[str]) -> Rows:
    return {"title": title, **compared(options, ("trec",), ways, "generator", MEZO), "notes": [*notes, *STAND_IN]}
