"""Toggles of a core's ports and registers in a job on the compiled core, and their SAIF for a power estimate."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...boards.cores.instantft.job import FineTuner
from ...boards.cores.zotrain.job import ZerothOrderTrainer
from ...boards.host.driver import Core
from ...golden.cores.instantft.instantft import InstantftSpec
from ...golden.cores.zotrain.registers import CORE as TRAINING_CORE
from ...golden.cores.zotrain.zotrain import ZotrainSpec
from ...golden.errors import UserError
from ...golden.lora.adapters import Adapters
from ...golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ...golden.rng.pezo import PezoSpec
from ...golden.zo.coefficient import LARGEST_BATCH
from ...golden.zo.memory_layout import StepOrder
from ...golden.zo.step_settings import StepSettings
from ...hw.verilog import Emitted, emit
from ..cores.instantft.job import TuningJob
from ..cores.zotrain.job import TrainingJob
from .build import build
from .device import SimulatedDevice
from .saif import Saif
from .session import Dram

TRAINING_BATCH = 16
"""Samples of a step of `zotrain`, by default."""
RATE, TRAINING_RATE, SHIFT = 20_000, 40_000, 24
"""Learning rates of the jobs: one of `golden.lora.adapters.rate_of`, one of a `StepOrder` with its shift."""

_REGISTER = re.compile(r"^\s+(?:\\(\S+) |(\w+)) *<= ", re.MULTILINE)
_PLACE = re.compile(r"^module \\(\S+)", re.MULTILINE)
_CHANNEL = re.compile(r"([sm]_axi_\w+?\d*)_(aw|ar|w|r|b)[a-z]+")


@dataclass(frozen=True)
class Toggles:
    """Changes of some bits in a job.

    Parameters
    ----------
    bits : int
        How many bits.
    count : int
        Changes of all of them together.
    """

    bits: int = 0
    count: int = 0

    def __add__(self, other: Toggles) -> Toggles:
        return Toggles(self.bits + other.bits, self.count + other.count)


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Activity of a core in a job.

    Parameters
    ----------
    top : str
        Name of the core's module.
    steps, batch, cycles : int
        Steps or batches of the job, samples of each, and clock cycles of its command.
    bit_exact : bool
        The adapters or deltas after the job are golden's.
    ports : dict of str to Toggles
        By channel: ``m_axi_gmem0 r``; the clock is left out.
    registers : dict of str to Toggles
        Registers by part of the core. Contents and outputs of memories are left out.
    saif : str
        SAIF of the top module's ports, the clock included.
    """

    top: str
    steps: int
    batch: int
    cycles: int
    bit_exact: bool
    ports: Mapping[str, Toggles]
    registers: Mapping[str, Toggles]
    saif: str


@dataclass(frozen=True)
class ActivityJob:
    """Random job whose activity is measured.

    Parameters
    ----------
    steps : int
        Steps of training, or batches of tuning after one epoch that fills the cache.
    batch : int
        Samples of each; 0: what the core has room for, or `TRAINING_BATCH`.
    seed : int
        Seed of network, samples and order.
    raw : bool
        The cache of `instantft` holds Q8.16.
    """

    steps: int = 4
    batch: int = 0
    seed: int = 1
    raw: bool = False

    def check(self, spec: InstantftSpec | ZotrainSpec) -> int:
        """Check that a core can run the job; return the samples of a step.

        Raises
        ------
        UserError
            Naming what it cannot do.
        """
        most = spec.batch if isinstance(spec, InstantftSpec) else LARGEST_BATCH
        if not 0 <= self.batch <= most:
            raise UserError(f"a batch of {self.batch}: {spec.name} takes 1 to {most} samples")
        if self.raw and (not isinstance(spec, InstantftSpec) or spec.cache != "dram"):
            raise UserError("only an instantft whose cache is in DRAM has one of Q8.16")
        if self.batch:
            return self.batch
        return spec.batch if isinstance(spec, InstantftSpec) else TRAINING_BATCH


def baseline(
    spec: InstantftSpec | ZotrainSpec, job: ActivityJob
) -> tuple[str, InstantftSpec | ZotrainSpec, ActivityJob] | None:
    """Find what a core's activity is compared with: Gaussian generators, or a cache of Q8.16.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
    job : ActivityJob

    Returns
    -------
    tuple of str, spec and ActivityJob, or None
        The difference as a table names it, core and job; nothing where the core has no such form.
    """
    if isinstance(spec, InstantftSpec):
        return None if spec.cache != "dram" or job.raw else ("cache of Q8.16", spec, replace(job, raw=True))
    if spec.fold or spec.gaussian != "none":
        return None
    return "Gaussian generators", replace(spec, generator=PezoSpec(), gaussian="tree"), job


