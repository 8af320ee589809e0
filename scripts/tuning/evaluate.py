"""`fabtune evaluate`: accuracy of a network on held-out samples, and its confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from ...golden.datasets.dataset import Samples, Task
from ...golden.datasets.tasks import task_of
from ...golden.errors import UserError
from ...golden.files import whole
from ...golden.fixed import Q8_16, Integers
from ...golden.train.conversion import Converter
from ...golden.train.pretrain import logits_of
from ...golden.train.tuned.bound import accuracy_bound, logit_bound
from ...golden.train.tuned.network import TunedNetwork
from ...golden.train.tuned.run_file import Run
from ...sim.compiled.tuner import DEFAULT_CORE, tuner_of
from ...sim.simulator import compiler
from ..own_network import check_shape
from ..progress import Bars, core_bar
from ..results import refuse_outputs
from .saved_run import SavedRun

ENGINES = ("float", "golden", "rtl")
PLAIN_METHOD = "pezo-otf"
"""Method whose core runs networks without adapters."""
_AT_ONCE = 100


@dataclass(frozen=True)
class EvaluateRequest:
    """Options of the command.

    Parameters
    ----------
    data, data_dir, drift, scale, seed
        See `task_of`; None for the run's own.
    engine : str, optional
        One of `ENGINES`; by default float after a float run, else golden.
    core : str, optional
        Preset of the core; by default the run's.
    first : int, optional
        Only the first samples, this many.
    logits : Path, optional
        NPZ file for logits and labels.
    force : bool
        Replace it.
    """

    saved: SavedRun
    data: str | None
    data_dir: Path | None
    drift: str | None
    scale: float | None
    seed: int | None
    engine: str | None
    core: str | None
    first: int | None
    logits: Path | None = None
    force: bool = False

    def task(self, run: Run | None) -> Task:
        """Samples named by the options, or those of the run."""
        metadata = run.metadata if run else {}
        data = self.data or metadata.get("data")
        if not data:
            raise UserError("name the samples with --data NAME or npz:FILE")
        of_run = self.data in (None, metadata.get("data"))
        drift = self.drift or (metadata.get("drift") if of_run else None) or "none"
        scale = self.scale if self.scale is not None else (run.scale if run else 1.0)
        seed = self.seed if self.seed is not None else int(metadata.get("seed", "0"))
        return task_of(data, self.data_dir, drift, seed, scale)


def run(request: EvaluateRequest, console: Console) -> dict[str, Any]:
    """Run the held-out samples through the network.

    Returns
    -------
    dict
        ``accuracy`` (fraction), ``confusion`` (samples of each class by predicted class) and the settings. ``classes``
        has for each class ``class``, ``samples``, ``right``, ``taken_for`` (the most frequent wrong class) and
        ``times``. Engine "float" after an integer run adds golden's accuracy and the difference of both. Engine "rtl"
        adds the figures of the comparison with golden.

    Raises
    ------
    UserError
        If the engine is unknown, or run, network and samples do not fit together.
    """
    if request.engine not in (None, *ENGINES):
        raise UserError(f"there is no engine {request.engine!r}; there are: {', '.join(ENGINES)}")
    if request.core and request.engine != "rtl":
        raise UserError(f"--core has no meaning with --engine {request.engine or 'golden'}: leave it out")
    refuse_logits(request)
    torch.set_num_threads(1)
    saved = request.saved.read()
    task = request.task(saved)
    network, module, tuned = request.saved.load(saved, task.test.shape)
    samples = task.test[: request.first] if request.first else task.test
    check_shape(network, samples.shape, task.name)
    samples.check(task.name, network.classes)
    engine = request.engine or ("float" if saved and not saved.integers else "golden")
    if engine == "rtl":
        compiler()
        logits, facts = _on_core(request, tuned, saved, samples, console)
    elif engine == "float":
        logits = logits_of(tuned.module() if saved else module, samples).astype(np.float64)
        facts = _beside_golden(tuned, samples, logits) if saved and saved.integers else {}
    else:
        logits, facts = golden_logits(tuned, samples), {}
    save_logits(request, logits, samples.labels)
    return {
        **described(logits, samples.labels, network.classes),
        **facts,
        "network": network.name,
        "run": str(saved.path) if saved else None,
        "method": saved.method if saved else None,
        "data": task.name,
        "scale": task.scale,
        "engine": engine,
    }


def refuse_logits(request: EvaluateRequest) -> None:
    """Refuse a file for the logits that could not be written after the work."""
    if request.logits is None:
        return
    if request.logits.suffix != ".npz":
        raise UserError(f"{request.logits}: a file of --logits ends in .npz")
    refuse_outputs([request.logits], None, request.force)


def save_logits(request: EvaluateRequest, logits: NDArray[np.floating[Any]], labels: Integers) -> None:
    """Write ``logits`` (n, classes) and ``labels`` (n,), if asked for."""
    if request.logits is not None:
        with whole(request.logits) as unfinished, unfinished.open("wb") as file:
            np.savez(file, logits=logits, labels=labels)


def described(logits: NDArray[np.floating[Any]], labels: Integers, classes: int) -> dict[str, Any]:
    """Accuracy, figures of each class, and confusion matrix of logits (n, classes)."""
    taken = logits.argmax(axis=1)
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (labels, taken), 1)
    rows = []
    for number, row in enumerate(confusion):
        others = np.where(np.arange(classes) == number, 0, row)
        most = int(others.argmax())
        rows.append(
            {
                "class": number,
                "samples": int(row.sum()),
                "right": int(row[number]),
                "taken_for": most if others[most] else None,
                "times": int(others[most]),
            }
        )
    return {
        "accuracy": float(np.mean(taken == labels)),
        "samples": len(labels),
        "classes": rows,
        "confusion": confusion.tolist(),
    }


def golden_logits(tuned: TunedNetwork, samples: Samples, rank: int = 1) -> NDArray[np.float64]:
    """Logits of golden's integers, as float64 values."""
    job, converter = tuned.job(rank), Converter()
    parts = [samples[first : first + _AT_ONCE] for first in range(0, len(samples), _AT_ONCE)]
    return Q8_16.to_float(np.concatenate([job.logits(converter.samples(part)) for part in parts]))


