"""Results of the demo, and the report: an HTML file with inline plots."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from jinja2 import Environment
from matplotlib.axes import Axes

from ... import __version__
from ...boards.board import BOARDS, DEFAULT_MHZ
from ...boards.estimate.estimate import Estimate
from ...golden.rng.grng import GrngSpec
from ...golden.rng.scale import ScaleSpec, expected_modulus
from ...golden.rng.statistics import autocorrelation, modulus
from ...golden.train.adapters.methods import METHODS
from ...sim.verify import Verdict
from ..curve import inline_picture
from ..tables.options import Rows
from .adapters import COLOURS, METHOD, AdapterRuns
from .zeroth import CORE, ZerothOrderRun, generators

NAMES = {"pool": "pool", "otf8": "on the fly, 8 bit", "otf14": "on the fly, 14 bit"}
CORES = ("zotrain", "instantft")
CYCLES = 1 << 14
"""Number of cycles whose numbers are plotted."""


@dataclass(frozen=True)
class Provenance:
    """Facts that reproduce a report: shell command, ISO 8601 day, seed of all random numbers, versions.

    ``libraries`` are the versions of libraries that the float results depend on.
    """

    command: str
    date: str
    seed: int = 0
    version: str = __version__
    libraries: str = f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}"


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo.

    ``verdicts`` has, by name, the comparison of a generator's RTL with golden; ``estimates`` are those of both cores;
    ``table`` is from `pezo_6`; ``files`` are the emitted texts by folder and name.
    """

    zeroth_order: ZerothOrderRun
    adapters: AdapterRuns
    verdicts: dict[str, Verdict]
    estimates: dict[str, Estimate]
    table: Rows
    files: dict[str, dict[str, str]]
    origin: Provenance

    def facts(self) -> dict[str, Any]:
        """Accuracies (fractions of held-out images correct), comparisons, cycles and resources by name.

        ``zotrain_cycles`` and ``zotrain_milliseconds``, at ``mhz``, are for the steps in the RTL.
        """
        run, results = self.zeroth_order, self.adapters.results
        zotrain, instantft, verdicts = run.comparison, self.adapters.comparison, self.verdicts.values()
        tuned = results["instantft", "rtl"]
        return {
            "accuracy_undrifted": run.undrifted,
            "accuracy_before": run.result.accuracy_before,
            "zotrain_accuracy_after": run.result.accuracy_after,
            "zotrain_accuracy_in_rtl": run.in_rtl.accuracy_after,
            "zotrain_trained_parameters": run.result.trained_parameters,
            "zotrain_steps": run.steps,
            "zotrain_steps_compared": zotrain.compared,
            "mhz": DEFAULT_MHZ,
            **{f"{core.name}_array": f"{core.lanes} x {core.columns}" for core in (run.core, self.adapters.core)},
            "zotrain_cycles": zotrain.cycles,
            "zotrain_cycles_per_step": zotrain.facts["cycles_per_step"],
            "zotrain_milliseconds": zotrain.facts["milliseconds"],
            "zotrain_mismatches": zotrain.mismatches,
            "zotrain_bit_exact": zotrain.mismatches == 0,
            "instantft_accuracy_after": tuned.accuracy_after,
            "instantft_trained_parameters": tuned.trained_parameters,
            "instantft_batches_compared": instantft.compared,
            "instantft_cycles": instantft.cycles,
            "instantft_cycles_per_batch": round(instantft.cycles / instantft.compared),
            "instantft_milliseconds": instantft.facts["milliseconds"],
            "instantft_mismatches": instantft.mismatches,
            "instantft_bit_exact": instantft.mismatches == 0,
            **{f"{name}_kv260": self.estimates[name].resources for name in CORES},
            "pezo_compared": sum(verdict.compared for verdict in verdicts),
            "pezo_cycles": sum(verdict.cycles for verdict in verdicts),
            "pezo_mismatches": sum(verdict.mismatches for verdict in verdicts),
            **asdict(self.origin),
            "bit_exact": not zotrain.mismatches + instantft.mismatches and all(verdict.passed for verdict in verdicts),
        }


def render(result: DemoResult) -> str:
    """The page as HTML with inline plots."""
    drawn = {
        NAMES[name]: np.ldexp(spec.draw(0, CYCLES).astype(np.float64), -spec.fraction_bits)
        for name, spec in generators().items()
    }
    plots = {
        "Distribution of the scaled numbers": inline_picture(lambda axes: _distribution(axes, drawn)),
        "Autocorrelation of a lane": inline_picture(lambda axes: _correlation(axes, drawn)),
        "Modulus of a cycle's 31 numbers over a Gaussian's": inline_picture(_modulus),
    }
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        files(__package__).joinpath("report.html.j2").read_text()
    )
    return template.render(
        facts=result.facts(),
        origin=result.origin,
        trainers=_trainers(result),
        accuracy_plot=inline_picture(lambda axes: _accuracy(axes, result), (9, 4)),
        methods=result.adapters.rows(),
        comparisons=_comparisons(result),
        table=result.table,
        plots=plots,
        emitted={folder: list(texts) for folder, texts in result.files.items()},
        estimates=[result.estimates[name] for name in CORES],
        device=BOARDS["kv260"].resources,
        estimating=f"fabtune estimate {result.zeroth_order.core.name} --preset {CORE} --board kv260",
    )


