"""`fabtune demo`: from networks on drifted digits to verified Verilog, its estimates and a report."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..boards.estimate.estimate import estimate_rtlil
from ..boards.vivado.package import package
from ..hw.verilog import emit
from ..sim.simulator import require
from .demo_adapters import core_for_digits, tune_adapters
from .demo_zeroth import PRESETS, generators, tune_zeroth_order, verify_zeroth_order
from .outputs import OutputFolder
from .report import DemoResult, render
from .tables.options import Options
from .tables.pezo import pezo_6


def run(output: OutputFolder, simulator: str, console: Console) -> dict[str, Any]:
    """Run the demo and write its report and Verilog.

    Yosys estimates the core in a process of its own, which takes half of the time, beside everything else in this one.

    Parameters
    ----------
    output : OutputFolder
    simulator : "verilator" or "icarus"
    console : Console
        For the progress bars.

    Returns
    -------
    dict
        `DemoResult.facts`, ``seconds`` and ``report``, the path of the HTML file.

    Raises
    ------
    UserError
        If the simulator is not installed, or a file of the output may not be replaced.
    """
    began = time.monotonic()
    require(simulator)
    folders = [*(f"pezo_{name}" for name in PRESETS), "tile", "instantft"]
    output.refuse(["report.html", *(f"{folder}/spec.json" for folder in folders)])
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    beside = ThreadPoolExecutor(1)
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("estimate resources", total=5)
            core = core_for_digits()
            emitted = emit(core)
            estimate = beside.submit(estimate_rtlil, emitted.rtlil, emitted.top)
            estimate.add_done_callback(lambda _: progress.advance(bar))
            tuned = tune_zeroth_order(progress)
            adapters = tune_adapters(progress)
            verdicts = verify_zeroth_order(tuned, simulator, progress)
            files = {f"pezo_{name}": package(spec, "zcu102") for name, spec in generators().items()}
            files |= {"tile": package(tuned.tile, "zcu102"), "instantft": package(core, "kv260")}
            table = pezo_6(Options(progress=lambda _: progress.advance(bar)), variants=False)
            found = DemoResult(tuned, verdicts, adapters, core, estimate.result(), table, files)
            report = _write(found, output)
    finally:
        beside.shutdown(cancel_futures=True)
    return {**found.facts(), "seconds": round(time.monotonic() - began, 1), "report": report}


def _write(found: DemoResult, output: OutputFolder) -> str:
    """Write the report and all emitted files; return the report's path."""
    texts = {f"{folder}/{name}": text for folder, files in found.files.items() for name, text in files.items()}
    output.write(texts | {"report.html": render(found)})
    return str(output.path / "report.html")


def summary(facts: dict[str, Any]) -> str:
    """Describe what `run` gave in a few lines: accuracies, comparisons, cycles, resources and the report's path."""
    before, after = (100 * facts[f"accuracy_{when}"] for when in ("before", "after"))
    core_before, core_after = (100 * facts[f"instantft_accuracy_{when}"] for when in ("before", "after"))
    amounts = ", ".join(f"{amount:,g} {name.upper()}" for name, amount in facts["instantft_kv260"].items())
    lines = (
        f"zeroth order: {before:.1f}% of the drifted digits right before, {after:.1f}% after {facts['steps']:,} steps",
        f"    RTL of pezo and tile against golden: {facts['compared']:,} numbers in {facts['cycles']:,} cycles, "
        f"{facts['mismatches']} mismatches",
        f"adapters: {core_before:.1f}% right before, {core_after:.1f}% after, in the RTL of instantft",
        f"    RTL against golden: {facts['instantft_batches_compared']:,} batches, "
        f"{facts['instantft_mismatches']} mismatches; {facts['instantft_cycles']:,} cycles, "
        f"{facts['instantft_ms_at_200_mhz']} ms at 200 MHz",
        f"    estimate for the KV260: {amounts}",
        f"report: {facts['report']} ({facts['seconds']:.0f} s)",
    )
    return "\n".join(lines)
