"""FedSPZO: forward work at equal loss, upload and memory, against plain federated zeroth order and FedAvg."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ...golden.datasets.tasks import task_of
from ...golden.errors import UserError
from ...golden.importers.layers.folding import deployed_module
from ...golden.models.module import module_of
from ...golden.models.network import deployed
from ...golden.models.text import preset
from ...golden.train.federated.configuration import FederatedConfig, federated_rates
from ...golden.train.federated.cost_model import cut_of, memory_bytes, part_flops, stage_of, step_flops
from ...golden.train.federated.fedavg import fedavg
from ...golden.train.federated.federation import federate
from ...golden.train.federated.message import Message
from ...golden.train.federated.model import SplitModel
from ...golden.train.federated.shards import shards
from ...golden.train.pretrain import pretrained, pretraining_defaults
from ...golden.zo.scalars import Scalars
from .options import Options, Rows
from .trials import kept_trials

_SEEDS = 3
_ROUNDS = 25
_STEPS = 12
"""A client's steps in a round, for upload and FedAvg; for forward work the budget determines the number."""
_TEST = 2000
"""Largest number of samples for the loss."""
_METHODS = {
    # stage of the cut (None: the stage that should save most), P1, P2
    "FedSPZO P1 = 2, P2 = 8": (None, 2, 8),
    "the same, cut before the head": (-1, 2, 8),
    "FedZO 5 perturbations": (0, 1, 5),
    "FedZO 1 perturbation": (0, 1, 1),
}
_PRINTED = "FedSPZO P1 = 2, P2 = 8"
_PAPER = {"paper: times less": "1.6 to 3", "paper: times smaller": "about 1,000", "paper: over MeZO %": "below 0.5"}


@dataclass(frozen=True)
class _Case:
    """A task: budget of forward operations of all clients in billions, target losses, and rates for each method.

    A method without rates has no trial, because the first method already cuts before the head.
    """

    data: str
    drift: str
    budget: float
    losses: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]


_CASES = {
    "digits": _Case(
        "digits",
        "camera",
        1.0,
        (1.0, 0.7),
        ((0.018, 0.025, 0.032), (0.007, 0.009, 0.012), (0.01, 0.012, 0.015), (0.0018, 0.0022, 0.0028)),
    ),
    "fan": _Case(
        "fan-damage1",
        "none",
        2.0,
        (0.5, 0.3),
        ((0.012, 0.016, 0.02), (), (0.012, 0.016, 0.02), (0.0024, 0.0032, 0.0048)),
    ),
    "lenet5-mnist": _Case(
        "mnist",
        "rotate:45",
        40.0,
        (1.2, 0.9),
        ((0.006, 0.0075, 0.009), (0.0012, 0.0016, 0.002), (0.0035, 0.0042, 0.005), (0.0006, 0.00075, 0.0009)),
    ),
}


def fedspzo(options: Options) -> Rows:
    """Table: forward operations until a loss, each method at the best of three rates; bytes of a client's upload and
    memory.
    """
    seeds = options.seeds or _SEEDS
    names = list(_CASES) if options.data_dir else ["digits"]
    for name in names:
        task_of(_CASES[name].data, options.data_dir)  # report a missing file before processes start
    arguments = {
        (name, method, rate, seed): (name, method, rate, seed, options.data_dir)
        for name in names
        for method, rates in zip(
            (*_METHODS, "FedAvg"), (*_CASES[name].rates, (federated_rates(name).fedavg,)), strict=True
        )
        for rate in rates
        for seed in range(seeds)
    }
    curves = kept_trials(_trial, arguments, options)
    rows = []
    for name in names:
        case = _CASES[name]
        best = {
            method: _best(case, {rate: [curves[name, method, rate, seed] for seed in range(seeds)] for rate in rates})
            for method, rates in zip(_METHODS, case.rates, strict=True)
            if rates
        }
        plain = {method: work for method, (_, work, _) in best.items() if method.startswith("FedZO")}
        for method, (rate, work, right) in best.items():
            row: dict[str, Any] = {"network": name, "method": method, "stage": _shape(name, method)[0], "rate": rate}
            printed = _PAPER if method == _PRINTED else dict.fromkeys(_PAPER)
            for index, letter in enumerate("AB"):
                row[f"10^9 to {letter}"] = _rounded(work[index])
                for other, theirs in plain.items():
                    row[f"{other[6:7]}-FedZO / this, {letter}"] = _rounded(theirs[index] / work[index])
            rows.append(row | {"right %": right} | _costs(name, method) | printed)
        runs = [curves[name, "FedAvg", federated_rates(name).fedavg, seed] for seed in range(seeds)]
        empty = dict.fromkeys(rows[0])
        averaged = {"network": name, "method": "FedAvg", "rate": federated_rates(name).fedavg, "right %": _right(runs)}
        rows.append(empty | averaged | {"upload": 4 * preset(name).parameters, "times smaller": 1})
    losses = "; ".join(f"{name} {' and '.join(map(str, _CASES[name].losses))}" for name in names)
    return {
        "title": f"FedSPZO: forward work at equal loss, upload, memory; {seeds} trials",
        "rows": rows,
        "notes": [
            "paper: RoBERTa-large on SST-2, RTE, WIC and BOOLQ; forward work against federated zeroth order, upload "
            "against parameters, memory against MeZO",
            "here stand in: "
            + "; ".join(f"{name} on {_CASES[name].data} ({_CASES[name].drift})" for name in names)
            + "; all samples to tune on, spread over 10 clients by a Dirichlet distribution with alpha = 1, 20 % "
            f"sampled in each of {_ROUNDS} rounds, batches of 20; weights in Q4.28, perturbations of otf8",
            f"losses A and B of held-out samples: {losses}; mean over trials, smoothed over three rounds; operations "
            "are those of all clients, every pass through the second part counted; each method at that of three rates "
            "which comes to B first, then to A",
            "stage: the layer with weights before which the model is cut, 0 for no cut",
            "5-FedZO, 1-FedZO: FedZO with 5 perturbations and with 1; upload: of a client in a round of "
            f"{_STEPS} steps",
            "right %: held-out samples after the same forward work, FedAvg's after "
            f"{_ROUNDS} rounds of {_STEPS} steps and besides with its backward passes",
        ],
    }


