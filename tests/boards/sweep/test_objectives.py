"""Objectives compared with layout images, estimates and separate trainings; caching."""

import dataclasses

import numpy as np
import pytest

from fabtune.boards.cores.instantft import sweep as instantft
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.boards.sweep import objectives
from fabtune.boards.sweep.design import Workload, design_of
from fabtune.boards.sweep.objectives import accuracy, cycles, dram_bytes, resources
from fabtune.golden.datasets.drift import Drift
from fabtune.golden.datasets.images import digits
from fabtune.golden.errors import UserError
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.train.adapters.tune import AdapterSettings, tune
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import IntegerTuning
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.zo.memory_layout import StepOrder

INSTANTFT = {
    "block": '"instantft"',
    "preset": '"tiny"',
    "objectives": '["accuracy", "cycles", "dram_bytes"]',
    "training": "\nepochs = 1\n",
    "sweep__settings": '\ncolumns = [4, 8]\nports = [1, 2]\ncache = ["dram", "chip"]\n',
    "sweep__training": '\nmethod = ["instantft", "skip2-lora"]\n',
}
ZOTRAIN = {
    "block": '"zotrain"',
    "preset": '"tiny"',
    "objectives": '["accuracy", "cycles", "dram_bytes"]',
    "training": "\nsteps = 4\n",
    "sweep__settings": "\ncolumns = [4, 8]\n",
    "sweep__training": '\nmethod = ["pezo-otf", "pezo-pool"]\n',
}
PEZO = {
    "block": '"pezo"',
    "objectives": '["accuracy", "lut"]',
    "training": '\ncore = "tiny"\nsteps = 4\n',
    "sweep__settings": '\n"scale.urng.n" = [15, 31]\n"scale.mode" = ["pow2", "fraction"]\n',
}


@pytest.fixture(scope="module")
def start():
    """Drifted digits and an untrained network."""
    network = preset("digits")
    return Workload(Drift.parse("camera").apply(digits(0), 0), network, module_of(network).eval())


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "cache"))


def first_of(space, start, **values):
    """Build the first point of a space, with changed values."""
    return design_of(
        space, space.point(next(space.grid()) | {name.replace("__", "."): one for name, one in values.items()}), start
    )


def test_a_core_is_for_the_network_and_its_samples(space_of, start):
    design = first_of(space_of(**INSTANTFT), start, settings__columns=8)
    spec = design.spec
    assert (spec.network, spec.lanes, spec.columns, spec.batch, spec.byte_inputs) == ("digits", 16, 8, 20, True)
    assert spec.cache_entries >= len(start.task.tune)
    assert design.training == AdapterSettings("instantft", "golden", 1, 20, 0.1, 4)


@pytest.mark.parametrize("method", ["pezo-otf", "pezo-pool"])
def test_the_generator_of_a_core_is_that_of_the_method(space_of, start, method):
    design = first_of(space_of(**ZOTRAIN), start, training__method=method)
    assert design.spec.generator.strategy == {"pezo-otf": "on-the-fly", "pezo-pool": "pool"}[method]
    assert (design.spec.cut_rows, design.lanes, design.columns) == (0, 16, 4)


@pytest.mark.parametrize(
    ("space", "values", "reason"),
    [
        (INSTANTFT, {"settings__ports": 2, "settings__cache": "chip"}, "one is enough"),
        (INSTANTFT, {"settings__cache": "chip", "training__method": "skip2-lora"}, "skip2-lora caches Q8.16"),
        (PEZO, {}, "a generator of 15 numbers a cycle"),
    ],
)
def test_what_does_not_go_together_says_why(space_of, start, space, values, reason):
    with pytest.raises(UserError, match=reason):
        first_of(space_of(**space), start, **values)


