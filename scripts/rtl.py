"""`fabtune tune --engine rtl`: the same job in the compiled core, compared with the integers after every batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from ..boards.host.driver import Core
from ..boards.host.job import FineTuner
from ..golden.cores.instantft import InstantftSpec
from ..golden.datasets.dataset import Samples, Task
from ..golden.errors import UserError
from ..golden.fixed import Floats, Integers
from ..golden.lora.adapters import Adapters
from ..golden.lora.images import adapters_image
from ..golden.models.network import Network
from ..golden.train.adapters.engine import Tensors
from ..golden.train.adapters.integer import IntegerEngine
from ..golden.train.adapters.methods import Cache, method_of
from ..golden.train.adapters.tune import Epoch, Result, Settings, accuracy, engine_of, tune
from ..hw.verilog import emit
from ..sim.compiled.core import PAGE, SimulatedCore
from ..sim.compiled.simulation import Dram, build

METHODS = ("instantft", "skip2-lora")
"""What the core runs: adapters from every stage's input, outputs kept in NF4 or in Q8.16."""
OUTPUTS = 200
"""Held-out samples whose logits are compared at the end, at most."""
MEGAHERTZ = 200


@dataclass(frozen=True)
class Comparison:
    """How the simulated core compares with the integers.

    Parameters
    ----------
    cycles : int
        Of the tuning, memory model included.
    batches_compared, logits_compared : int
        After each of so many batches all adapters; at the end so many samples' logits.
    mismatches : int
        Batches with a wrong parameter, samples with a wrong logit, counters that differ.
    simulated, seconds : float
        Cycles in all, and the program's time for them.
    """

    cycles: int
    batches_compared: int
    logits_compared: int
    mismatches: int
    simulated: int
    seconds: float

    @property
    def facts(self) -> dict[str, Any]:
        """For the report."""
        return {
            "cycles": self.cycles,
            "ms_at_200_mhz": round(self.cycles / MEGAHERTZ / 1000, 3),
            "batches_compared": self.batches_compared,
            "logits_compared": self.logits_compared,
            "mismatches": self.mismatches,
            "bit_exact": self.mismatches == 0,
            "simulated_cycles": self.simulated,
            "simulation_seconds": round(self.seconds, 1),
        }


class Watched:
    """An integer engine that keeps its adapters after every batch."""

    def __init__(self, engine: IntegerEngine) -> None:
        self.engine = engine
        self.after: list[Integers] = []

    @property
    def saturations(self) -> int:
        """Of the engine."""
        return self.engine.saturations

    @property
    def cache_bytes(self) -> int:
        """Of the engine."""
        return self.engine.cache_bytes

    def batch(self, samples: Samples, indices: Integers) -> Floats:
        """Learn from a batch, keep the adapters."""
        logits = self.engine.batch(samples, indices)
        self.after.append(self.engine.job.adapters.flat.copy())
        return logits

    def logits(self, samples: Samples) -> Floats:
        """Of the engine."""
        return self.engine.logits(samples)

    def tensors(self) -> Tensors:
        """Of the engine."""
        return self.engine.tensors()


def spec_for(network: Network, settings: Settings, samples: int, pixels: bool, core: str = "small") -> InstantftSpec:
    """The core that runs such a job.

    Parameters
    ----------
    network, settings
        The job.
    samples : int
        To tune with.
    pixels : bool
        Whether they are bytes.
    core : str
        A preset of `InstantftSpec`; more columns where the rank needs them.

    Raises
    ------
    UserError
        If there is none.
    """
    if settings.method not in METHODS:
        raise UserError(f"--engine rtl runs --method {' or '.join(METHODS)}, not {settings.method}")
    if settings.stochastic:
        raise UserError("--engine rtl rounds to nearest: leave --stochastic to --engine golden")
    if core not in InstantftSpec.presets:
        raise UserError(f"there is no core {core!r}; there are: {', '.join(InstantftSpec.presets)}")
    chosen: dict[str, Any] = dict(InstantftSpec.presets[core])
    chosen["columns"] = max(chosen["columns"], 1 << (settings.rank - 1).bit_length())
    chosen["cache_entries"] = max(32, 1 << (samples - 1).bit_length())
    return InstantftSpec.of(network, rank=settings.rank, byte_inputs=pixels, batch=max(settings.batch, 2), **chosen)