def _trial(name: str, method: str, rate: float, seed: int, data_dir: Path | None) -> tuple[list[float], ...]:
    """Operations in billions, losses and percent correct, before and after each round; empty if the run diverges."""
    case = _CASES[name]
    task = task_of(case.data, data_dir, case.drift, seed)
    network = preset(name)
    how = pretraining_defaults(name, seed)
    trained, _ = pretrained(network, task.pretrain, how)
    plain, module = deployed(network), deployed_module(network, trained)
    test = task.test[:_TEST]
    config = FederatedConfig(rounds=_ROUNDS, steps=_STEPS, rate=rate, seed=seed)
    owned = shards(task.tune, config.clients, 1.0, seed)
    flops = part_flops(plain, 0)
    try:
        if method == "FedAvg":
            curve = fedavg(copy.deepcopy(module), config, owned, test).curve
        else:
            stage, config, flops = _plan(name, method, rate, seed)
            curve = federate(SplitModel(module, cut_of(plain, stage), config), owned, test).curve
    except UserError:
        return [], [], []
    work = [float(np.dot(point.evaluations, flops)) / 1e9 for point in curve]
    return work, [point.loss for point in curve], [100 * point.accuracy for point in curve]


def _shape(name: str, method: str) -> tuple[int, int, int]:
    """Stage of a method's cut, counted from the first stage; P1; P2."""
    stage, first, second = _METHODS[method]
    network = preset(name)
    return (stage_of(network, second) if stage is None else stage % len(network.stages)), first, second


def _plan(name: str, method: str, rate: float, seed: int) -> tuple[int, FederatedConfig, tuple[int, int]]:
    """Stage of the cut, a configuration that spends the budget, and the operations of both parts."""
    stage, first, second = _shape(name, method)
    config = FederatedConfig(rounds=_ROUNDS, steps=1, rate=rate, first=first, second=second, seed=seed)
    flops = part_flops(deployed(preset(name)), stage)
    all_clients = _ROUNDS * config.sampled_clients * config.batch * step_flops(flops, config) / 1e9
    steps = max(1, round(_CASES[name].budget / all_clients))
    return stage, replace(config, steps=steps), flops


def _best(
    case: _Case, trials: dict[float, list[tuple[list[float], ...]]]
) -> tuple[float, tuple[float, ...], float | None]:
    """Best rate, its operations to each loss, and percent correct at the end."""
    candidates = []
    for rate, runs in trials.items():
        if all(losses for _, losses, _ in runs):
            work, losses = (np.mean([run[index] for run in runs], axis=0) for index in (0, 1))
            candidates.append((tuple(_reached(work, losses, loss) for loss in case.losses), rate, _right(runs)))
    if not candidates:
        return min(trials), (float("inf"),) * len(case.losses), None
    work, rate, right = min(candidates, key=lambda candidate: candidate[0][::-1])
    return rate, work, right


def _reached(work: np.ndarray[Any, Any], losses: np.ndarray[Any, Any], loss: float) -> float:
    inner = np.convolve(np.append(losses, losses[-1:]), np.ones(3) / 3, "valid")
    smooth = np.minimum.accumulate(np.concatenate([losses[:1], inner]))
    if smooth[-1] > loss:
        return float("inf")
    return float(np.interp(-loss, -smooth, work))


def _right(runs: list[tuple[list[float], ...]]) -> float:
    return round(float(np.mean([run[2][-1] for run in runs])), 1)


def _rounded(value: float) -> float | None:
    """Round to three digits; None (a loss that was not reached) stays None."""
    return float(f"{value:.3g}") if isfinite(value) and value > 0 else None


def _costs(name: str, method: str) -> dict[str, Any]:
    stage, first, second = _shape(name, method)
    network = deployed(preset(name))
    module = module_of(network)
    upload = len(Message(0, 0, 0, 1, first, second, (Scalars(0, (0,) * (first * second)),) * _STEPS).to_bytes())
    memory, mezo = (
        memory_bytes(module, cut, network.input_shape, FederatedConfig(first=p1, second=p2))
        for cut, p1, p2 in ((cut_of(network, stage), first, second), (0, 1, 1))
    )
    return {
        "upload": upload,
        "times smaller": round(4 * network.parameters / upload),
        "over MeZO %": round(100 * (memory / mezo - 1), 3),
    }
