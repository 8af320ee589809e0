"""Flow of `fabtune tune` with any method: refuse, prepare, run, compare with the core, save, and report."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from math import log
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from ... import __version__
from ...golden.datasets.dataset import Task
from ...golden.errors import UserError
from ...golden.fixed import Integers
from ...golden.importers.layers.own_tensors import StageTensors, State
from ...golden.importers.user_module import holds_network
from ...golden.models.network import Network
from ...golden.train.dynamic_range import samples_advice, stages_advice
from ...golden.train.metrics import DivergedError
from ...golden.train.pretrain import at_chance
from ...golden.train.tuned.run_file import run_metadata
from ...sim.compiled.tuner import CORE_ENGINES, DEFAULT_CORE, CoreTuner, Tuner, tuner_of
from ...sim.simulator import compiler
from ..progress import Bars, core_bar
from ..results import refuse_outputs, save_tuned, spoilt
from ..start import Origin, Start, origin_of


class Tuning(ABC):
    """A fine-tuning with one method, from the command's options to the tuned tensors.

    Parameters
    ----------
    options : mapping
        Options of the command by name; None if the default depends on the network or the data.

    Attributes
    ----------
    start : Start
        Samples, network and weights.
    network : str
        Name of the network or transformer, from `prepare` on.
    held_out : array of int, optional
        Labels of the held-out samples of a network of layers.
    advice : sequence of str
        Lines of advice on samples and parameters outside the hardware's formats.
    run_start : mapping of str to str
        Metadata of the run's start, for the file of a network of layers.
    job : AdapterTuning, FineTuning or IntegerTuning
        From `prepare` on.
    spec : NetworkCoreSpec or None
        Core that repeats the job after the model, or decides its integers.
    result : AdapterResult or ZoResult
        From `run` on.
    """

    methods: ClassVar[Mapping[str, Any]]
    """Names of the methods."""
    kept_as: ClassVar[str]
    """Key of the file with the tuned tensors."""
    compared: ClassVar[str]
    """Name of the units after which core and model are compared: batches or steps."""

    network: str
    classes: int
    held_out: Integers | None = None
    run_start: Mapping[str, str] = MappingProxyType({})
    advice: Sequence[str] = ()
    origin: Origin
    job: Any
    spec: Any = None
    result: Any

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.start = Start(**{field.name: options[field.name] for field in fields(Start)})

    @classmethod
    def without_effect(cls, options: Mapping[str, Any]) -> Iterator[tuple[list[str], str]]:
        """Options without effect: their names, and the option or value that disables them."""
        yield from ()

    @property
    def outputs(self) -> list[Path | None]:
        """Files that the run writes; None stands for the file in the folder of a new run."""
        return [self.options["output"]]

    @property
    def tuner(self) -> Tuner:
        """The core that runs the method's jobs."""
        return tuner_of(self.options["method"])

    @property
    def preset(self) -> str:
        return self.options["core"] or DEFAULT_CORE

    @abstractmethod
    def prepare(self, console: Console) -> None:
        """Refuse what cannot run, load samples and network, and pre-train."""

    @abstractmethod
    def bar(self, progress: Progress) -> dict[str, Any]:
        """Add a progress bar; return arguments of the job's ``run`` that move the bar and measure a curve."""

    @property
    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Results besides the accuracies, by their keys in ``--json``."""

    @property
    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Settings by their keys in ``--json``; saved with the tuned tensors."""

    @property
    @abstractmethod
    def loss(self) -> float:
        """Mean cross entropy at the end."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """Advice for a loss that is worse than guessing."""

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Plot loss and held-out accuracy."""

    @classmethod
    @abstractmethod
    def summary(cls, result: Mapping[str, Any]) -> list[str]:
        """Lines on a result of `run`, without core and file."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Settings saved with the tuned tensors."""
        return self.described

    @property
    def tensors(self) -> Mapping[str, NDArray[np.generic]]:
        """Tuned tensors by the user's names."""
        tensors: Mapping[str, NDArray[np.generic]] = self.result.tensors
        return tensors

    def check_samples(self, task: Task, integers: bool) -> None:
        """Collect advice on samples outside their format; print it if they become integers."""
        advice = samples_advice((task.pretrain, task.tune, task.test), task.scale)
        self.advice = [advice] if advice else []
        if integers:
            self._say(self.advice)

    def check_parameters(self, stages: Sequence[StageTensors], state: State) -> None:
        """Collect and print advice on parameters outside their format."""
        advice = list(stages_advice([stage.title for stage in stages], tuple(stage.folded(state) for stage in stages)))
        self.advice = [*self.advice, *advice]
        self._say(advice)

    @staticmethod
    def _say(advice: Sequence[str]) -> None:
        for text in advice:
            click.echo(f"fabtune: warning: {text}", err=True)

    def note_start(self, network: Network, stages: Sequence[StageTensors], state: State, scale: float) -> None:
        """Record the start of a run on a network of layers, see `run_metadata`."""
        start = self.start
        weights = self.origin.start if self.origin.epochs is not None else str(start.weights or "")
        named = start.model or network.name
        self.run_start = run_metadata(named, weights, network.input_shape, scale, stages, state)
        self.run_start |= {"fabtune": __version__, "seed": str(start.seed)}

    def save(self) -> dict[str, str]:
        """Write further files; return their names by key."""
        return {}

    def run(self, console: Console) -> dict[str, Any]:
        """Run the job with progress bars; return the figures of the comparison with a core, if any."""
        with Bars(console) as progress:
            arguments = self.bar(progress)
            if self.spec is None or self.job.settings.engine not in CORE_ENGINES:
                self.result = self.job.run(**arguments)
                return {}
            with core_bar(progress) as begin:
                tuner, golden = self.tuner_of_job, self.job.settings.engine == "golden-core"
                run = tuner.run_on_golden if golden else tuner.run
                self.result, comparison = run(self.job, self.spec, begin, **arguments)
        return comparison.facts

    @property
    def tuner_of_job(self) -> CoreTuner:
        """The core that runs the job, from `prepare` on."""
        return self.tuner