def tune_rtl(
    network: Network,
    module: nn.Sequential,
    task: Task,
    settings: Settings,
    progress: Callable[[Epoch], None] | None = None,
    watch: bool = False,
    stage: Callable[[str], None] = lambda _: None,
    core: str = "small",
    dram: Dram | None = None,
    seed: int = 0,
) -> tuple[Result, Comparison, InstantftSpec]:
    """Tune with the integers and with the core.

    Parameters
    ----------
    network, module, task, settings, progress, watch
        See `tune`.
    stage : callable
        Told what is going on.
    core : str
        See `spec_for`.
    dram : Dram, optional
        Memory of the simulated core.
    seed : int
        Of its randomness.

    Returns
    -------
    Result
        The accuracy after is that of the core's adapters.
    Comparison
    InstantftSpec
        Of the core.
    """
    engine = engine_of(network, module, settings, len(task.tune))
    assert isinstance(engine, IntegerEngine)
    pixels = task.tune.inputs.dtype == np.uint8
    spec = spec_for(network, settings, len(task.tune), pixels, core)
    start = Adapters(engine.job.adapters.shape, engine.job.adapters.flat)
    watched = Watched(engine)
    stage("tune in integers")
    result = tune(network, module, task, settings, progress, watch, engine=watched)

    mapping = spec.mapping
    stage("emit the core")
    verilog = emit(spec).verilog
    stage("compile the simulator")
    program = build(verilog, spec.name, spec.ports)
    tuning, held_out = _inputs(engine, task.tune, pixels), _inputs(engine, task.test[:OUTPUTS], pixels)
    order = settings.batches(len(task.tune))
    raw = method_of(settings.method).cache is Cache.FULL
    visits = len(task.tune) * settings.epochs
    room = 16 * (
        mapping.forward.frozen_beats
        + 2 * mapping.adapter_beats
        + visits
        + (len(tuning) + 2 * spec.batch) * mapping.raw_beats
    )
    room += 16 * (
        mapping.forward.sample_beats * (len(tuning) + len(held_out)) + mapping.logit_beats * len(held_out) + visits
    )
    simulated = SimulatedCore(program, room + 64 * PAGE, dram, seed)
    tuner = FineTuner(Core(simulated, simulated, simulated.interrupt), spec, len(tuning), raw)
    stage("simulate the job")
    tuner.load(engine.job.frozen)
    tuner.load_adapters(start)
    simulated.watch(adapters_image(mapping, start))
    finished = tuner.tune(tuning, task.tune.labels.astype(np.int64), order, engine.job.rate).finished
    traces = simulated.traces
    found = tuner.adapters()
    stage("compare")
    expected = np.stack([adapters_image(mapping, Adapters(start.shape, flat)) for flat in watched.after])
    wrong = len(expected) if traces.shape != expected.shape else int((traces != expected).any(axis=1).sum())
    wrong += not np.array_equal(found.flat, engine.job.adapters.flat)
    wrong += finished.saturations != engine.job.saturations
    engine.job.adapters.flat[:] = found.flat
    own = engine.job.logits(engine.integers(task.test[:OUTPUTS]))
    logits_wrong = int((tuner.logits(held_out) != own).any(axis=1).sum())
    result.accuracy_after = accuracy(engine, task.test)
    result.tensors = engine.tensors()
    sessions = simulated.sessions
    comparison = Comparison(
        finished.cycles,
        len(traces),
        len(own),
        wrong + logits_wrong,
        sum(one["simulated"] for one in sessions),
        sum(one["seconds"] for one in sessions),
    )
    return result, comparison, spec


def _inputs(engine: IntegerEngine, samples: Samples, pixels: bool) -> np.ndarray[Any, Any]:
    return samples.inputs if pixels else engine.integers(samples)
