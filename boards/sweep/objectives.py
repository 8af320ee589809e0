"""Objectives of a point: estimated resources, computed time and memory of a job, and accuracy by training.

Estimates and trainings are cached by all their inputs: points that differ only in hardware are trained once, and points
that differ only in training are estimated once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ...golden.block import Spec
from ...golden.cache import cached, digest_of, package_version, source_digest
from ...golden.memories.plan import Device
from ...golden.settings import settings_of
from ..board import board
from ..estimate.estimate import estimate_spec
from ..estimate.flow import files
from .core_sweep import TrainedSweep
from .design import AnyWorkload, Design, Workload
from .space import OF_CORES, Space

_ROOT = Path(__file__).parents[2]


def evaluate(space: Space, design: Design, workloads: Sequence[AnyWorkload]) -> tuple[float, ...]:
    """Objectives of a point in the order of the space; `workloads` has one workload for each seed.

    A `UserError` if a training diverges.
    """
    values: dict[str, float] = {}
    if space.trains:
        trained = [
            accuracy(design, seed, workload)
            for seed, workload in enumerate(workloads)
            if isinstance(workload, Workload)
        ]
        values["accuracy"] = sum(trained) / len(trained)
    if set(space.objectives) & set(OF_CORES):
        values |= {"cycles": cycles(design, workloads[0]), "dram_bytes": dram_bytes(design, workloads[0])}
    if set(space.objectives) - values.keys():
        values |= resources(design.spec, board(space.board).fabric)
    return tuple(values[name] for name in space.objectives)


def resources(spec: Spec, device: Device) -> dict[str, float]:
    """Estimated resources of a block, cached by the block's parameters.

    `estimate_spec` caches too, but by Verilog, and to emit a core's Verilog takes many seconds.
    """
    sources = source_digest(_ROOT / "golden", _ROOT / "hw", _ROOT / "boards" / "estimate")
    versions = (package_version(name) for name in ("amaranth", "pyosys"))
    key = digest_of(type(spec).name, settings_of(spec), device, sources, *files().values(), *versions)

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(estimate_spec(spec, device).resources))

    estimated: dict[str, float] = json.loads(cached("resources", f"{type(spec).name}-{key}.json", make).read_text())
    return estimated


def accuracy(design: Design, seed: int, workload: Workload) -> float:
    """Fraction of held-out samples classified correctly after training in the hardware's integers; cached.

    A `UserError` if the training diverges.
    """
    core = design.core
    assert isinstance(core, TrainedSweep), "an objective of others is refused"
    training = core.with_seed(design.training, seed)
    weights = (part for name, item in workload.module.state_dict().items() for part in (name, item.numpy().tobytes()))
    samples = (part for item in (workload.task.tune, workload.task.test) for part in (item.inputs, item.labels))
    key = digest_of(
        *(workload.network, training, design.lanes, design.columns, source_digest(_ROOT / "golden")),
        *(package_version(name) for name in ("numpy", "torch")),
        *weights,
        *(part for array in samples for part in (array.dtype, array.shape, array.tobytes())),
    )

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(core.accuracy(training, design.array, workload)))

    return float(json.loads(cached("trainings", f"{key}.json", make).read_text()))


def cycles(design: Design, workload: AnyWorkload) -> int:
    """Lower bound of a job's cycles: the busy time of the array or of the memory port, whichever is longer.

    Pauses, the head and memory latency are not included; only the compiled core gives them.
    """
    return design.core.cycles(design.spec, design.training, workload.samples)


def dram_bytes(design: Design, workload: AnyWorkload) -> int:
    """Bytes of device memory in all regions of a job's layout."""
    return design.core.dram_bytes(design.spec, design.training, workload.samples)