def _trainers(result: DemoResult) -> list[tuple[str, ...]]:
    facts, run, adapters = result.facts(), result.zeroth_order, result.adapters
    epochs = len(adapters.results["instantft", "golden"].epochs)
    cycles = run.steps * facts["zotrain_cycles_per_step"]
    batches, in_rtl = facts["instantft_batches_compared"], facts["zotrain_steps_compared"]
    return [
        ("tunes", "all weights", f"adapters of rank {adapters.settings.rank}"),
        ("trained parameters", *(f"{facts[f'{name}_trained_parameters']:,}" for name in CORES)),
        ("held-out drifted digits right before", *(f"{100 * facts['accuracy_before']:.1f} %" for _ in CORES)),
        ("after", *(f"{100 * facts[f'{name}_accuracy_after']:.1f} %" for name in CORES)),
        (f"steps of {adapters.settings.batch} samples", f"{run.steps:,}", f"{batches:,}"),
        ("samples passed forward", f"{run.passes[-1]:,}", f"{epochs * adapters.samples:,}"),
        ("of them through all layers", f"{run.passes[-1]:,}", f"{adapters.samples:,}"),
        ("multipliers of the array", *(f"{core.lanes} x {core.columns}" for core in (run.core, adapters.core))),
        (
            "cycles a step, memory included",
            f"{facts['zotrain_cycles_per_step']:,}",
            f"{facts['instantft_cycles_per_batch']:,}",
        ),
        ("cycles of the job", f"{cycles:,}", f"{facts['instantft_cycles']:,}"),
        (
            f"the same at {DEFAULT_MHZ} MHz",
            f"{cycles / DEFAULT_MHZ / 1000:.1f} ms",
            f"{facts['instantft_milliseconds']:.1f} ms",
        ),
        (
            "of it in the RTL",
            f"the first {in_rtl:,} steps, to {100 * facts['zotrain_accuracy_in_rtl']:.1f} %",
            f"all {batches:,} steps",
        ),
    ]


def _comparisons(result: DemoResult) -> list[tuple[str, int, str, int, str, bool]]:
    """Rows of comparisons: name, cycles, counts of compared items and differences, simulator, whether equal."""
    zotrain, instantft = result.zeroth_order.comparison, result.adapters.comparison
    jobs = (zotrain, f"{zotrain.compared:,} steps"), (instantft, f"{instantft.compared:,} steps")
    rows = [
        (name, job.cycles, f"{what}, {job.logits_compared} outputs", job.mismatches, "verilator", not job.mismatches)
        for name, (job, what) in zip(CORES, jobs, strict=True)
    ]
    for name, verdict in result.verdicts.items():
        compared = f"{verdict.compared:,} numbers"
        rows.append((name, verdict.cycles, compared, verdict.mismatches, verdict.simulator, verdict.passed))
    return rows


def _accuracy(axes: Axes, result: DemoResult) -> None:
    run = result.zeroth_order
    # a logarithmic axis has no 0, so a line shows the accuracy before tuning
    passes, right = zip(*run.curve[1:], strict=True)
    axes.plot(passes, [100 * fraction for fraction in right], color="tab:red", label="zeroth order, integers")
    passes_compared = run.passes[run.comparison.compared]
    axes.plot(
        passes_compared, 100 * run.in_rtl.accuracy_after, "o", color="tab:red", label="to here in the RTL of zotrain"
    )
    for (method, engine), curve in result.adapters.curves.items():
        passes, right = zip(*curve[1:], strict=True)
        dashed, numbers = ("-", "integers") if engine == "golden" else ("--", "float")
        rtl = " and RTL" * ((method, engine) == (METHOD, "golden"))
        label = f"{METHODS[method].title}, {numbers}{rtl}"
        axes.plot(
            passes, [100 * fraction for fraction in right], dashed, color=COLOURS[method], label=label, linewidth=1.2
        )
    axes.axhline(100 * run.result.accuracy_before, color="black", linestyle=":", label="before")
    axes.set(xscale="log", ylim=(40, 100), xlabel="samples passed forward", ylabel="held-out drifted digits right, %")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


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
