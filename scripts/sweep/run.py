"""`fabtune sweep`: check a space, evaluate the points in parallel processes, report."""

from __future__ import annotations

import csv
import io
import shlex
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from ...boards.sweep.core_sweep import TrainedSweep
from ...boards.sweep.design import AnyWorkload, Design, Workload, check, design_of
from ...boards.sweep.objectives import evaluate
from ...boards.sweep.space import Space, read
from ...boards.sweep.study import Evaluated, Study
from ...golden.errors import UserError
from ...golden.train.pretrain import pretraining_defaults
from .. import start
from ..heartbeat import doing, keeping, shown_by
from ..outputs import OutputFolder
from ..results import refuse_outputs
from ..tables.options import Options
from ..tables.trials import run_trials
from ..tuning.transformer_cost import shapes_workload
from .report import render

JOURNAL, POINTS, REPORT = "journal.log", "points.csv", "report.html"
_GOES_ON = "the same command goes on"


@dataclass(frozen=True)
class SweepRequest:
    """Options of the command.

    Parameters
    ----------
    file : Path
        Description of the space.
    output : Path, optional
        Folder for journal, points and report; by default ``build/sweep/NAME``.
    journal : Path, optional
        Another file for the journal.
    processes : int
    force : bool
        Replace points and report in `output`.
    training : dict
        Network and weights that replace the file's, see `space.read`.
    """

    file: Path
    output: Path | None
    journal: Path | None
    processes: int
    force: bool
    training: dict[str, str] = field(default_factory=dict)


def run(request: SweepRequest, console: Console) -> dict[str, Any]:
    """Evaluate the points that are not in the journal yet, and write points and report.

    Returns
    -------
    dict
        ``space``, ``points`` (finished), ``of`` (in all), ``infeasible``, ``front`` (``values``, ``objectives`` and
        ``commands`` of each Pareto-optimal point), ``journal`` and ``files``.
    """
    space = read(request.file, request.training)
    folder = OutputFolder(request.output or Path("build/sweep") / space.name, request.force, request.output is None)
    folder.refuse((POINTS, REPORT))
    journal = request.journal or folder.path / JOURNAL
    # the files may exist already, but their folders must be writable
    refuse_outputs([journal, folder.path / POINTS, folder.path / REPORT], None, force=True)
    torch.set_num_threads(1)
    check(space, next(iter(workloads_of(space, console, trained=False)), None))
    workloads = workloads_of(space, console)
    _finished(space, journal)  # refuses a journal of another space, in this process
    name, alone, began = f"sweep {space.name}", request.processes == 1, time.monotonic()

    def counted() -> str:
        return f"{name}: {_finished(space, journal)} of {space.total} points, {time.monotonic() - began:.0f} s"

    watch = partial(_watch, name) if alone else None
    workers = {f"process {index + 1}": (request, journal, watch) for index in range(request.processes)}
    with (
        keeping(lambda: f"{_finished(space, journal)} of {space.total} points are in {journal}: {_GOES_ON}"),
        nullcontext() if alone else shown_by(counted),
    ):
        run_trials(_work, workers, Options(processes=request.processes))
    with closing(Study(space, journal)) as study:
        points, front = study.points(), study.front()
    best = [_described(space, point, workloads) for point in front]
    # force: no file of the user was here before the work; since then another process on this journal may have written
    written = OutputFolder(folder.path, force=True, default=folder.default).write(
        {POINTS: _table(space, points), REPORT: render(space, points, front, best)}
    )
    return {
        "space": space.name,
        "points": len(points),
        "of": space.total,
        "infeasible": sum(bool(point.reason) for point in points),
        "front": best,
        "journal": str(journal),
        "files": [str(folder.path / name) for name in written],
    }


def workloads_of(space: Space, console: Console, trained: bool = True) -> list[AnyWorkload]:
    """Samples and networks for all seeds, pre-trained if ``trained`` and necessary; empty if the space needs none."""
    if not space.on_samples:
        return [shapes_workload(space.training)] if space.of_core else []
    options: dict[str, Any] = {name: space.training.get(name) for name in ("network", "model", "drift")}
    for name in ("data_dir", "weights"):
        options[name] = Path(str(space.training[name])) if name in space.training else None
    options |= {
        "shape": None,
        "data": space.training.get("data", "digits"),
        "pretrain": space.training.get("pretrain", False),
        "scale": space.training.get("scale", 1.0),
    }
    workloads: list[AnyWorkload] = []
    for seed in range(space.seeds):
        start_options = start.Start(**options, seed=seed)
        task = start_options.task()
        network, module = start_options.network_for(task)
        if space.trains and trained:
            module, _ = start_options.ready(network, module, task, pretraining_defaults(network.name, seed), console)
        workloads.append(Workload(task, network, module))
    return workloads