def activity(
    spec: InstantftSpec | ZotrainSpec,
    job: ActivityJob,
    period_ps: int,
    stage: Callable[[str], None] = lambda _: None,
) -> Activity:
    """Run a job on a compiled core, compare its result with golden's, and count what toggles.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
    job : ActivityJob
    period_ps : int
        Clock period in ps, an even number, for the times in the SAIF.
    stage : callable
        Called with the name of each part of the work as it begins.

    Raises
    ------
    UserError
        If the core cannot run the job.
    """
    batch = job.check(spec)
    stage(f"emit {spec.name}")
    emitted = emit(spec)
    stage("compile the simulator")
    program = build(emitted.verilog, emitted.top, spec.memory_ports, waves="saif")
    device = SimulatedDevice(program, Dram(noise=False), seed=job.seed)
    stage("simulate the job")
    with tempfile.TemporaryDirectory(prefix="fabtune-") as folder:
        file = Path(folder, "activity.saif")
        if isinstance(spec, InstantftSpec):
            cycles, right = _tune(spec, job, batch, device, file, period_ps)
        else:
            cycles, right = _train(spec, job, batch, device, file, period_ps)
        stage("count the toggles")
        saif = Saif.of(file.read_text(encoding="utf-8"), emitted.top)
    return Activity(
        top=emitted.top,
        steps=job.steps,
        batch=batch,
        cycles=cycles,
        bit_exact=right,
        ports=_grouped(saif, {pin: _channel(pin) for pin in _pins(emitted) if pin != emitted.clock}),
        registers=_grouped(saif, parts_of(emitted)),
        saif=saif.only(_pins(emitted)),
    )


def parts_of(emitted: Emitted) -> dict[str, str]:
    """Find the registers of an emitted core, and the part in which each is.

    Parameters
    ----------
    emitted : Emitted

    Returns
    -------
    dict of str to str
        By name of the register: a component of the trainer, ``trainer`` for its own registers, or ``shell``.
    """
    # a component's registers begin with its place, with "_" between the levels
    places = [place.removeprefix(f"{emitted.top}.") for place in _PLACE.findall(emitted.rtlil)]
    prefixes = {place.replace(".", "_") + "_": place.split(".")[-1] for place in places if place.count(".") <= 2}
    by_length = sorted(prefixes, key=len, reverse=True)
    names = sorted({escaped or plain for escaped, plain in _REGISTER.findall(emitted.verilog)})
    found = {name: next((one for one in by_length if name.startswith(one)), None) for name in names}
    return {name: prefixes[prefix].split("$")[0] for name, prefix in found.items() if prefix}


def _tune(
    spec: InstantftSpec, job: ActivityJob, batch: int, device: SimulatedDevice, file: Path, period_ps: int
) -> tuple[int, bool]:
    """Fill the cache, then write the activity of batches whose samples are all in it; return cycles and equality."""
    rng, network, shape = np.random.default_rng(job.seed), spec.described, spec.mapping.shape
    samples = min(spec.cache_entries, job.steps * batch)
    flat = np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64).clip(-32768, 32767)
    frozen = random_parameters(network, rng)
    inputs, _, labels = random_samples(network, spec.byte_inputs, samples, rng, spec.labels)
    recording = [np.arange(at, min(at + batch, samples)) for at in range(0, samples, batch)]
    cached = list(np.resize(rng.permutation(samples), (job.steps, batch)))
    raw = job.raw or spec.raw_modes[0]
    tuning = TuningJob(frozen, Adapters(shape, flat), inputs, labels, [recording, cached], RATE, raw)
    tuner = FineTuner(Core(spec.registers, device, device, device.interrupt), spec, samples, raw)
    tuner.load(frozen)
    tuner.forget()
    tuner.load_adapters(tuning.adapters)
    tuner.tune(inputs, labels, [recording], RATE)
    device.waves(file, period_ps)
    tuned = tuner.tune(inputs, labels, [cached], RATE)
    device.end_waves()
    golden = tuning.golden(spec)
    for _ in tuning.run_golden(spec, golden):
        pass
    return tuned.finished.cycles, np.array_equal(tuner.adapters().flat, golden.adapters.flat)


def _train(
    spec: ZotrainSpec, job: ActivityJob, batch: int, device: SimulatedDevice, file: Path, period_ps: int
) -> tuple[int, bool]:
    """Write the activity of steps of training; return their cycles, and whether the deltas are golden's."""
    rng, network = np.random.default_rng(job.seed), spec.described
    frozen = random_parameters(network, rng)
    inputs, _, labels = random_samples(network, spec.byte_inputs, batch, rng, spec.labels)
    drawn = [rng.permutation(batch) for _ in range(job.steps)]
    steps = [StepOrder(one, labels[one], TRAINING_RATE) for one in drawn]
    training = TrainingJob(frozen, inputs, steps, StepSettings(shift=SHIFT, loss=spec.loss))
    trainer = ZerothOrderTrainer(Core(TRAINING_CORE, device, device, device.interrupt), spec)
    training.load(trainer)
    device.waves(file, period_ps)
    trained = trainer.train(inputs, steps, training.settings, training.position)
    device.end_waves()
    golden = training.golden(spec)
    for _ in training.run_golden(spec, golden):
        pass
    return trained.finished.cycles, np.array_equal(trainer.deltas(), golden.rows)


def _pins(emitted: Emitted) -> list[str]:
    return [pin.name for pin in emitted.pins]


def _channel(pin: str) -> str:
    """Name the AXI channel of a pin; others stand for themselves."""
    found = _CHANNEL.fullmatch(pin)
    return f"{found[1]} {found[2]}" if found else pin


def _grouped(saif: Saif, groups: Mapping[str, str]) -> dict[str, Toggles]:
    """Add up the toggles of nets by group, in the order in which the groups come."""
    found: dict[str, Toggles] = {}
    for net, group in groups.items():
        # a net that never changes may be none in the simulator
        toggles = saif.toggles.get(net, ())
        found[group] = found.get(group, Toggles()) + Toggles(len(toggles), sum(toggles))
    return found
