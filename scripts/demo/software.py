"""The trainers' cores against software on a processor: the demo's jobs, and a job of LeNet-5 if the data is present."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...boards.board import DEFAULT_MHZ
from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.dataset import Task
from ...golden.datasets.tasks import task_of
from ...golden.errors import UserError
from ...golden.models.network import Network
from ...golden.models.text import preset
from ...golden.train.adapters.methods import adapter_defaults
from ...golden.train.adapters.tune import AdapterSettings, AdapterTuning
from ...golden.train.pretrain import pretrained, pretraining_defaults
from ...golden.train.zo.finetune import FineTuning, ZoSettings
from ...golden.train.zo.integer import IntegerTuning
from ...golden.train.zo.methods import zo_defaults
from ...golden.train.zo.network_objective import NetworkObjective
from ...sim.compiled.comparison import Comparison
from ...sim.compiled.tuner import tuner_of
from ..tables.options import Options, Rows
from . import adapters, zeroth

ROUNDS = 3
"""Number of measurements; the fastest counts."""
A53_MHZ, A53_VECTOR_BITS = 1333, 128
"""Clock and vector width of the KV260's processor, a Cortex-A53."""
VECTOR_BITS = {"DEFAULT": 128, "AVX2": 256, "AVX512": 512}
"""Width of this processor's vectors by PyTorch's CPU capability."""
CPUINFO = Path("/proc/cpuinfo")
LENET, DRIFT, LENET_CORE = "lenet5-mnist", "rotate:90", "small"
PAPER_SECONDS = 0.36 * 17.4
"""InstantFT's job on LeNet-5 in C on the A53's four cores: 17.4 times the paper's FPGA, which takes 0.36 s."""


@dataclass(frozen=True)
class Measured:
    """A job in software and on a core.

    Parameters
    ----------
    title : str
    core : str
        Core and preset.
    steps : int
        Number of updates in the job.
    floats, integers : float
        Seconds of the job on one thread, in float32 (PyTorch; adapters in NumPy) and in the core's integers (NumPy).
    core_steps, cycles : int
        Number of updates on the simulated core, and their clock cycles.
    paper : float, optional
        Seconds of the paper's software on the board's processor.
    """

    title: str
    core: str
    steps: int
    floats: float
    integers: float
    core_steps: int
    cycles: int
    paper: float | None = None


def software(options: Options) -> Rows:
    """Time of a job on one thread of this machine, and clock cycles of the core.

    A `UserError` if this machine's clock is unknown.

    Returns
    -------
    dict
        ``rows``: milliseconds of the job on this machine in float32 and in integers, an estimate of float32 on a
        Cortex-A53, the paper's measurement if any, and milliseconds on the core; ``notes``.
    """
    mhz = clock_mhz()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        jobs = [_adapters("digits", "camera", adapters.CORE, options), _zeroth_order(options)]
        if options.data_dir:
            jobs.append(_adapters(LENET, DRIFT, LENET_CORE, options))
    finally:
        torch.set_num_threads(threads)
    clocks = mhz / A53_MHZ
    width = VECTOR_BITS.get(torch.backends.cpu.get_cpu_capability(), A53_VECTOR_BITS)
    vectors = width / A53_VECTOR_BITS
    return {
        "title": "fine-tuning in software and on the cores, milliseconds of a job",
        "rows": [_row(job, clocks, clocks * vectors) for job in jobs],
        "notes": _notes(mhz, width, options.data_dir is not None),
    }


def _notes(mhz: float, width: int, lenet: bool) -> list[str]:
    return [
        f"here: one thread of this machine, {mhz:.0f} MHz, vectors of {width} bits, fastest of {ROUNDS}; float32 in "
        "PyTorch, adapters in NumPy; integers, those of the core, in NumPy",
        f"A53: an estimate, nothing was measured there: float32 by the ratio of clocks ({A53_MHZ} MHz), and by that of "
        f"clocks and vectors ({A53_VECTOR_BITS} bits); layers as small as these fill no vectors, so it is between",
        f"core: cycles of the compiled core at {DEFAULT_MHZ} MHz, bit for bit golden's, memory latency and stalls "
        f"included; by zeroth order {zeroth.STEPS_IN_RTL} steps were measured, and the job is in proportion",
        "paper: InstantFT in C on four cores of that processor, 17.4 times its FPGA's 0.36 s"
        if lenet
        else "--data-dir DIR with MNIST adds LeNet-5's job, and the paper's own processor",
    ]