def _finished(space: Space, journal: Path) -> int:
    """Number of finished points. Call it only while this process runs no trial: the trial's locks would end."""
    with closing(Study(space, journal)) as study:
        return len(study.points())


def _watch(name: str, state: str) -> None:
    doing(f"{name}: {state}")


def _work(request: SweepRequest, journal: Path, watch: Callable[[str], None] | None) -> None:
    space = read(request.file, request.training)
    workloads = workloads_of(space, Console(quiet=True))
    with closing(Study(space, journal)) as study:
        while (values := study.claim()) is not None:
            if watch:
                done, choice = len(study.points()), ", ".join(f"{_short(key)}={value}" for key, value in values.items())
                watch(f"{done} of {space.total} points; {choice}")
            objectives, reason = _evaluate(space, values, workloads)
            study.tell(objectives, reason)


def _evaluate(space: Space, values: dict[str, Any], workloads: list[AnyWorkload]) -> tuple[tuple[float, ...], str]:
    try:
        design = design_of(space, space.point(values), workloads[0] if workloads else None)
        return evaluate(space, design, workloads), ""
    except UserError as error:
        return (), str(error)


def _described(space: Space, point: Evaluated, workloads: list[AnyWorkload]) -> dict[str, Any]:
    design = design_of(space, space.point(point.values), workloads[0] if workloads else None)
    return {
        "values": {_short(name): value for name, value in point.values.items()},
        "objectives": dict(zip(space.objectives, point.objectives, strict=True)),
        "commands": [shlex.join(words) for words in (_emit(space, design), _tune(space, design)) if words],
    }


def _short(name: str) -> str:
    return name.removeprefix("settings.")


def _emit(space: Space, design: Design) -> list[str]:
    words = ["fabtune", "emit", space.block]
    if space.preset:
        words += ["--preset", space.preset]
    return [*words, *(word for text in design.texts for word in ("--set", text)), "--board", space.board]


def _tune(space: Space, design: Design) -> list[str]:
    """Command of a point's training with seed 0; empty if `fabtune tune` has no core with the array."""
    training = design.training
    if training is None or not space.trains:
        return []
    words = ["fabtune", "tune", "--method", training.method, "--rate", repr(training.rate)]
    for name in ("data", "data_dir", "drift", "scale", "network", "model", "weights"):
        if name in space.training:
            words += [f"--{name.replace('_', '-')}", str(space.training[name])]
    words += ["--pretrain"] if space.training.get("pretrain") else []
    assert isinstance(design.core, TrainedSweep), "its points are trained"
    options = design.core.tune_options(training, design.array)
    return [] if options is None else [*words, *options]


def _table(space: Space, points: list[Evaluated]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["point", *map(_short, space.parameters), *space.objectives, "infeasible"])
    for point in points:
        objectives = point.objectives or [""] * len(space.objectives)
        writer.writerow([point.number, *point.values.values(), *objectives, point.reason])
    return text.getvalue()


def summary(result: dict[str, Any], show: Callable[[list[str], list[list[str]]], None]) -> list[str]:
    """Show the front as a table; returns lines about the rest."""
    front = result["front"]
    if front:
        columns = ["", *front[0]["values"], *front[0]["objectives"]]
        rows = []
        for number, point in enumerate(front, start=1):
            numbers = [
                f"{value:.4g}" if name == "accuracy" else f"{value:,g}" for name, value in point["objectives"].items()
            ]
            rows.append([str(number), *map(str, point["values"].values()), *numbers])
        show(columns, rows)
    lines = [f"{number}: {line}" for number, point in enumerate(front, start=1) for line in point["commands"]]
    counted = f"{result['points']} of {result['of']} points, {result['infeasible']} of them infeasible"
    return [*lines, counted, *result["files"]]
