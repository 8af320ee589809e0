"""Estimates of published designs compared with their authors' Vivado figures.

The designs are third-party work and not stored here: calibration.csv gives their sources, docs/estimate.md the steps.
Half of them, chosen by a checksum of the name before any tuning, were not used for tuning.
"""

from __future__ import annotations

import csv
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import pytest

from fabtune.boards.estimate.accuracy import PATH_SPREAD, RATIO
from fabtune.boards.estimate.estimate import Estimate, estimate_verilog

VARIABLE = "FABTUNE_CALIBRATION"
LEAST_LUTS = 100
"""Smaller designs appear in the table, not in the means."""
SPEED = {"xc7a-1": 3.0, "xc7a-2": 2.5, "7k-1": 2.0, "xczu-2": 1.0}
"""Delay of a family's speed grade relative to UltraScale+ -2, from cores built for several.

PicoRV32's table lists 4.2, 3.5 and 2.8 ns for Artix-7 -1 and -2 and Kintex-7 -1; FPGA-QOI runs 2.7 and 3.3 times as
fast on a Zynq UltraScale+ -2 as on an Artix-7 -1.
"""


@dataclass(frozen=True)
class Build:
    """A row of the table, with its estimate."""

    row: dict[str, str]
    estimate: Estimate

    def ratio(self, resource: str) -> float | None:
        """Estimate divided by published figure."""
        published = float(self.row[resource] or 0)
        return self.estimate.resources[resource] / published if published else None

    @property
    def design(self) -> str:
        """Design name; builds of a design with different settings count as one."""
        shared = self.row["core"] in ("hdl-modules", "osfpga")
        return self.row["core"] + (f" {self.row['build'].split('_')[0]}" if shared else "")


@pytest.fixture(scope="module")
def builds() -> list[Build]:
    folder = Path(os.environ.get(VARIABLE) or "/nowhere")
    with Path(__file__).with_name("calibration.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["excluded"]]
    here = [row for row in rows if all((folder / row["core"] / name).exists() for name in row["files"].split())]
    if len(here) < len(rows):
        pytest.skip(f"{len(rows) - len(here)} of {len(rows)} designs are not in {VARIABLE}: see docs/estimate.md")

    def found(row: dict[str, str]) -> Build:
        files = [folder / row["core"] / name for name in row["files"].split()]
        parameters = dict(one.split("=", 1) for one in row["parameters"].split())
        return Build(row, estimate_verilog(files, row["top"], parameters))

    with ThreadPoolExecutor(2) as pool:
        measured = list(pool.map(found, here))
    _write_table(measured, Path("build/calibration.md"))
    return measured


def _write_table(measured: Sequence[Build], file: Path) -> None:
    lines = [
        "| half | design | build | LUT: published | estimate | | FF: published | estimate | |",
        "|---|---|---|" + "--:|" * 6,
    ]
    for build in sorted(measured, key=lambda build: (build.row["half"], build.design, build.row["build"])):
        cells = [build.row["half"], build.design, build.row["build"]]
        for resource in ("lut", "ff"):
            ratio = build.ratio(resource)
            error = f"{ratio - 1:+.0%}" if ratio else ""
            cells += [build.row[resource], f"{build.estimate.resources[resource]:.0f}", error]
        lines.append(f"| {' | '.join(cells)} |")
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _ratios(builds: Sequence[Build], half: str, resource: str) -> list[tuple[str, float]]:
    large = [one for one in builds if one.row["half"] == half and int(one.row["lut"]) >= LEAST_LUTS]
    return [(one.design, ratio) for one in large if (ratio := one.ratio(resource)) is not None]


def _mean(values: Sequence[tuple[str, float]], what: Callable[[float], float]) -> tuple[float, float]:
    """Mean over builds, and over designs."""
    by_design = defaultdict(list)
    for design, ratio in values:
        by_design[design].append(what(ratio))
    means = [sum(found) / len(found) for found in by_design.values()]
    return sum(what(ratio) for _, ratio in values) / len(values), sum(means) / len(means)


@pytest.mark.slow
@pytest.mark.parametrize(("half", "lut", "ff"), [("fit", 0.19, 0.022), ("test", 0.15, 0.052)])
def test_mean_error(builds: list[Build], half: str, lut: float, ff: float) -> None:
    for resource, most in (("lut", lut), ("ff", ff)):
        found = _ratios(builds, half, resource)
        error, bias = _mean(found, lambda ratio: abs(ratio - 1)), _mean(found, lambda ratio: ratio - 1)
        median = sorted(abs(ratio - 1) for _, ratio in found)[len(found) // 2]
        shown = f"mean error {error[0]:.1%}, bias {bias[0]:+.1%}, median {median:.1%}"
        print(f"{half}, {resource}, {len(found)} builds: {shown}")
        print(f"  over {len({design for design, _ in found})} designs {error[1]:.1%}, bias {bias[1]:+.1%}")
        assert error[0] <= most


@pytest.mark.slow
@pytest.mark.parametrize("resource", ["lut", "ff"])
def test_interval(builds: list[Build], resource: str) -> None:
    low, high = RATIO[resource]
    ratios = [1 / ratio for _, ratio in _ratios(builds, "test", resource)]
    inside = sum(low <= ratio <= high for ratio in ratios)
    print(f"{resource}: {inside} of {len(ratios)} are within {low} to {high} times the estimate")
    assert inside / len(ratios) == pytest.approx(0.8, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("resource", ["bram36", "dsp"])
def test_interval_of_what_few_designs_have(builds: list[Build], resource: str) -> None:
    low, high = RATIO[resource]
    estimated = [(one.estimate.resources[resource], one.row[resource]) for one in builds if one.row[resource]]
    ratios = [float(published) / estimate for estimate, published in estimated if estimate]
    inside = sum(low <= ratio <= high for ratio in ratios)
    print(f"{resource}: {inside} of {len(ratios)} are within {low} to {high} times the estimate")
    assert inside / len(ratios) >= 0.8


@pytest.mark.slow
def test_spread_of_slowest_path(builds: list[Build]) -> None:
    ratios = {}
    for build in (one for one in builds if one.row["mhz"]):
        device = build.row["device"].removesuffix("-e")
        speed = next(f for name, f in SPEED.items() if device.startswith(name[:-2]) and device.endswith(name[-2:]))
        ratios[build.row["build"]] = build.estimate.slowest.ns * speed / (1000 / float(build.row["mhz"]))
    mean, spread = statistics.geometric_mean(ratios.values()), exp(statistics.stdev(map(log, ratios.values())))
    print({name: round(ratio, 2) for name, ratio in ratios.items()})
    print(f"slowest path, {len(ratios)} builds: mean {mean:.2f}, x/: {spread:.2f}")
    assert mean == pytest.approx(1, abs=0.15)
    assert spread <= PATH_SPREAD
