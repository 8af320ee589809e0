"""Zeroth-order fine-tuning of a network in integers and on the compiled core: `fabtune tune` with a PeZO method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.errors import UserError
from ....golden.models.network import Network, deployed
from ....golden.rng.pezo import PezoSpec
from ....golden.train.zo.finetune import StepProgress, ZoResult, ZoSettings
from ....golden.train.zo.integer_tuning import IntegerTuning, check_settings, source_of
from ...compiled.comparison import DEFAULT_CORE, HELD_OUT
from ...compiled.session import Dram
from .job import TrainingJob, ZerothOrderComparison, compare_zeroth_order


def zotrain_for(
    network: Network, settings: ZoSettings, samples: int, byte_inputs: bool, core: str = DEFAULT_CORE
) -> ZotrainSpec:
    """Choose the core for a job.

    Parameters
    ----------
    network, settings
        The job.
    samples : int
        Samples to tune with.
    byte_inputs : bool
        Whether samples are bytes.
    core : str
        A preset of `ZotrainSpec`.

    Raises
    ------
    UserError
        If there is no such preset, or the core cannot run the job: see `check_settings`, `ZotrainSpec` and
        `ZotrainSpec.check_split`.
    """
    check_settings(settings, samples)
    spec = zotrain_preset(network, core, byte_inputs, _generator_of(settings))
    spec.check_split(settings.split, min(settings.schedule.batch, samples))
    return spec


def zotrain_preset(network: Network, core: str, byte_inputs: bool, generator: PezoSpec) -> ZotrainSpec:
    """Make the spec of a preset for another network and generator.

    Raises
    ------
    UserError
        If there is no such preset, or it does not fit.
    """
    if core not in ZotrainSpec.presets:
        raise UserError(f"there is no core {core!r}; there are: {', '.join(ZotrainSpec.presets)}")
    chosen: dict[str, Any] = {name: value for name, value in ZotrainSpec.presets[core].items() if name != "network"}
    if len(deployed(network).stages) == 1:
        del chosen["cut_rows"]
    return ZotrainSpec.of(network, byte_inputs=byte_inputs, generator=generator, **chosen)


def _generator_of(settings: ZoSettings) -> PezoSpec:
    spec = source_of(settings, 1).spec
    assert isinstance(spec, PezoSpec), "generators by name are presets of pezo"
    return spec


def train_rtl(
    tuning: IntegerTuning,
    spec: ZotrainSpec,
    progress: StepProgress | None = None,
    watch: int = 0,
    stage: Callable[[str], None] = lambda _: None,
    dram: Dram | None = None,
    seed: int = 0,
) -> tuple[ZoResult, ZerothOrderComparison]:
    """Run a job in integers, then on the compiled core, and compare.

    Parameters
    ----------
    tuning : IntegerTuning
        The job; afterwards its deltas are the sum of the core's moves.
    spec : ZotrainSpec
        The core, of the array and generator of the job.
    progress, watch
        See `IntegerTuning.run`.
    stage : callable
        Called with the name of each step as it begins.
    dram : Dram, optional
        Behaviour of the core's memory.
    seed : int
        Seed of the memory's randomness.

    Returns
    -------
    ZoResult
        Accuracy after tuning and tensors are those of the core's deltas.
    ZerothOrderComparison
    """
    integers, start = tuning.integers, tuning.integers.job.position
    stage("tune in integers")
    result = tuning.run(progress, watch)
    inputs, frozen = integers.inputs(tuning.task.tune), integers.model.frozen
    job = TrainingJob(frozen, inputs, integers.orders, integers.job.settings, start)
    slopes, comparison = compare_zeroth_order(
        spec, job, integers.inputs(tuning.task.test[:HELD_OUT]), dram, seed, stage
    )
    tuning.replay(slopes)
    result.curve[-1] = (len(job.steps), tuning.accuracy())
    result.tensors = tuning.tensors()
    return result, comparison
