"""The demo's zeroth-order part: all weights of the digits network, in integers and in the core's RTL; generators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from rich.progress import Progress
from torch import nn

from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.dataset import Task
from ...golden.datasets.tasks import task_of
from ...golden.models.network import Network
from ...golden.rng.pezo import PezoSpec
from ...golden.settings import build
from ...golden.train.zo.finetune import ZoResult, ZoSettings
from ...golden.train.zo.integer import IntegerTuning, core_settings
from ...golden.train.zo.methods import CORE_EPS, zo_defaults
from ...golden.train.zo.schedule import Schedule
from ...sim.compiled.comparison import Comparison
from ...sim.compiled.tuner import tuner_of
from ...sim.verify import Verdict, verify
from ..progress import core_bar

METHOD = "pezo-otf"
CORE = "tiny"
"""Preset of the core."""
STEPS_IN_RTL = 200
"""Number of first steps that run in the core too: the simulator takes four seconds for 100 steps."""
PASSES = 2
"""Forward passes of a sample in a step, one for each perturbation sign."""
WATCH = 25
"""Steps between two points of the curve."""
WORDS = 1000
"""Number of words in each generator's bench."""
PRESETS = ("pool", "otf8", "otf14")
"""Presets of `PezoSpec` that are emitted, estimated and plotted."""
VERIFIED = ("pool", "otf8")
"""Presets that are verified here: compiling the 16,384 factors of the third takes as long as both together."""


@dataclass(frozen=True)
class ZerothOrderRun:
    """Zeroth-order fine-tuning of all weights on drifted digits.

    Parameters
    ----------
    core : NetworkCoreSpec
        The core that ran the first steps.
    samples : int
        Number of samples to tune on.
    undrifted : float
        Fraction of held-out digits correct before the drift.
    result : ZoResult
        All steps, in integers.
    in_rtl : ZoResult
        The first steps; the last accuracy is with the core's deltas.
    comparison : Comparison
        The core against the integers.
    """

    core: NetworkCoreSpec
    samples: int
    undrifted: float
    result: ZoResult
    in_rtl: ZoResult
    comparison: Comparison

    @property
    def steps(self) -> int:
        return len(self.result.losses)

    @cached_property
    def passes(self) -> list[int]:
        """Forward passes before each step, and after the last."""
        schedule = settings_for(self.steps).schedule
        return list(accumulate((PASSES * len(batch) for batch in schedule.indices(self.samples)), initial=0))

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Points (forward passes, fraction of held-out samples correct)."""
        return [(self.passes[step], right) for step, right in self.result.curve]


def settings_for(steps: int) -> ZoSettings:
    """Settings of a number of steps on digits: the defaults of `fabtune tune`."""
    defaults = zo_defaults("digits")
    return core_settings(ZoSettings(METHOD, defaults.rate, CORE_EPS, Schedule(steps, defaults.batch)))


def core_for_digits(network: Network, task: Task) -> NetworkCoreSpec:
    """The core that fine-tunes digits by zeroth order."""
    settings = settings_for(STEPS_IN_RTL)
    return tuner_of(METHOD).spec_for(network, settings, len(task.tune), byte_inputs=True, preset=CORE)


def tune_zeroth_order(
    network: Network, module: nn.Module, task: Task, core: NetworkCoreSpec, progress: Progress
) -> tuple[ZoResult, float]:
    """Fine-tune in a core's integers; result, and fraction of held-out digits correct before the drift."""
    steps = zo_defaults("digits").steps
    bar = progress.add_task("zeroth order in the model", total=steps)
    tuning = IntegerTuning(network, module, task, settings_for(steps), core.lanes, core.columns)
    undrifted = tuning.integers.accuracy(task_of("digits").test)
    return tuning.run(lambda *_: progress.advance(bar), WATCH), undrifted


def first_steps_in_rtl(
    network: Network, module: nn.Module, task: Task, core: NetworkCoreSpec, progress: Progress
) -> tuple[ZoResult, Comparison]:
    """Run the first steps in the compiled core, compared with the integers after each step."""
    tuning = IntegerTuning(network, module, task, settings_for(STEPS_IN_RTL), core.lanes, core.columns)
    with core_bar(progress, core.name) as begin:
        return tuner_of(METHOD).run(tuning, core, begin)


def verify_generators(simulator: str, progress: Progress) -> dict[str, Verdict]:
    """Verify two generators alone; verdicts by name."""
    bar = progress.add_task("generators against the RTL", total=len(VERIFIED))
    verdicts, specs = {}, generators()
    for name in VERIFIED:
        verdicts[f"pezo, {name}"] = verify(specs[name], simulator, words=WORDS)
        progress.advance(bar)
    return verdicts


def generators() -> dict[str, PezoSpec]:
    """Spec of each of `PRESETS`."""
    specs = {name: build(PezoSpec, [], name) for name in PRESETS}
    return {name: spec for name, spec in specs.items() if isinstance(spec, PezoSpec)}
