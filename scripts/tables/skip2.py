"""Skip2-LoRA: table 4 from training, tables 6 and 7 from measured time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...golden.datasets.dataset import Samples
from ...golden.datasets.tasks import task_of
from ...golden.models.module import module_of
from ...golden.models.text import preset
from ...golden.train.adapters.cost_model import cost
from ...golden.train.adapters.methods import METHODS, adapter_defaults
from ...golden.train.adapters.tune import AdapterSettings, engine_of, tune
from ...golden.train.batches import batches
from ...golden.train.pretrain import pretrained, pretraining_defaults
from .options import Options, Rows
from .trials import kept_trials, mean_and_deviation

_METHODS = ("ft-all", "ft-last", "ft-bias", "ft-all-lora", "lora-all", "lora-last", "skip-lora", "skip2-lora")
_PAPER_4 = {
    "fan-damage1": ("fan", (98.73, 94.19, 79.42, 98.63, 98.26, 94.67, 96.07, 96.19)),
    "fan-damage2": ("fan", (88.12, 92.43, 79.56, 88.88, 86.45, 93.55, 93.24, 93.46)),
    "har": ("har", (90.99, 89.31, 82.21, 90.40, 91.09, 89.79, 92.10, 91.99)),
}
_BEFORE = {"fan-damage1": 60.61, "fan-damage2": 51.86, "har": 79.97}
_OTHER_RATES = (0.0005, 0.001)
_SEEDS = 5


def skip2_4(options: Options) -> Rows:
    """Table 4: accuracy on three drifted tasks."""
    seeds = options.seeds or _SEEDS
    for data in _PAPER_4:
        task_of(data, options.data_dir)  # report a missing file before processes start
    arguments = {(data, seed): (data, seed, options.data_dir) for data in _PAPER_4 for seed in range(seeds)}
    accuracies = kept_trials(_trial, arguments, options)
    rows: list[dict[str, Any]] = []
    for data, (network, printed) in _PAPER_4.items():
        paper = dict(zip(_METHODS, printed, strict=True)) | {"without fine-tuning": _BEFORE[data]}
        default_rate = adapter_defaults(network).rate
        for method, engine, rate in (("without fine-tuning", "float", default_rate), *_runs(default_rate)):
            found = (accuracies[data, seed][method, engine, rate] for seed in range(seeds))
            name = METHODS[method].title if method in METHODS else method
            case = {"task": data, "method": name, "engine": engine, "rate": rate, "paper": paper.get(method)}
            rows.append(case | mean_and_deviation(found))
    return {
        "title": f"Skip2-LoRA, table 4: held-out samples right (%), {seeds} trials",
        "rows": rows,
        "notes": [
            "paper: 20 trials; it states neither its learning rates nor which recordings and windows it tunes on",
            "fan: seeds go through the four silent recordings and both directions between the noisy ones",
            "har: a reconstruction of the data; golden/datasets/har.py tells the split, on which the figures depend",
            "batch norm keeps its pre-trained statistics and parameters while fine-tuning, with every method",
        ],
    }


def _runs(default_rate: float) -> list[tuple[str, str, float]]:
    """Runs as (method, engine, rate)."""
    integers = [(method, "golden", default_rate) for method in ("skip2-lora", "instantft")]
    slower = [("skip2-lora", "float", rate) for rate in _OTHER_RATES]
    return [*((method, "float", default_rate) for method in _METHODS), *integers, *slower]


def _trial(data: str, seed: int, data_dir: Path | None) -> dict[tuple[str, str, float], float]:
    name, _ = _PAPER_4[data]
    network, defaults = preset(name), adapter_defaults(name)
    task = task_of(data, data_dir, seed=seed)
    how = pretraining_defaults(name, seed)
    module, _ = pretrained(network, task.pretrain, how)
    accuracies = {}
    for method, engine, rate in _runs(defaults.rate):
        result = tune(network, module, task, AdapterSettings(method, engine, defaults.epochs, 20, rate, seed=seed))
        accuracies[method, engine, rate] = result.accuracy_after
        accuracies.setdefault(("without fine-tuning", "float", defaults.rate), result.accuracy_before)
    return accuracies


# -- tables 6 and 7 --------------------------------------------------------------------------------------------------

_PAPER_6 = {
    "fan": (470, 300, (5.864, 2.633, 3.721, 6.053, 4.113, 2.642, 2.952, 0.450)),
    "har": (1050, 600, (11.323, 6.179, 6.795, 11.577, 7.459, 6.031, 6.328, 0.595)),
}
_ROUNDS = 7
_EPOCHS = 10
"""Number of epochs of a round. Of these 10 only the first fills the cache; in the paper's fan job, 1 of 300."""


def skip2_6(options: Options) -> Rows:
    """Tables 6 and 7: time of a training batch; all methods run in turn, in a single process and thread."""
    torch.set_num_threads(1)
    rows = []
    for name, (samples, epochs, printed) in _PAPER_6.items():
        options.progress(name)
        spent = _milliseconds(name, samples)
        operations = {method: _operations(name, method, epochs) for method in _METHODS}
        for method, paper in zip(_METHODS, printed, strict=True):
            rows.append(
                {
                    "network": name,
                    "method": METHODS[method].title,
                    "paper ms": paper,
                    "paper % of LoRA-All": round(100 * paper / printed[_METHODS.index("lora-all")], 1),
                    "ms here": round(spent[method], 4),
                    "% of LoRA-All here": round(100 * spent[method] / spent["lora-all"], 1),
                    "operations, % of LoRA-All": round(100 * operations[method] / operations["lora-all"], 1),
                }
            )
    return {
        "title": "Skip2-LoRA, tables 6 and 7: time of a training batch of 20",
        "rows": rows,
        "notes": [
            f"here: mean of the batches of a round of {_EPOCHS} epochs, least of {_ROUNDS} rounds in which the "
            "methods take turns, one process, one thread; the first round fills the cache",
            "here: methods that propagate run in PyTorch with its gradients, Skip-LoRA and Skip2-LoRA in NumPy with "
            "four products: a ratio of two implementations; the paper's are C on a Raspberry Pi Zero 2 W",
            "operations: counted by golden/train/adapters/cost_model.py, the cache filled once in the paper's epochs",
        ],
    }


def _milliseconds(name: str, count: int) -> dict[str, float]:
    """Milliseconds of a batch by method. Values are random, as time does not depend on values."""
    network = preset(name)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(count, *network.input_shape)).astype(np.float32)
    samples = Samples(inputs, rng.integers(0, network.classes, count))
    torch.manual_seed(0)
    module = module_of(network).eval()
    engines = {method: engine_of(network, module, AdapterSettings(method, rate=1e-3), count) for method in _METHODS}
    least = dict.fromkeys(_METHODS, np.inf)
    for _ in range(_ROUNDS):
        for method, engine in engines.items():
            work = [(samples[indices], indices) for _ in range(_EPOCHS) for indices in batches(count, 20, rng)]
            started = time.perf_counter()
            for batch in work:
                engine.batch(*batch)
            spent = (time.perf_counter() - started) / len(work)
            least[method] = min(least[method], 1000 * spent)
    return least


def _operations(name: str, method: str, epochs: int) -> float:
    """Operations of a sample, averaged over all epochs."""
    costs = cost(preset(name), METHODS[method])
    forward = float(costs.forward_flops)
    if costs.forward_flops_on_a_hit is not None:
        forward = costs.forward_flops_on_a_hit + (forward - costs.forward_flops_on_a_hit) / epochs
    return forward + costs.backward_flops_needed