def _beside_golden(tuned: TunedNetwork, samples: Samples, logits: NDArray[np.floating[Any]]) -> dict[str, Any]:
    """Differences of PyTorch's logits from golden's."""
    golden, bound = golden_logits(tuned, samples), logit_bound(tuned, samples)
    return {
        "golden_accuracy": float(np.mean(golden.argmax(axis=1) == samples.labels)),
        "taken_otherwise": int(np.count_nonzero(golden.argmax(axis=1) != logits.argmax(axis=1))),
        "logit_difference": float(np.abs(golden - logits).max()),
        "logit_bound": float(bound.max()),
        "accuracy_bound": accuracy_bound(bound, golden),
    }


def _on_core(
    request: EvaluateRequest, tuned: TunedNetwork, saved: Run | None, samples: Samples, console: Console
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Logits of the samples on the compiled core, and the comparison with golden."""
    metadata = saved.metadata if saved else {}
    tuner = tuner_of(metadata.get("method", PLAIN_METHOD) if tuned.adapters or tuned.tuned_layer else PLAIN_METHOD)
    rank, preset = int(metadata.get("rank", "4")), request.core or metadata.get("core") or DEFAULT_CORE
    with Bars(console) as progress, core_bar(progress) as stage:
        inference = tuner.infer(tuned, rank, samples, preset, stage)
    logits = Q8_16.to_float(inference.logits)
    mismatches = int((logits != golden_logits(tuned, samples, rank)).any(axis=1).sum())
    return logits, {
        "core": f"{inference.spec.name} {preset}",
        "array": f"{inference.spec.forward.lanes} x {inference.spec.forward.columns}",
        "cycles": inference.cycles,
        "mismatches": mismatches,
        "bit_exact": mismatches == 0,
    }


def summary(result: Mapping[str, Any], show: Callable[[list[str], list[list[str]]], None]) -> list[str]:
    """Show a table by class; return lines with the other figures."""
    rows = []
    for figures in result["classes"]:
        share = f"{100 * figures['right'] / figures['samples']:.1f}" if figures["samples"] else ""
        error = "" if figures["taken_for"] is None else f"{figures['taken_for']}, {figures['times']} times"
        rows.append([str(figures["class"]), str(figures["samples"]), share, error])
    show(["class", "samples", "right %", "most often taken for"], rows)
    lines = [
        f"{100 * result['accuracy']:.1f}% of {result['samples']} samples of {result['data']} right, {result['engine']}"
    ]
    if "golden_accuracy" in result:
        bound = ""
        if "logit_bound" in result:
            bound = (
                f", bound {result['logit_bound']:.2g}, and so the accuracy by at most "
                f"{100 * result['accuracy_bound']:.1f} points"
            )
        lines.append(
            f"golden: {100 * result['golden_accuracy']:.1f}%, {result['taken_otherwise']} samples taken otherwise; "
            f"logits differ by at most {result['logit_difference']:.2g}{bound}"
        )
    if "mismatches" in result:
        lines.append(
            f"{result['core']}, {result['array']} (lanes x columns), {result['cycles']:,} cycles: {result['samples']} "
            f"outputs compared with golden, {result['mismatches']} mismatches"
        )
    return lines