@pytest.mark.parametrize(("method", "cache"), [("instantft", "dram"), ("skip2-lora", "dram"), ("instantft", "chip")])
def test_memory_is_what_the_host_of_adapters_places(space_of, start, method, cache):
    design = first_of(space_of(**INSTANTFT), start, training__method=method, settings__cache=cache)
    layout, tuned = design.spec.layout, start.task.tune
    labels = tuned.labels.astype(np.int64)
    batches = [(batch, labels[batch]) for epoch in design.training.batches(len(tuned)) for batch in epoch]
    frozen = random_parameters(start.network, np.random.default_rng(0))
    regions = [
        *(layout.parameters(frozen), layout.adapters(), layout.samples(tuned.inputs), layout.order(batches)),
        *(layout.cache(len(tuned), raw=method == "skip2-lora"), layout.logits(0)),
    ]
    assert dram_bytes(design, start) == sum(region.size for region in regions)


def test_memory_is_what_the_host_of_zeroth_order_places(space_of, start):
    design = first_of(space_of(**ZOTRAIN), start)
    layout, tuned = design.spec.layout, start.task.tune
    steps = [StepOrder(at, tuned.labels[at].astype(np.int64), 1) for at in design.training.schedule.indices(len(tuned))]
    frozen = random_parameters(start.network, np.random.default_rng(0))
    regions = [
        *(layout.parameters(frozen), layout.samples(tuned.inputs), layout.order(steps, 20), layout.state(0)),
        *(layout.deltas(), layout.records(4, 20), layout.logits(1)),
    ]
    assert dram_bytes(design, start) == sum(region.size for region in regions)


def test_cycles_are_words(space_of, start):
    # 198 words a sample on 16 x 4 multipliers
    assert cycles(first_of(space_of(**ZOTRAIN), start), start) == 4 * 20 * 2 * 198
    design, samples = first_of(space_of(**INSTANTFT), start), len(start.task.tune)
    # 14 adapter rows in two passes each; a record of 14 beats and a sample of 4
    assert cycles(design, start) == samples * (198 + 28)
    raw = first_of(space_of(**INSTANTFT), start, training__method="skip2-lora")
    assert cycles(raw, start) == samples * (198 + raw.spec.mapping.raw_beats + 4)
    twice = first_of(space_of(**INSTANTFT), start, training__method="skip2-lora", settings__ports=2)
    assert cycles(twice, start) == samples * (198 + raw.spec.mapping.raw_beats)


@pytest.mark.usefixtures("empty_cache")
def test_accuracy_is_that_of_the_training_alone(space_of, start):
    adapters = first_of(space_of(**INSTANTFT), start)
    found = tune(start.network, start.module, start.task, dataclasses.replace(adapters.training, seed=3))
    assert accuracy(adapters, 3, start) == found.accuracy_after
    generator = first_of(space_of(**PEZO), start, settings__scale__urng__n=31)
    settings = ZoSettings(
        "pezo-otf",
        *(5e-4, 2.0**-10, Schedule(4, 20, 3)),
        generator="otf8",
        parameters=("scale.urng.n=31", "scale.mode=pow2"),
        engine="golden",
    )
    own = IntegerTuning(start.network, start.module, start.task, settings, 16, 4).run()
    assert accuracy(generator, 3, start) == own.accuracy_after


@pytest.mark.usefixtures("empty_cache")
def test_points_that_differ_in_hardware_alone_train_once(space_of, start, monkeypatch):
    runs = []

    def counted(*arguments):
        runs.append(arguments)
        return tune(*arguments)

    monkeypatch.setattr(instantft, "tune", counted)
    space = space_of(**INSTANTFT)
    for columns in (4, 8):
        accuracy(first_of(space, start, settings__columns=columns), 0, start)
    assert len(runs) == 1
    accuracy(first_of(space, start, training__method="skip2-lora"), 0, start)
    accuracy(first_of(space, start), 1, start)
    assert len(runs) == 3


def test_resources_are_the_estimate_and_are_kept(tmp_path, monkeypatch):
    spec, found = UrngSpec(n=3, bits=4), estimate_spec(UrngSpec(n=3, bits=4)).resources
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "cache"))
    device = objectives.board("zcu102").fabric
    assert resources(spec, device) == found
    monkeypatch.setattr(objectives, "estimate_spec", None)
    assert resources(spec, device) == found