def clock_mhz() -> float:
    """Clock of this machine's processor in MHz from Linux; a `UserError` if unknown."""
    match = re.search(r"^cpu MHz\s*: ([\d.]+)$", CPUINFO.read_text() if CPUINFO.is_file() else "", re.MULTILINE)
    if not match:
        raise UserError(f"{CPUINFO} does not say the clock of this processor: the table needs Linux on x86")
    return float(match[1])


def _row(job: Measured, *slower: float) -> dict[str, Any]:
    """Milliseconds of a job, with the factors of the two estimates."""
    by_clock, by_both = (1000 * job.floats * factor for factor in slower)
    core = job.cycles * job.steps / job.core_steps / DEFAULT_MHZ / 1000
    return {
        "job": job.title,
        "updates": job.steps,
        "float32 here": round(1000 * job.floats),
        "integers here": round(1000 * job.integers),
        "A53 by clock": round(by_clock),
        "A53 by clock and vectors": round(by_both),
        "four A53, paper": None if job.paper is None else round(1000 * job.paper),
        "core": job.core,
        "core, ms": round(core, 1),
        "core is faster": f"{by_clock / core:.0f} to {by_both / core:.0f} times",
    }


def _adapters(name: str, drift: str, core: str, options: Options) -> Measured:
    network, task, module = _start(name, drift, options)
    defaults, method = adapter_defaults(name), adapters.METHOD

    def tuning(engine: str) -> AdapterTuning:
        settings = AdapterSettings(method, engine, defaults.epochs, rate=defaults.rate)
        return AdapterTuning(network, deepcopy(module), task, settings)

    floats, integers = _seconds(tuning, f"{method}, {name}", options)
    job = tuning("rtl")
    spec = tuner_of(method).spec_for(network, job.settings, len(task.tune), byte_inputs=True, preset=core)
    named = f"{spec.name} {core}"
    comparison = _on_core(job, spec, method, named, options)
    paper = PAPER_SECONDS if name == LENET else None
    steps = comparison.compared
    title = f"{method}, {name}, {len(task.tune):,} samples, {defaults.epochs} epochs"
    return Measured(title, named, steps, floats, integers, steps, comparison.cycles, paper)


def _zeroth_order(options: Options) -> Measured:
    """Measure the demo's job by zeroth order; the core runs the first steps."""
    network, task, module = _start("digits", "camera", options)
    core, part, steps = zeroth.core_for_digits(network, task), zeroth.STEPS_IN_RTL, zo_defaults("digits").steps

    def job(engine: str) -> FineTuning | IntegerTuning:
        settings = zeroth.settings_for(part)
        if engine == "float":
            chosen = ZoSettings(settings.method, settings.rate, settings.eps, settings.schedule, engine="float")
            return FineTuning(NetworkObjective(deepcopy(module), task), chosen)
        return IntegerTuning(network, module, task, settings, core.lanes, core.columns)

    floats, integers = (seconds * steps / part for seconds in _seconds(job, f"{zeroth.METHOD}, digits", options))
    named = f"{core.name} {zeroth.CORE}"
    comparison = _on_core(job("golden"), core, zeroth.METHOD, named, options)
    title = f"{zeroth.METHOD}, digits, {steps:,} steps of {zo_defaults('digits').batch}"
    return Measured(title, named, steps, floats, integers, part, comparison.cycles)


def _start(name: str, drift: str, options: Options) -> tuple[Network, Task, nn.Module]:
    data = "digits" if name == "digits" else "mnist"
    task, network = task_of(data, options.data_dir if data != "digits" else None, drift), preset(name)
    module, _ = pretrained(network, task.pretrain, pretraining_defaults(name))
    return network, task, module


def _seconds(job: Callable[[str], Any], title: str, options: Options) -> Iterator[float]:
    """Seconds of a job in float, then in integers, the fastest of `ROUNDS`."""
    for engine in ("float", "golden"):
        options.progress(f"{title}: {engine}")
        yield min(job(engine).run().seconds for _ in range(ROUNDS))


def _on_core(job: Any, core: NetworkCoreSpec, method: str, named: str, options: Options) -> Comparison:
    """Run a job on the compiled core; a `UserError` for any difference from the integers."""
    _, comparison = tuner_of(method).run(job, core, lambda stage: options.progress(f"{named}: {stage}"))
    if comparison.mismatches:
        raise UserError(
            f"the core differs from the integers in {comparison.mismatches} comparisons: its cycles mean nothing"
        )
    return comparison
