"""Results of the demo, and its report: one HTML file with its plots inside."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jinja2 import Environment
from matplotlib.axes import Axes

from .. import __version__
from ..boards.board import BOARDS
from ..boards.estimate.estimate import Estimate
from ..golden.cores.instantft import InstantftSpec
from ..golden.rng.grng import GrngSpec
from ..golden.rng.scale import ScaleSpec, expected_modulus
from ..golden.rng.statistics import autocorrelation, modulus
from ..golden.train.adapters.methods import METHODS
from ..golden.train.adapters.tune import Result
from ..sim.verify import Verdict
from .demo_adapters import AdapterRuns
from .demo_zeroth import STEPS, ZerothOrderRun, generators
from .tables.options import Rows

NAMES = {"pool": "pool", "otf8": "on the fly, 8 bit", "otf14": "on the fly, 14 bit"}
CYCLES = 1 << 14
"""Cycles whose numbers are plotted."""


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo.

    Parameters
    ----------
    zeroth_order : ZerothOrderRun
    verdicts : dict of str to Verdict
        The RTL of zeroth order against golden, by what was verified.
    adapters : AdapterRuns
    core : InstantftSpec
        The core that fine-tuned with adapters.
    estimate : Estimate
        Estimate of the core.
    table : dict
        See `pezo_6`.
    files : dict of str to dict of str to str
        Text of the emitted files by folder and name.
    """

    zeroth_order: ZerothOrderRun
    verdicts: dict[str, Verdict]
    adapters: AdapterRuns
    core: InstantftSpec
    estimate: Estimate
    table: Rows
    files: dict[str, dict[str, str]]

    def facts(self) -> dict[str, Any]:
        """Accuracies (fractions of held-out images right), comparisons, cycles and resources by name."""
        undrifted, before, after = self.zeroth_order.accuracies
        results, comparison = self.adapters.results, self.adapters.comparison
        verdicts = self.verdicts.values()
        equal = comparison.mismatches == 0
        return {
            "accuracy_undrifted": undrifted,
            "accuracy_before": before,
            "accuracy_after": after,
            "weights": len(self.zeroth_order.weights),
            "steps": STEPS,
            "instantft_accuracy_before": results["instantft", "golden"].accuracy_before,
            "instantft_accuracy_after": results["instantft", "rtl"].accuracy_after,
            "instantft_cycles": comparison.cycles,
            "instantft_ms_at_200_mhz": comparison.facts["ms_at_200_mhz"],
            "instantft_batches_compared": comparison.batches_compared,
            "instantft_mismatches": comparison.mismatches,
            "instantft_bit_exact": equal,
            "instantft_kv260": self.estimate.resources,
            "bit_exact": equal and all(verdict.passed for verdict in verdicts),
            "compared": sum(verdict.compared for verdict in verdicts),
            "mismatches": sum(verdict.mismatches for verdict in verdicts),
            "cycles": sum(verdict.cycles for verdict in verdicts),
        }


def render(found: DemoResult) -> str:
    """Write the page as HTML with its plots inside."""
    zeroth_order, adapters = found.zeroth_order, found.adapters
    drawn = {
        NAMES[name]: np.ldexp(spec.draw(0, CYCLES).astype(np.float64), -spec.fraction_bits)
        for name, spec in generators().items()
    }
    plots = {
        "Accuracy and loss over steps": _plot(lambda axes: _accuracy(axes, zeroth_order.history)),
        "Distribution of the scaled numbers": _plot(lambda axes: _distribution(axes, drawn)),
        "Autocorrelation of a lane": _plot(lambda axes: _correlation(axes, drawn)),
        "Modulus of a cycle's 31 numbers over a Gaussian's": _plot(_modulus),
    }
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        files(__package__).joinpath("report.html.j2").read_text()
    )
    return template.render(
        version=__version__,
        tile=zeroth_order.tile,
        verdicts=found.verdicts,
        table=found.table,
        facts=found.facts(),
        emitted={folder: list(texts) for folder, texts in found.files.items()},
        plots=plots,
        adapters=adapters.rows(),
        adapters_plot=_plot(lambda axes: _epochs(axes, adapters.results)),
        comparison=adapters.comparison,
        core=found.core,
        estimate=found.estimate,
        device=BOARDS["kv260"].resources,
    )


def _plot(draw: Callable[[Axes], None]) -> str:
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    draw(axes)
    axes.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    plt.close(figure)
    return base64.b64encode(picture.getvalue()).decode()


def _accuracy(axes: Axes, history: list[tuple[int, float, float]]) -> None:
    steps, losses, accuracies = zip(*history, strict=True)
    axes.plot(steps, [100 * accuracy for accuracy in accuracies], color="tab:blue")
    axes.set(xlabel="step", ylabel="accuracy on held-out drifted digits, %", ylim=(0, 100))
    other = axes.twinx()
    other.plot(steps, losses, color="tab:orange", alpha=0.7)
    other.set(ylabel="loss on the tuning samples")
    other.set_ylim(bottom=0)


def _epochs(axes: Axes, adapters: dict[tuple[str, str], Result]) -> None:
    for (method, engine), result in adapters.items():
        if engine == "rtl":
            continue  # the same bits as golden, and so the same curve
        dashed = "-" if engine == "golden" else "--"
        axes.plot(
            [100 * one for one in result.curve], dashed, label=f"{METHODS[method].title}, {engine}", linewidth=1.2
        )
    axes.set(xlabel="epoch", ylabel="accuracy on held-out drifted digits, %", ylim=(0, 100))
    axes.legend(fontsize=8)


def _distribution(axes: Axes, drawn: dict[str, np.ndarray]) -> None:
    edges = np.linspace(-3.5, 3.5, 57)
    bins = edges.tolist()
    for name, numbers in drawn.items():
        axes.hist(numbers.reshape(-1), bins, density=True, histtype="step", label=name)
    tree = np.ldexp(GrngSpec().draw(0, 1 << 18).astype(np.float64), -6)
    axes.hist(tree.reshape(-1), bins, density=True, histtype="step", label="tree GRNG", color="grey")
    axes.plot(edges, np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi), "k:", label="Gaussian")
    axes.set(xlabel="number", ylabel="density")
    axes.legend(fontsize=8)


def _correlation(axes: Axes, drawn: dict[str, np.ndarray]) -> None:
    lags = range(1, 301)
    for name, numbers in drawn.items():
        axes.plot(lags, list(autocorrelation(numbers[:, 0], lags).values()), label=name, linewidth=0.9)
    tree = autocorrelation(GrngSpec().draw(0, 1 << 16).reshape(-1), lags)
    axes.plot(lags, list(tree.values()), label="tree GRNG", color="grey", linewidth=0.9, zorder=0)
    axes.set(xlabel="lag, cycles", ylabel="autocorrelation")
    axes.legend(fontsize=8)


def _modulus(axes: Axes) -> None:
    cycles = 255
    for label, spec in (
        ("power of two, the paper's", ScaleSpec(mode="pow2")),
        ("constant", ScaleSpec(mode="constant", fraction=8)),
        ("2 fraction bits", ScaleSpec()),
        ("4 fraction bits", ScaleSpec(fraction=4)),
    ):
        numbers = np.ldexp(spec.draw(0, cycles).astype(np.float64), -spec.fraction_bits)
        axes.plot(modulus(numbers) / expected_modulus(spec.urng.n), label=label, linewidth=0.9)
    axes.axhline(1, color="black", linestyle=":")
    axes.set(xlabel="cycle", ylabel="ratio")
    axes.legend(fontsize=8)
