"""InstantFT: table 1 by arithmetic, figure 7a by training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...golden.datasets.drift import Drift
from ...golden.datasets.tasks import task_of
from ...golden.models.text import preset
from ...golden.train.adapters.cost_model import cost
from ...golden.train.adapters.methods import METHODS, adapter_defaults
from ...golden.train.adapters.tune import AdapterSettings, tune
from ...golden.train.pretrain import pretrained, pretraining_defaults
from .options import Options, Rows
from .trials import kept_trials, mean_and_deviation

_TABLE_1 = {
    # by method: trainable parameters; forward and backward operations in millions; KB. First MNIST, then SVHN
    "ft-all": ((61706, 0.851, 1.444, 567.8), (62006, 1.321, 1.914, 579.4)),
    "ft-last": ((850, 0.851, 0.002, 285.8), (850, 1.321, 0.002, 296.1)),
    "ft-bias": ((236, 0.851, 0.611, 322.0), (236, 1.321, 0.611, 332.3)),
    "lora-all": ((36328, 0.923, 0.743, 611.8), (45480, 1.412, 0.762, 695.4)),
    "lora-last": ((376, 0.852, 0.001, 285.4), (376, 1.322, 0.001, 295.8)),
    "instantft": ((10456, 0.872, 0.036, 366.2), (19608, 1.360, 0.054, 449.8)),
}


def instantft_1(options: Options) -> Rows:
    """Table 1: cost of the methods on LeNet-5."""
    rows = []
    for index, network in enumerate(("lenet5-mnist", "lenet5-svhn")):
        for name, printed in _TABLE_1.items():
            costs = cost(preset(network), METHODS[name])
            rows.append(
                {
                    "network": network,
                    "method": METHODS[name].title,
                    **_pair("parameters", printed[index][0], costs.trainable_parameters),
                    **_pair("forward M", printed[index][1], round(costs.forward_flops / 1e6, 3)),
                    **_pair("backward M", printed[index][2], round(costs.backward_flops / 1e6, 3)),
                    "backward M needed": round(costs.backward_flops_needed / 1e6, 3),
                    **_pair("KB", printed[index][3], round(costs.memory_bytes / 1000, 1)),
                    "cache bytes": costs.cache_bytes,
                }
            )
    return {
        "title": "InstantFT, table 1: cost of fine-tuning LeNet-5, of one sample",
        "rows": rows,
        "notes": [
            "computed from the network's description; the rules are in golden/train/adapters/cost_model.py",
            "backward M needed: without the gradients towards the adapters' inputs, which the paper counts for "
            "InstantFT though its method uses none of them",
        ],
    }


def _pair(what: str, paper: float, ours: float) -> dict[str, float]:
    return {f"{what} paper": paper, what: ours}


ANGLES = (15, 30, 45, 60, 75, 90)
_SEEDS = 5
_DATASETS = {"mnist": "RotMNIST", "fashion-mnist": "RotFMNIST"}
_RUNS = {
    # row: (method, engine)
    "FT-All": ("ft-all", "float"),
    "FT-Last": ("ft-last", "float"),
    "FT-Bias": ("ft-bias", "float"),
    "LoRA-All": ("lora-all", "float"),
    "LoRA-Last": ("lora-last", "float"),
    "InstantFT without NF4": ("skip2-lora", "float"),
    "InstantFT": ("instantft", "float"),
    "InstantFT, integers without NF4": ("skip2-lora", "golden"),
    "InstantFT, integers": ("instantft", "golden"),
}
_PAPER = {
    # from section 5.2; the figure shows no other numbers
    ("mnist", 90, "InstantFT"): 91.8,
    ("mnist", 90, "LoRA-All"): 91.2,
    ("fashion-mnist", 90, "InstantFT"): 77.9,
    ("fashion-mnist", 90, "LoRA-All"): 75.1,
}


def instantft_7a(options: Options) -> Rows:
    """Figure 7a, cases 1 and 2: accuracy on rotated MNIST and Fashion-MNIST."""
    seeds = options.seeds or _SEEDS
    arguments = {(data, seed): (data, seed, options.data_dir) for data in _DATASETS for seed in range(seeds)}
    for data in _DATASETS:
        task_of(data, options.data_dir)  # report a missing file before processes start
    accuracies = kept_trials(_rotations, arguments, options)
    rows: list[dict[str, Any]] = []
    for data, title in _DATASETS.items():
        for degrees in ANGLES:
            for row in ("without fine-tuning", *_RUNS):
                found = (accuracies[data, seed][degrees, row] for seed in range(seeds))
                paper = _PAPER.get((data, degrees, row))
                case = {"task": title, "degrees": degrees, "method": row, "paper": paper}
                rows.append(case | mean_and_deviation(found))
    means = {(row["task"], row["degrees"], row["method"]): row["mean"] for row in rows}

    def less(first: str, other: str) -> str:
        gaps = [
            means[task, degrees, first] - means[task, degrees, other] for task, degrees, row in means if row == first
        ]
        return f"{sum(gaps) / len(gaps):+.2f} on average, {min(gaps):+.2f} to {max(gaps):+.2f}"

    return {
        "title": f"InstantFT, figure 7a: held-out samples right (%), {seeds} seeds",
        "rows": rows,
        "notes": [
            f"integers less float: {less('InstantFT, integers', 'InstantFT')}; the paper's FPGA loses 3.2 at most",
            f"NF4 less none, float: {less('InstantFT', 'InstantFT without NF4')}; integers: "
            f"{less('InstantFT, integers', 'InstantFT, integers without NF4')}; the paper loses 0.09 to 0.4",
            "1,024 of the 10,000 test images, rotated, to tune in 10 epochs of batches of 20 at rate 0.1; the others "
            "to test; a seed draws the network's start, the split, the adapters and every order",
            "paper: ten seeds; of the figure only these numbers are in its text",
        ],
    }


def _rotations(data: str, seed: int, data_dir: Path | None) -> dict[tuple[int, str], float]:
    """Accuracies of a pre-trained network, by degrees of rotation and table row."""
    network = preset("lenet5-mnist")
    defaults = adapter_defaults(network.name)
    how = pretraining_defaults(network.name, seed)
    upright = task_of(data, data_dir, seed=seed)
    module, _ = pretrained(network, upright.pretrain, how)
    accuracies: dict[tuple[int, str], float] = {}
    for degrees in ANGLES:
        task = Drift("rotate", degrees).apply(upright, seed)
        for row, (method, engine) in _RUNS.items():
            settings = AdapterSettings(method, engine, defaults.epochs, 20, defaults.rate, seed=seed)
            before = accuracies.get((degrees, "without fine-tuning"))
            result = tune(network, module, task, settings, before=before)
            accuracies[degrees, row] = result.accuracy_after
            accuracies[degrees, "without fine-tuning"] = result.accuracy_before
    return accuracies
