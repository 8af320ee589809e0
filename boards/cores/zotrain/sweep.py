"""Sweep of `zotrain`, and of its perturbation generator's blocks alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from ....golden.axi.bus import BEAT
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.errors import UserError
from ....golden.registry import BLOCKS
from ....golden.rng.pezo import PezoSpec
from ....golden.settings import build
from ....golden.train.zo.finetune import ZoSettings
from ....golden.train.zo.integer import IntegerTuning, check_settings, core_settings
from ....golden.train.zo.methods import CORE_EPS, zo_defaults
from ....golden.train.zo.schedule import Schedule
from ...sweep.core_sweep import TrainedSweep
from ...sweep.design import Design, Workload, core_of, texts_of
from ...sweep.space import Point, Space, Value

METHODS = {"pezo-otf": "on-the-fly", "pezo-pool": "pool"}
"""Strategy of the generator by method."""
_GENERATOR = "generator."
"""Prefix of the generator's settings."""


class ZotrainSweep(TrainedSweep[ZotrainSpec, ZoSettings]):
    """Designs of points of `zotrain`, or of a generator block; the latter trains on a preset's array."""

    spec = ZotrainSpec
    training: ClassVar[dict[str, type]] = {"steps": int, "eps": float}
    not_swept: ClassVar[dict[str, str]] = {
        "generator.strategy": "it is training's method: pezo-otf or pezo-pool",
        "gaussian": "a baseline, which fabtune table pezo-core measures",
        "cut_rows": "a sweep's steps have one perturbation of all parameters",
    }
    generators: ClassVar[dict[str, str]] = {"pezo": "", "scale": "scale.", "urng": "scale.urng."}

    def design(self, space: Space, point: Point, workload: Workload) -> Design:
        """A point's block and its zeroth-order training."""
        make = self._of_generator if space.block in self.generators else self._of_core
        return make(space, point, workload)

    def _of_core(self, space: Space, point: Point, workload: Workload) -> Design:
        method = str(point.training.get("method", "pezo-otf"))
        if method not in METHODS:
            raise UserError(f"training.method = {method!r} is not one of {', '.join(METHODS)}")
        inner = {
            name.removeprefix(_GENERATOR): value for name, value in point.settings.items() if _of_the_generator(name)
        }
        training = core_settings(_training(point, workload, method, None, texts_of(inner)))
        check_settings(training, len(workload.task.tune))
        generator = dict(value.split("=", 1) for value in (f"strategy={METHODS[method]}", *training.parameters))
        others: dict[str, Value] = {
            name: value for name, value in point.settings.items() if not _of_the_generator(name)
        }
        whole = {"cut_rows": 0} | others | {_GENERATOR + name: value for name, value in generator.items()}
        spec, texts = core_of(space, whole, workload)
        assert isinstance(spec, ZotrainSpec)
        return Design(spec, texts, training, spec.lanes, spec.columns)

    def _of_generator(self, space: Space, point: Point, workload: Workload) -> Design:
        texts = texts_of(point.settings)
        spec = build(BLOCKS[space.block], texts, space.preset)
        method = str(point.training.get("method", "pezo-otf"))
        parameters = tuple(self.generators[space.block] + value for value in texts)
        training = _training(point, workload, method, space.preset or "otf8", parameters)
        check_settings(training, len(workload.task.tune))
        core = str(point.training["core"])
        if core not in ZotrainSpec.presets:
            raise UserError(f"training.core = {core!r} is not one of {', '.join(ZotrainSpec.presets)}")
        preset = ZotrainSpec.presets[core]
        array: dict[str, Any] = {key: value for key, value in preset.items() if key in ("lanes", "columns")}
        generator = build(PezoSpec, parameters, space.preset or "otf8")
        # raises for an unsuitable generator
        whole = ZotrainSpec.of(workload.network, byte_inputs=workload.byte_inputs, generator=generator, **array)
        return Design(spec, texts, training, whole.lanes, whole.columns)

    def with_seed(self, training: ZoSettings, seed: int) -> ZoSettings:
        return replace(training, schedule=replace(training.schedule, seed=seed))

    def accuracy(self, training: ZoSettings, array: tuple[int, int], workload: Workload) -> float:
        """Accuracy after all steps; it depends on the array, which sets the order of perturbed parameters."""
        network, module, task = workload.network, workload.module, workload.task
        return IntegerTuning(network, module, task, training, *array).run().accuracy_after

    def cycles(self, spec: ZotrainSpec, training: ZoSettings, samples: int) -> int:
        """Cycles of all steps: one for each word of both sides."""
        words = spec.mapping.forward.cycles
        return 2 * words * sum(len(indices) for indices in training.schedule.indices(samples))

    def dram_bytes(self, spec: ZotrainSpec, training: ZoSettings, samples: int) -> int:
        """Bytes of parameters, samples, deltas, state, logits, schedules and records."""
        layout, steps, batch = spec.layout, training.schedule.steps, min(training.schedule.batch, samples)
        beats = spec.mapping.forward.frozen_beats + samples * spec.mapping.forward.sample_beats
        beats += layout.delta_beats + layout.state_beats + layout.logit_beats
        return BEAT * (beats + steps * (layout.step_beats(batch) + layout.record_beats(batch)))

    def tune_options(self, training: ZoSettings, array: tuple[int, int]) -> list[str] | None:
        """Options of `fabtune tune` for the training; the core is the first preset for any network with this array."""
        presets = {name: value for name, value in ZotrainSpec.presets.items() if "columns" in value}
        arrays = {name: (value.get("lanes", 32), value["columns"]) for name, value in presets.items()}
        core = next((name for name, value in arrays.items() if value == array), None)
        if core is None:
            return None
        words = ["--steps", str(training.schedule.steps), "--batch", str(training.schedule.batch)]
        words += ["--eps", repr(training.eps), "--generator", training.generator_name, "--core", core]
        return [*words, *(word for text in training.parameters for word in ("--set", text))]


def _of_the_generator(name: str) -> bool:
    return name.startswith(_GENERATOR)


def _training(
    point: Point, workload: Workload, method: str, generator: str | None, parameters: tuple[str, ...]
) -> ZoSettings:
    values, defaults = point.training, zo_defaults(workload.network.name)
    return ZoSettings(
        method,
        float(values.get("rate", defaults.core_rate or defaults.rate)),
        float(values.get("eps", CORE_EPS)),
        Schedule(int(values.get("steps", defaults.steps)), int(values.get("batch", defaults.batch))),
        generator=generator,
        parameters=parameters,
        engine="golden",
    )


SWEEP = ZotrainSweep()
