"""Objectives of a point: resources by estimate, time and memory of a job by arithmetic, accuracy by training.

Estimates and trainings are cached by all that determines them: points that differ in hardware alone train once, points
that differ in training alone are estimated once.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ...golden.axi.bus import BEAT
from ...golden.block import Spec
from ...golden.cache import cached, digest_of, package_version, source_digest
from ...golden.cores.instantft.instantft import InstantftSpec
from ...golden.cores.zotrain.zotrain import ZotrainSpec
from ...golden.datasets.dataset import Task
from ...golden.settings import settings_of
from ...golden.train.adapters.methods import Cache, method_of
from ...golden.train.adapters.tune import AdapterSettings, tune
from ...golden.train.zo.finetune import ZoSettings
from ...golden.train.zo.integer_tuning import IntegerTuning
from ...hw.device import Device
from ..board import board
from ..estimate.estimate import estimate_spec
from ..estimate.flow import files
from .design import Design, Start
from .space import OF_CORES, Space

_ROOT = Path(__file__).parents[2]


def evaluate(space: Space, design: Design, starts: list[Start]) -> tuple[float, ...]:
    """Compute a point's objectives, in the order of the space.

    Parameters
    ----------
    space : Space
    design : Design
    starts : list of Start
        One for each seed.

    Raises
    ------
    UserError
        If a training diverges.
    """
    found: dict[str, float] = {}
    if space.trains:
        found["accuracy"] = sum(accuracy(design, seed, start) for seed, start in enumerate(starts)) / len(starts)
    if set(space.objectives) & set(OF_CORES):
        found |= {"cycles": cycles(design, starts[0].task), "dram_bytes": dram_bytes(design, starts[0].task)}
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


def accuracy(design: Design, seed: int, start: Start) -> float:
    """Fraction of held-out samples right after training in the hardware's integers, trained or from the cache.

    Raises
    ------
    UserError
        If it diverges.
    """
    training = design.with_seed(seed)
    weights = (part for name, one in start.module.state_dict().items() for part in (name, one.numpy().tobytes()))
    samples = (part for one in (start.task.tune, start.task.test) for part in (one.inputs, one.labels))
    key = digest_of(
        *(start.network, training, design.lanes, design.columns, source_digest(_ROOT / "golden")),
        *(package_version(name) for name in ("numpy", "torch")),
        *weights,
        *(part for array in samples for part in (array.dtype, array.shape, array.tobytes())),
    )

    def make(entry: Path) -> None:
        if isinstance(training, AdapterSettings):
            right = tune(start.network, start.module, start.task, training).accuracy_after
        else:
            assert isinstance(training, ZoSettings), "something is trained"
            array = design.lanes, design.columns
            right = IntegerTuning(start.network, start.module, start.task, training, *array).run().accuracy_after
        entry.write_text(json.dumps(right))

    return float(json.loads(cached("trainings", f"{key}.json", make).read_text()))


def cycles(design: Design, task: Task) -> int:
    """Cycles in which a job's array or its memory port is busy, whichever is longer: a bound from below.

    Of `zotrain`: the words of both sides of each step. Of `instantft`: a new sample's words, and for each sample of
    each epoch the rows of its adapters in both passes, or the beats of its record and input. Pauses, the head and the
    memory's latency are not in it; only the compiled core knows them.
    """
    spec, training, samples = design.spec, design.training, len(task.tune)
    if isinstance(spec, ZotrainSpec):
        assert isinstance(training, ZoSettings), "a core's job is a training"
        words = spec.mapping.forward.cycles
        return 2 * words * sum(len(indices) for indices in training.schedule.indices(samples))
    assert isinstance(spec, InstantftSpec), "the other core"
    assert isinstance(training, AdapterSettings), "its job"
    mapping = spec.mapping
    record, read = _record_beats(spec, training), mapping.forward.sample_beats
    if spec.cache == "chip":
        record = 0
    beats = max(record, read) if spec.ports == 2 else record + read
    known = max(2 * mapping.adapter_rows, beats)
    return samples * mapping.forward.cycles + training.epochs * samples * known


def dram_bytes(design: Design, task: Task) -> int:
    """Bytes of device memory that a job's host fills or keeps: all regions of its layout."""
    spec, training, samples = design.spec, design.training, len(task.tune)
    if isinstance(spec, ZotrainSpec):
        assert isinstance(training, ZoSettings), "a core's job is a training"
        layout, steps, batch = spec.layout, training.schedule.steps, min(training.schedule.batch, samples)
        beats = spec.mapping.forward.frozen_beats + samples * spec.mapping.forward.sample_beats
        beats += layout.delta_beats + layout.state_beats + layout.logit_beats
        return BEAT * (beats + steps * (layout.step_beats(batch) + layout.record_beats(batch)))
    assert isinstance(spec, InstantftSpec), "the other core"
    assert isinstance(training, AdapterSettings), "its job"
    mapping = spec.mapping
    beats = mapping.forward.frozen_beats + mapping.adapter_beats + samples * mapping.forward.sample_beats
    entries = [len(indices) for indices in np.split(np.arange(samples), range(training.batch, samples, training.batch))]
    beats += training.epochs * sum(-(-4 * count // BEAT) for count in entries) + 1
    return BEAT * (beats + (1 if spec.cache == "chip" else samples * _record_beats(spec, training)))


def _record_beats(spec: InstantftSpec, training: AdapterSettings) -> int:
    """Beats of a sample's record in the cache."""
    return spec.mapping.raw_beats if method_of(training.method).cache is Cache.FULL else spec.mapping.record_beats