def find_tools(engine: str | None) -> None:
    """Find the C++ compiler for engine "rtl", before any training."""
    if engine == "rtl":
        compiler()


def given_settings(kind: type[Any], options: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """Fields of a settings dataclass: given options, and defaults for the others."""
    known = {field.name for field in fields(kind)}
    return defaults | {name: value for name, value in options.items() if name in known and value is not None}


def tune(tuning: Tuning, console: Console) -> dict[str, Any]:
    """Pre-train or load, fine-tune, save.

    Returns
    -------
    dict
        ``accuracy_before`` and ``accuracy_after`` (fractions of held-out samples), the method's `figures`, the
        comparison with the core, the settings, and the origin of the weights. Also ``warning`` (see `warnings_of`),
        ``advice``, ``total_seconds`` (loading and simulation included), and the file under the method's key.
    """
    began, options = time.monotonic(), tuning.options
    plot, force = options["plot"], options["force"]
    refuse_outputs(tuning.outputs, plot, force)
    try:
        tuning.prepare(console)
        facts = tuning.run(console)
    except DivergedError as error:
        if not tuning.advice:
            raise
        raise UserError(f"{error.happened}; {tuning.advice[0]}") from error
    before, after = tuning.result.accuracy_before, tuning.result.accuracy_after
    name = f"{options['data'].partition(':')[0]}-{options['method']}"
    output = save_tuned(options["output"], name, tuning.tensors, {**tuning.metadata, **tuning.run_start}, force)
    described = tuning.described | tuning.save()
    if plot:
        tuning.draw(plot)
    return {
        "accuracy_before": before,
        "accuracy_after": after,
        **tuning.figures,
        **facts,
        **described,
        **tuning.origin.facts,
        "warning": "; ".join(warnings_of(tuning)) or None,
        "advice": list(tuning.advice),
        "total_seconds": round(time.monotonic() - began, 3),
        tuning.kept_as: str(output),
    }


def warnings_of(tuning: Tuning) -> list[str]:
    """Warnings of a start at chance level, and of a run that made the network worse, see `spoilt`."""
    before, after = tuning.result.accuracy_before, tuning.result.accuracy_after
    remedy = tuning.advice[0] if tuning.advice else tuning.remedy
    warnings = [tuning.origin.warning]
    if after < before and tuning.loss > log(tuning.classes):  # may be the loss of a single batch
        warnings.append(spoilt(tuning.job.held_out_loss(), tuning.classes, before, after, remedy))
    labels = tuning.held_out if tuning.origin.epochs is None else None
    if labels is not None and at_chance(before, labels):
        remedy = "if it is not trained, give --weights, or --pretrain"
        if tuning.start.weights or holds_network(tuning.start.model or ""):
            remedy = "prepare the samples as they were for its training: scale, mean, order of channels and of classes"
        warnings.insert(
            0,
            f"{tuning.origin.start} is taken as it is, and {100 * before:.1f}% right before fine-tuning is no more "
            f"than by guessing: {remedy}",
        )
    return [warning for warning in warnings if warning]


def summary(kind: type[Tuning], result: Mapping[str, Any]) -> str:
    """A few lines on the result of `tune`."""
    lines = [origin_of(result), *kind.summary(result)]
    if "cycles" in result:
        lines.append(
            f"the core took {result['cycles']:,} cycles ({result['milliseconds']} ms at {result['mhz']} MHz); "
            f"{result[f'{kind.compared}_compared']} {kind.compared} and {result['logits_compared']} outputs compared "
            f"with the integers, {result['mismatches']} mismatches"
        )
    if "commands" in result:
        lines.append(
            f"the golden core took {result['commands']} commands of the host driver and tuned "
            f"{'as' if result['bit_exact'] else 'otherwise than'} the integers, {result['mismatches']} mismatches"
        )
    if "first_difference" in result:
        lines.append(f"the first difference: {result['first_difference']}")
    return "\n".join([*lines, result[kind.kept_as]])
