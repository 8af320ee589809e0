"""Objectives of a point: resources by estimate, time and memory of a job by arithmetic, accuracy by training.

Estimates and trainings are cached by all that determines them: points that differ in hardware alone train once, points
that differ in training alone are estimated once.
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
    """Compute a point's objectives, in the order of the space.

    Parameters
    ----------
    space : Space
    design : Design
    workloads : sequence of Workload or ShapesWorkload
        One for each seed.

    Raises
    ------
    UserError
        If a training diverges.
    """
    found: dict[str, float] = {}
    if space.trains:
        trained = [accuracy(design, seed, one) for seed, one in enumerate(workloads) if isinstance(one, Workload)]
        found["accuracy"] = sum(trained) / len(trained)
    if set(space.objectives) & set(OF_CORES):
        found |= {"cycles": cycles(design, workloads[0]), "dram_bytes": dram_bytes(design, workloads[0])}
    if set(space.objectives) - found.keys():
        found |= resources(design.spec, board(space.board).fabric)
    return tuple(found[name] for name in space.objectives)


def resources(spec: Spec, device: Device) -> dict[str, float]:
    """Estimate a block, or find the estimate in the cache by the block's parameters.

    `estimate_spec` has a cache by the Verilog, which a core takes many seconds to emit.
    """
    own = source_digest(_ROOT / "golden", _ROOT / "hw", _ROOT / "boards" / "estimate")
    versions = (package_version(name) for name in ("amaranth", "pyosys"))
    key = digest_of(type(spec).name, settings_of(spec), device, own, *files().values(), *versions)

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(estimate_spec(spec, device).resources))

    found: dict[str, float] = json.loads(cached("resources", f"{type(spec).name}-{key}.json", make).read_text())
    return found


def accuracy(design: Design, seed: int, workload: Workload) -> float:
    """Fraction of held-out samples right after training in the hardware's integers, trained or from the cache.

    Raises
    ------
    UserError
        If it diverges.
    """
    core = design.core
    assert isinstance(core, TrainedSweep), "an objective of others is refused"
    training = core.with_seed(design.training, seed)
    weights = (part for name, one in workload.module.state_dict().items() for part in (name, one.numpy().tobytes()))
    samples = (part for one in (workload.task.tune, workload.task.test) for part in (one.inputs, one.labels))
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
    """Cycles in which a job's array or its memory port is busy, whichever is longer: a bound from below.

    Pauses, the head and the memory's latency are not in it; only the compiled core knows them.
    """
    return design.core.cycles(design.spec, design.training, workload.samples)


def dram_bytes(design: Design, workload: AnyWorkload) -> int:
    """Bytes of device memory that a job's host fills or keeps: all regions of its layout."""
    return design.core.dram_bytes(design.spec, design.training, workload.samples)
