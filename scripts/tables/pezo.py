"""PeZO: table 6 by open synthesis."""

from __future__ import annotations

from typing import Any

from ...boards.estimate.estimate import Estimate, estimate_spec
from ...golden.rng.grng import GrngSpec
from ...golden.rng.pezo import PezoSpec
from ...golden.rng.pool import PoolSpec
from ...golden.settings import build
from .options import Options, Rows

TREES = 1024
"""Number of Gaussian generators that MeZO needs for a tile of 1,024 weights."""

_PAPER = {
    "MeZO, 1,024 trees": (133_120, 69_632, 0),
    "PeZO pool": (0, 16, 8),
    "PeZO on the fly, 8 bit": (32, 449, 1),
    "PeZO on the fly, 14 bit": (32, 512, 1),
}
_RESOURCES = ("lut", "ff", "bram36")


def pezo_6(options: Options, variants: bool = True) -> Rows:
    """Table 6 of PeZO: resources of random number generation on the ZCU102.

    ``variants`` adds designs that the paper does not list. ``rows`` has for each design and resource the paper's
    number, the number from open synthesis, and the latter over the former (None if the paper has 0); ``notes`` lists
    deviations.
    """
    designs = {
        "PeZO pool": PezoSpec(strategy="pool"),
        "PeZO on the fly, 8 bit": build(PezoSpec, ["replay=false"], "otf8"),
        "PeZO on the fly, 14 bit": build(PezoSpec, ["replay=false"], "otf14"),
    }
    extra = {
        "pool of exactly 4,095": PezoSpec(strategy="pool", pool=PoolSpec(size=4095)),
        "8 bit, with replay inside": build(PezoSpec, [], "otf8"),
        "14 bit, with replay inside": build(PezoSpec, [], "otf14"),
    }
    options.progress("one Gaussian tree")
    tree = estimate_spec(GrngSpec(form="tree"))
    measured = {"MeZO, 1,024 trees": {name: TREES * tree.resources[name] for name in _RESOURCES}}
    levels = {"MeZO, 1,024 trees": tree}
    for name, spec in (designs | (extra if variants else {})).items():
        options.progress(name)
        levels[name] = estimate_spec(spec)
        measured[name] = {resource: levels[name].resources[resource] for resource in _RESOURCES}
    rows = [_row(name, resources, levels[name]) for name, resources in measured.items()]
    return {
        "title": "PeZO, table 6: random number generation on the ZCU102",
        "rows": rows,
        "notes": [
            "measured: open synthesis with the packing estimate of docs/estimate.md, not Vivado",
            "MeZO: one tree synthesised and counted 1,024 times, as a hierarchical design would be",
            "on the fly: 31 generators, exact factor with 2 fraction bits beside the numbers, state loaded serially; "
            "the paper's FF counts are 32 x 14 + 1 and 32 x 16, its factor a power of two from a block RAM",
            *(["rows without paper numbers: what the paper leaves out and a design needs"] if variants else []),
        ],
    }


def _row(name: str, resources: dict[str, float], result: Estimate) -> dict[str, Any]:
    row: dict[str, Any] = {"design": name}
    paper = _PAPER.get(name)
    for index, resource in enumerate(_RESOURCES):
        printed = paper[index] if paper else None
        row[f"{resource} paper"] = printed
        row[f"{resource} measured"] = resources[resource]
        row[f"{resource} ratio"] = round(resources[resource] / printed, 3) if printed else None
    row["logic levels"] = result.logic_levels
    return row
