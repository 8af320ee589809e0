"""`fabtune tune` by zeroth order: a network of layers in float or in a core's integers, or a transformer on text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from ... import __version__
from ...golden.errors import UserError
from ...golden.importers.layers.folding import described
from ...golden.importers.layers.own_tensors import stage_tensors, user_state
from ...golden.stream.machine.core_size import DEFAULT_SIZE
from ...golden.train.pretrain import pretraining_defaults
from ...golden.train.text.classifier import TextClassifier, default_folder
from ...golden.train.text.integer_tuning import SentenceTuning, folder_state
from ...golden.train.text.objective import TextObjective
from ...golden.train.text.tasks import generic_text, is_text, text_task
from ...golden.train.text.tuned_sentences import run_metadata
from ...golden.train.zo.finetune import FineTuning, ZoResult, ZoSettings, mask_of
from ...golden.train.zo.integer import IntegerRun, IntegerTuning, core_settings
from ...golden.train.zo.methods import CORE_EPS, EPS, METHODS, zo_defaults
from ...golden.train.zo.network_objective import NetworkObjective
from ...golden.train.zo.sample_tuning import SampleTuning
from ...golden.train.zo.schedule import Schedule
from ...golden.train.zo.transformer_tuning import TransformerTuning
from ...golden.transformer.sample_model import TRANSFORMERS, SampleModule
from ...golden.zo.split import Split
from ...sim.compiled.tuner import CORE_ENGINES, CoreTuner, transformer_tuner_of
from ..options import given
from ..progress import Bars
from ..start import Origin
from ..words import refuse_unknown_task
from .sentences import IN_INTEGERS, lines, refuse_in_floats, refuse_other_engine, selection_of, sentence_job
from .tuning import Tuning, find_tools, given_settings

Job = TypeVar("Job", bound=FineTuning | IntegerRun)
POINTS = 20
"""Number of points of the plotted curve."""


class ZerothOrderTuning(Tuning):
    """Fine-tuning by zeroth order, see `Tuning`."""

    methods = METHODS
    kept_as = "weights"
    compared = "steps"

    job: FineTuning | IntegerRun
    result: ZoResult

    @classmethod
    def without_effect(cls, options: Mapping[str, Any]) -> Iterator[tuple[list[str], str]]:
        refuse_unknown_task(options["data"])
        if options["mask"] != "generic":
            yield ["generic"], f"--mask {options['mask']}"
        of_text = {"generic", "shots", "precision", "prompt"} | (set() if is_transformer(options) else {*IN_INTEGERS})
        if not is_text(options["data"]) and (name := given(tuple(sorted(of_text)))):
            raise UserError(f"{name} belongs to a text task")

    @property
    def outputs(self) -> list[Path | None]:
        """Files of the tuned tensors and, on request, of the sum of the updates."""
        return [self.options["output"], *filter(None, [self.options["delta"]])]

    def settings(self, model: str, core: bool = False) -> ZoSettings:
        """Given settings; defaults of the model, or of its job on a core, for the others."""
        defaults, options = zo_defaults(model), self.options
        rate = defaults.sparse_rate if options["method"] == "sparse-zo" else defaults.rate
        if core:
            rate = defaults.core_rate or rate
        chosen = given_settings(ZoSettings, options, rate=rate, eps=CORE_EPS if core else EPS)
        steps, batch = options["steps"] or defaults.steps, options["batch"] or defaults.batch
        chosen["schedule"] = Schedule(steps, batch, options["seed"])
        chosen["split"] = Split(options["cut"] or 0, options["p1"] or 1, options["p2"] or 1)
        return ZoSettings(**chosen)

    def prepare(self, console: Console) -> None:
        options = self.options
        settings = self.settings("")  # refuses wrong settings before any training
        text = is_text(options["data"])
        if not settings.writes_deltas and not ((text or is_transformer(options)) and settings.integers):
            for name in ("delta", "core", "cut", "p1", "p2"):
                if options[name] is not None:
                    integers = "integers of all parameters: --method pezo-otf or pezo-pool, --engine golden"
                    raise UserError(f"--{name} belongs to {integers}")
        torch.set_num_threads(2 if text else 1)
        if text:
            self._prepare_text(console)
        elif is_transformer(options):
            self._prepare_transformer(console)
        else:
            self._prepare_network(console, settings.writes_deltas)

    def _prepare_text(self, console: Console) -> None:
        options = self.options
        for name in ("network", "weights", "drift"):
            if options[name] is not None:
                raise UserError(f"--{name} belongs to a network of layers; a text task takes --model FOLDER")
        if options["shape"] is not None:
            raise UserError("--input belongs to a network of layers; a text task takes --model FOLDER")
        for name, is_set in (("pretrain", options["pretrain"]), ("scale", options["scale"] != 1)):
            if is_set:
                raise UserError(f"--{name} belongs to a network of layers; a text task takes --model FOLDER")
        task = text_task(options["data"], options["data_dir"], options["shots"], options["seed"])
        folder = Path(options["model"]) if options["model"] else default_folder()
        refuse_other_engine(options, self.settings("transformer"))
        settings = self.settings("transformer", core=self.settings("transformer").integers)
        self.network, self.origin, self.classes = "transformer", Origin(str(folder)), task.classes

        def objective() -> TextObjective:
            classifier = TextClassifier(folder, task.prompts, options["precision"])
            classifier.freeze_words()
            generic = options["generic"] or (options["data_dir"] and generic_text(options["data_dir"]))
            return TextObjective(classifier, task, generic)

        if not settings.integers:
            self.job = self._masked(settings, console, partial(FineTuning, objective(), settings))
            return
        self.run_start = {"model": folder.name, "fabtune": __version__, "seed": str(self.start.seed)}
        settings = core_settings(settings)
        self.spec = self._core(settings)
        prepare = partial(sentence_job, options, task, folder, settings, objective, self._array)
        self.job = self._masked(settings, console, prepare)

    def _prepare_transformer(self, console: Console) -> None:
        start, task = self.start, self.start.task()
        model, module = start.transformer_for(task)
        settings = self.settings(model.name)
        settings = self.settings(model.name, core=settings.integers)
        refuse_in_floats(settings)
        if settings.sparse and not settings.integers:
            raise UserError(f"--method sparse-zo tunes {model.name} in integers alone: --engine golden or rtl")
        selection = selection_of(self.options, settings)
        if settings.integers:
            # an unknown layer or cut is refused before any training
            fixed = selection.start(model.network)
            if cut := settings.split.cut:
                if fixed:
                    raise UserError(f"--cut {cut}: with --from-layer, 1 or above, a network is not cut")
                model.network.crossing(cut)
            settings = core_settings(settings)
            self.spec = self._core(settings)
        self.check_samples(task, settings.integers)
        module, self.origin = start.ready(
            model.network, module, task, pretraining_defaults(model.name, start.seed), console
        )
        self.network, self.classes, self.held_out = model.name, model.classes, task.test.labels
        self.run_start = {"model": model.name, "fabtune": __version__, "seed": str(start.seed)}
        objective = NetworkObjective(module, task)
        if not settings.integers:
            self.job = self._masked(settings, console, partial(FineTuning, objective, settings))
            return
        assert isinstance(module, SampleModule), "that of a preset"
        trained = replace(model, parameters=module.parameters_as_trained())

        def prepare(masking: Callable[[int, int], object]) -> SampleTuning:
            mask = mask_of(objective, settings, masking) if settings.sparse else None
            return SampleTuning(trained, task, settings, selection, mask, *self._array)

        self.job = self._masked(settings, console, prepare)

    def _core(self, settings: ZoSettings) -> Any:
        """Core for the job of a transformer; None unless an engine or option asks for a core."""
        if settings.engine not in CORE_ENGINES and self.options["core"] is None:
            return None
        tuner = transformer_tuner_of(settings.method)
        find_tools(settings.engine)
        return tuner.spec_for(settings, self.preset)

    @property
    def _array(self) -> tuple[int, int]:
        size = self.spec or DEFAULT_SIZE
        return size.lanes, size.columns

    @property
    def tuner_of_job(self) -> CoreTuner:
        if isinstance(self.job, TransformerTuning):
            return transformer_tuner_of(self.options["method"])
        return self.tuner

    def _prepare_network(self, console: Console, integers: bool) -> None:
        """Load samples and a network, choose the core for the integers, and pre-train the network."""
        if self.options["engine"] in CORE_ENGINES and not integers:
            raise UserError(
                f"--engine {self.options['engine']} tunes all parameters: --method pezo-otf or pezo-pool, not sparse-zo"
            )
        start = self.start
        task = start.task()
        network, module = start.network_for(task)
        settings = self.settings(network.name, core=integers)
        self.check_samples(task, integers)
        if integers:
            find_tools(settings.engine)
            settings = core_settings(settings)
            byte_inputs = task.tune.inputs.dtype == np.uint8
            self.spec = self.tuner.spec_for(network, settings, len(task.tune), byte_inputs, self.preset)
        pretraining = pretraining_defaults(network.name, start.seed)
        module, self.origin = start.ready(network, module, task, pretraining, console)
        self.network, self.classes, self.held_out = network.name, network.classes, task.test.labels
        if self.spec:
            self.job = IntegerTuning(network, module, task, settings, self.spec.lanes, self.spec.columns)
            self.note_start(network, self.job.stages, self.job.state, task.scale)
            self.check_parameters(self.job.stages, self.job.state)
        else:
            float_module = described(network, module)
            self.note_start(network, stage_tensors(network, float_module), user_state(module, float_module), task.scale)
            self.job = self._masked(settings, console, partial(FineTuning, NetworkObjective(module, task), settings))

    @staticmethod
    def _masked(settings: ZoSettings, console: Console, prepare: Callable[[Callable[[int, int], object]], Job]) -> Job:
        """Prepare a job, with a bar while sensitive weights are chosen."""
        with Bars(console, transient=not console.is_terminal) as progress:
            bar = progress.add_task("choose sensitive weights", total=None, visible=settings.sparse)
            return prepare(lambda done, total: progress.update(bar, completed=done, total=total))

    @property
    def tensors(self) -> Mapping[str, NDArray[np.generic]]:
        """Tuned tensors by the user's names; a transformer's tensors in the shapes of its file."""
        if isinstance(self.job, SentenceTuning):
            return self.job.tensors_in(folder_state(Path(self.origin.start)))
        return super().tensors

    def bar(self, progress: Progress) -> dict[str, Any]:
        method, steps = self.options["method"], self.job.settings.schedule.steps
        bar = progress.add_task(f"{method}, {self.network}", total=steps)

        def after_step(step: int, loss: float, right: float | None) -> None:
            tested = "" if right is None else f", {100 * right:.1f}% right"
            progress.update(bar, advance=1, description=f"{method}, loss {loss:.3f}{tested}")

        return {"progress": after_step, "watch": max(1, steps // POINTS) if self.options["plot"] else 0}

    @property
    def figures(self) -> dict[str, Any]:
        """Mean losses of the first and last quarter of the steps, ``seconds`` (of the steps), and counts."""
        result = self.result
        return {
            "loss_first": result.loss_first,
            "loss_last": result.loss_last,
            "loss_steps": result.quarter,
            "seconds": round(result.seconds, 3),
            "trained_parameters": result.trained_parameters,
            "directions": result.directions,
            **({} if result.saturations is None else {"saturations": result.saturations}),
            **(self.job.facts() if isinstance(self.job, SentenceTuning | SampleTuning) else {}),
        }

    @property
    def described(self) -> dict[str, Any]:
        settings = self.job.settings
        return {
            "network": self.network,
            "data": self.start.data,
            "drift": "none" if is_text(self.start.data) else self.start.drift_name,
            "method": settings.method,
            "engine": self.result.engine,
            "generator": settings.generator_name,
            "steps": settings.schedule.steps,
            "rate": settings.rate,
            "seed": self.start.seed,
            **({"array": f"{self.spec.lanes} x {self.spec.columns}", "core": self.preset} if self.spec else {}),
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """Settings saved with the tuned tensors; of a run on sentences also accuracies and what `SentenceRun` reads."""
        if not isinstance(self.job, SentenceTuning):
            return self.described
        folder, shots = self.origin.start, self.options["shots"]
        accuracies = {f"accuracy_{name}": getattr(self.result, f"accuracy_{name}") for name in ("before", "after")}
        facts = {"folder": folder, "shots": shots, "held_out": len(self.job.test.labels), **accuracies}
        return {**self.described, **facts, **run_metadata(self.job.sentences, self.job.selection.base)}

    @property
    def loss(self) -> float:
        """Mean cross entropy of the last quarter of the steps."""
        return self.result.loss_last

    @property
    def remedy(self) -> str:
        return f"lower --rate {self.job.settings.rate:g} or --eps {self.job.settings.eps:g}"

    def save(self) -> dict[str, str]:
        """Write the sum of the updates, if requested."""
        file = self.options["delta"]
        if not file:
            return {}
        run = {name: text for name, text in self.run_start.items() if name not in ("layout", "base")}
        self.job.delta(run).save(file, self.options["force"])
        return {"delta": str(file)}

    def draw(self, path: Path) -> None:
        from ..curve import draw_steps

        draw_steps(self.result, self.described, path)

    @classmethod
    def summary(cls, result: Mapping[str, Any]) -> list[str]:
        before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
        different = f"{result['directions']:,}" if result["directions"] else "endlessly many"
        clipped = f"; {result['saturations']} values clipped" if "saturations" in result else ""
        return [
            f"{result['method']} ({result['generator']}) on {result['data']}, {result['engine']}: {before:.1f}% right "
            f"before, {after:.1f}% after {result['steps']} steps; tuned in {result['seconds']} s, "
            f"{result['total_seconds']} s in all; {_losses(result)}",
            *_array(result),
            *(lines(result) if "base" in result else ()),
            f"{result['trained_parameters']:,} parameters; {different} different perturbations{clipped}",
        ]


def is_transformer(options: Mapping[str, Any]) -> bool:
    """True if the network is a preset transformer on samples."""
    return options["network"] in TRANSFORMERS


def _losses(result: Mapping[str, Any]) -> str:
    steps, first, last = (result[f"loss_{name}"] for name in ("steps", "first", "last"))
    if result["steps"] == 1:
        return f"loss {first:.3f} in its only step"
    each = "step" if steps == 1 else f"{steps} steps"
    return f"mean loss {first:.3f} in the first {each}, {last:.3f} in the last {each}"


def _array(result: Mapping[str, Any]) -> Iterator[str]:
    """Line on the array of a core's integers, and its effect on the result."""
    if "array" in result:
        yield (
            f"array of {result['array']} (lanes x columns) of the core {result['core']}: it decides which number "
            "perturbs which weight, so another --core ends at another accuracy"
        )
