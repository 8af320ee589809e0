"""`fabtune demo`: from networks on drifted digits to verified Verilog, estimates and a report."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn
from torch import nn

from ...boards.estimate.estimate import estimate_emitted
from ...boards.vivado.package import package
from ...golden.datasets.dataset import Task
from ...golden.datasets.tasks import task_of
from ...golden.models.network import Network
from ...golden.models.text import preset
from ...golden.train.pretrain import pretrained, pretraining_defaults
from ...golden.zo.tile import TileSpec
from ...hw.verilog import emit
from ...sim.compiled.comparison import compiled_core
from ...sim.simulator import require
from ..outputs import OutputFolder
from ..progress import Bars
from ..tables.options import Options
from ..tables.pezo import pezo_6
from . import adapters, zeroth
from .report import CORES, DemoResult, Provenance, render


def run(output: OutputFolder, simulator: str, origin: Provenance, console: Console) -> dict[str, Any]:
    """Run the demo and write report and Verilog.

    Background processes estimate both cores and compile zotrain; this takes as long as the rest of the demo. A
    `UserError` if the simulator is not installed, or a file of the output may not be replaced.

    Returns
    -------
    dict
        `DemoResult.facts`, ``seconds`` and ``report``, the path of the HTML file.
    """
    began = time.monotonic()
    require(simulator)
    torch.set_num_threads(1)
    folders = [*(f"pezo_{name}" for name in zeroth.PRESETS), "tile", "zotrain", "instantft"]
    output.refuse(["report.html", *(f"{folder}/spec.json" for folder in folders)])
    background = ThreadPoolExecutor(1)
    try:
        with Bars(console, SpinnerColumn()) as progress:
            network, task = preset("digits"), task_of("digits", drift="camera")
            instantft, zotrain = adapters.core_for_digits(network, task), zeroth.core_for_digits(network, task)
            bar = progress.add_task("estimate resources", total=6)
            compiling = progress.add_task("compile zotrain", total=1)
            # emission is not thread-safe, so it stays in this thread
            emitted = {core.name: emit(core) for core in (instantft, zotrain)}
            first_estimate = background.submit(estimate_emitted, emitted["instantft"])
            compiled = background.submit(compiled_core, zotrain)
            estimates = {
                "instantft": first_estimate,
                "zotrain": background.submit(estimate_emitted, emitted["zotrain"]),
            }
            for estimate in estimates.values():
                estimate.add_done_callback(lambda _: progress.advance(bar))
            compiled.add_done_callback(lambda _: progress.advance(compiling))
            module = _pretrained(network, task, progress)
            result, undrifted = zeroth.tune_zeroth_order(network, module, task, zotrain, progress)
            adapter_runs = adapters.tune_adapters(network, module, task, instantft, progress)
            verdicts = zeroth.verify_generators(simulator, progress)
            table = pezo_6(Options(progress=lambda _: progress.advance(bar)), variants=False)
            compiled.result()
            first = zeroth.first_steps_in_rtl(network, module, task, zotrain, progress)
            zeroth_order = zeroth.ZerothOrderRun(zotrain, len(task.tune), undrifted, result, *first)
            files = {f"pezo_{name}": package(spec, "zcu102") for name, spec in zeroth.generators().items()}
            files["tile"] = package(TileSpec(), "zcu102")
            files |= {core.name: package(core, "kv260") for core in (zotrain, instantft)}
            resources = {name: estimate.result() for name, estimate in estimates.items()}
            demo = DemoResult(zeroth_order, adapter_runs, verdicts, resources, table, files, origin)
            report = _write(demo, output)
    finally:
        background.shutdown(cancel_futures=True)
    return {**demo.facts(), "seconds": round(time.monotonic() - began, 1), "report": report}


def _pretrained(network: Network, task: Task, progress: Progress) -> nn.Module:
    settings = pretraining_defaults(network.name)
    bar = progress.add_task("pre-train", total=settings.epochs)
    module, _ = pretrained(network, task.pretrain, settings, lambda *_: progress.advance(bar))
    progress.update(bar, completed=settings.epochs)
    return module


def _write(demo: DemoResult, output: OutputFolder) -> str:
    texts = {f"{folder}/{name}": text for folder, files in demo.files.items() for name, text in files.items()}
    output.write(texts | {"report.html": render(demo)})
    return str(output.path / "report.html")


def summary(facts: dict[str, Any]) -> str:
    """The result of `run` in a few lines: accuracies, comparisons, cycles, resources and the report's path."""
    undrifted, before, zotrain, instantft = (
        100 * facts[f"{name}accuracy_{when}"]
        for name, when in (("", "undrifted"), ("", "before"), ("zotrain_", "after"), ("instantft_", "after"))
    )
    sizes = {
        core: ", ".join(f"{amount:,g} {name.upper()}" for name, amount in facts[f"{core}_kv260"].items())
        for core in CORES
    }
    lines = (
        f"digits: {undrifted:.1f}% right, {before:.1f}% after the drift",
        f"zeroth order, all weights: {zotrain:.1f}% after {facts['zotrain_steps']:,} steps in integers of an "
        f"array of {facts['zotrain_array']} (lanes x columns): another one perturbs in another order",
        f"    RTL of zotrain against golden: the first {facts['zotrain_steps_compared']:,} steps, "
        f"{facts['zotrain_mismatches']} mismatches; {facts['zotrain_cycles_per_step']:,} cycles a step",
        f"    RTL of pezo against golden: {facts['pezo_compared']:,} numbers in {facts['pezo_cycles']:,} cycles, "
        f"{facts['pezo_mismatches']} mismatches",
        f"adapters: {instantft:.1f}% after {facts['instantft_batches_compared']:,} batches in the RTL of instantft",
        f"    RTL against golden: {facts['instantft_mismatches']} mismatches; {facts['instantft_cycles']:,} cycles, "
        f"{facts['instantft_cycles_per_batch']:,} a batch, {facts['instantft_milliseconds']} ms at {facts['mhz']} MHz",
        *(f"{core}, estimate for the KV260: {amounts}" for core, amounts in sizes.items()),
        f"report: {facts['report']} ({facts['seconds']:.0f} s)",
    )
    return "\n".join(lines)
