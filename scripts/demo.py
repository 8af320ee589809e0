"""`fabtune demo`: the whole way from a drifted network to Verilog, in one run."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..boards.vivado.package import package
from ..golden.registry import BLOCKS
from ..golden.settings import build
from ..golden.train.zo.digits_job import DigitsJob, prepare
from ..golden.zo.tile import TileSpec
from ..golden.zo.tile_job import TileStep, fine_tune
from ..sim.phase import Phase
from ..sim.simulator import require
from ..sim.verify import Verdict, verify, verify_phases
from .demo_adapters import adapters_table, tune_digits
from .outputs import OutputFolder
from .report import render
from .tables.options import Options
from .tables.pezo import pezo_6

STEPS = 4000
RATE = 0.01
THROUGH_RTL = 24
"""Steps of the fine-tuning, the first ones, whose weights go through the simulated hardware."""
CONFIGURATIONS = ("pool", "otf8", "otf14")
EVERY = 20


def demo(output: OutputFolder, simulator: str, console: Console) -> dict[str, Any]:
    """Run the demo.

    Parameters
    ----------
    output : OutputFolder
        For the report and the Verilog.
    simulator : "verilator" or "icarus"
    console : Console
        Where progress is shown.

    Returns
    -------
    dict
        ``accuracy_before``, ``accuracy_after`` and the same of ``instantft_`` (fractions, held-out drifted images),
        ``instantft_cycles`` and so on of the core,
        ``bit_exact``, ``compared``, ``mismatches``, ``cycles``, ``seconds``, ``report``.
    """
    began = time.monotonic()
    require(simulator)
    folders = [*(f"pezo_{name}" for name in CONFIGURATIONS), "tile", "instantft"]
    output.refuse(["report.html", *(f"{folder}/spec.json" for folder in folders)])
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        job = prepare()
        tile = TileSpec()
        history, steps, tuned = _tune(job, tile, progress)
        verdicts = _verify(tile, steps, simulator, progress)
        adapters, core = tune_digits(progress)
        files = {f"pezo_{name}": package(build(BLOCKS["pezo"], [], name), "zcu102") for name in CONFIGURATIONS}
        files["tile"] = package(tile, "zcu102")
        files["instantft"] = package(core.spec, "kv260")
        task = progress.add_task("estimate resources", total=7)
        table = pezo_6(Options(progress=lambda _: progress.advance(task)))
        task = progress.add_task("write the report", total=1)
        facts = {
            "accuracy_undrifted": job.accuracy_undrifted,
            "accuracy_before": history[0][2],
            "accuracy_after": job.accuracy(tuned, job.test),
            "weights": len(tuned),
            "steps": STEPS,
            "instantft_accuracy_before": adapters["instantft", "golden"].accuracy_before,
            "instantft_accuracy_after": adapters["instantft", "rtl"].accuracy_after,
            "instantft_cycles": core.comparison.cycles,
            "instantft_ms_at_200_mhz": core.comparison.facts["ms_at_200_mhz"],
            "instantft_batches_compared": core.comparison.batches_compared,
            "instantft_mismatches": core.comparison.mismatches,
            "instantft_bit_exact": core.comparison.mismatches == 0,
            "instantft_kv260": core.estimate.resources,
        }
        emitted = {name: list(texts) for name, texts in files.items()}
        rows = adapters_table(adapters, core.comparison)
        page = render(tile, history, verdicts, table, facts, emitted, adapters, rows, core)
        texts = {f"{folder}/{name}": text for folder, inside in files.items() for name, text in inside.items()}
        output.write(texts | {"report.html": page})
        progress.advance(task)
    return {
        **facts,
        "bit_exact": all(verdict.passed for verdict in verdicts.values()) and facts["instantft_bit_exact"],
        "compared": sum(verdict.compared for verdict in verdicts.values()),
        "mismatches": sum(verdict.mismatches for verdict in verdicts.values()),
        "cycles": sum(verdict.cycles for verdict in verdicts.values()),
        "seconds": round(time.monotonic() - began, 1),
        "report": str(output.path / "report.html"),
    }


def summary(facts: dict[str, Any]) -> str:
    """Describe what `demo` gave in a few lines: accuracies, comparisons, cycles, resources and the report's path."""
    before, after = (100 * facts[f"accuracy_{when}"] for when in ("before", "after"))
    core_before, core_after = (100 * facts[f"instantft_accuracy_{when}"] for when in ("before", "after"))
    amounts = ", ".join(f"{amount:,g} {name.upper()}" for name, amount in facts["instantft_kv260"].items())
    return "\n".join(
        [
            f"zeroth order (pezo, tile): {before:.1f}% of the drifted digits right before, {after:.1f}% after "
            f"{facts['steps']:,} steps",
            f"    RTL against golden: {facts['compared']:,} numbers in {facts['cycles']:,} cycles, "
            f"{facts['mismatches']} mismatches",
            f"adapters (instantft):      {core_before:.1f}% right before, {core_after:.1f}% after, in the core's RTL",
            f"    RTL against golden: {facts['instantft_batches_compared']:,} batches, "
            f"{facts['instantft_mismatches']} mismatches; {facts['instantft_cycles']:,} cycles, "
            f"{facts['instantft_ms_at_200_mhz']} ms at 200 MHz",
            f"    estimate: {amounts}",
            f"report: {facts['report']} ({facts['seconds']:.0f} s)",
        ]
    )


def _tune(
    job: DigitsJob, tile: TileSpec, progress: Progress
) -> tuple[list[tuple[int, float, float]], list[TileStep], Any]:
    """(step, loss, held-out accuracy) along the way, the first steps whole, and the tuned weights."""
    task = progress.add_task("fine-tune in the model", total=STEPS)
    weights = job.weights.copy()
    history, kept = [(0, job.loss(weights, job.tune), job.accuracy(weights, job.test))], []
    for number, step in enumerate(fine_tune(weights, lambda w: job.loss(w, job.tune), tile, STEPS, RATE), 1):
        if number <= THROUGH_RTL:
            kept.append(step)
        if number % EVERY == 0:
            history.append((number, step.loss, job.accuracy(weights, job.test)))
            progress.update(task, completed=number)
    return history, kept, weights


def _verify(tile: TileSpec, steps: list[TileStep], simulator: str, progress: Progress) -> dict[str, Verdict]:
    """The steps' weights through the whole tile; then each generator on its own."""
    task = progress.add_task("weights through the RTL", total=1 + len(CONFIGURATIONS))
    phases: list[Phase] = []
    for step in steps:
        for given in tile.passes(step.weights):
            expected = tile.perturbed(given["i"], step.position)
            phases.append(Phase(given, {"o": expected}, reset=not phases))
    verdicts = {f"tile, {len(steps)} steps of the network's weights": verify_phases(tile, phases, simulator)}
    progress.advance(task)
    for name in CONFIGURATIONS:
        spec = build(BLOCKS["pezo"], [], name)
        verdicts[f"pezo, {name}"] = verify(spec, simulator, words=2000)
        progress.advance(task)
    return verdicts
