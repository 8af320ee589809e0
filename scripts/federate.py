"""`fabtune federate`: FedSPZO beside plain federated zeroth order and FedAvg, from one start with the same clients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import rich.progress
import torch
from rich.console import Console
from torch import nn

from ..golden.datasets.dataset import Samples, Task
from ..golden.models.checkpoint import refuse_existing
from ..golden.models.network import Network, deployed
from ..golden.models.sequential import deployed_module
from ..golden.train.adapters.cost_model import cost
from ..golden.train.adapters.methods import METHODS
from ..golden.train.federated.configuration import LARGEST_STEPS, FederatedConfig
from ..golden.train.federated.cost_model import cut_of, memory_bytes, part_flops, stage_of, step_flops
from ..golden.train.federated.defaults import FederatedRates, federated_rates
from ..golden.train.federated.fedavg import fedavg
from ..golden.train.federated.federation import FederationResult, RoundMetrics, Transport, federate
from ..golden.train.federated.shards import shards
from ..golden.train.federated.transport import faulty
from ..golden.train.pretrain import pretraining_defaults
from ..golden.train.zo.methods import integer_source_of
from .start import Start, pretrained_module, progress_on, show

PLAIN_QUERIES = 5
"""Perturbations a step of plain federated zeroth order."""


@dataclass(frozen=True)
class Request(Start):
    """What the command line asked for; None where the default depends on the network.

    Parameters
    ----------
    rounds, clients, fraction, steps, batch, eps, first, second
        See `FederatedConfig`.
    rate, plain_rate, fedavg_rate
        Learning rates of FedSPZO, plain federated zeroth order and FedAvg.
    stage
        At which the model is cut, see `cut_of`.
    generator
        A preset of pezo.
    alpha
        See `shards`.
    fault_injection, alone
        Let messages be lost and damaged; leave out the baselines.
    plot, force
        File to write, and whether it may replace another.
    """

    rounds: int
    clients: int
    fraction: float
    steps: int
    batch: int
    rate: float | None
    plain_rate: float | None
    fedavg_rate: float | None
    eps: float
    first: int
    second: int
    stage: int | None
    generator: str
    alpha: float
    fault_injection: bool
    alone: bool
    plot: Path | None
    force: bool

    def config(self, rate: float) -> FederatedConfig:
        """FedSPZO's."""
        names = ("rounds", "clients", "fraction", "steps", "batch", "eps", "first", "second", "seed")
        return FederatedConfig(
            rate=rate, source=integer_source_of(self.generator), **{name: getattr(self, name) for name in names}
        )


Told = Callable[[RoundMetrics], None]


def run(request: Request, console: Console) -> dict[str, Any]:
    """Pre-train or load, spread the samples, run the federations.

    Returns
    -------
    dict
        FedSPZO's figures, see `_figures`, ``bit_identical``, ``refused``, ``missing``, what was asked for, and in
        ``baselines`` the figures of the others by name.
    """
    if request.plot:
        from .curve import check

        refuse_existing(request.plot, request.force)
        check(request.plot)
    asked = chosen(request)
    with progress_on(console) as progress:
        start = asked.prepared(progress)
        config, rates = start.config, start.rates
        transport = faulty(config.seed) if request.fault_injection else None
        runs: dict[str, Callable[[Told], tuple[FederationResult, dict[str, Any]]]] = {
            "FedSPZO": partial(start.zeroth_order, config, start.stage, transport)
        }
        if not request.alone:
            runs["FedZO"] = partial(start.zeroth_order, start.plain(), 0, transport)
            runs["FedAvg"] = partial(start.fedavg, replace(config, rate=rates.fedavg))
        outcomes: dict[str, FederationResult] = {}
        figures: dict[str, dict[str, Any]] = {}
        for name, federation in runs.items():
            bar = progress.add_task(name, total=config.rounds)
            outcomes[name], figures[name] = federation(partial(_told, partial(show, progress, bar, name)))
    described = {
        "network": start.network.name,
        "data": request.data,
        "drift": request.drifted,
        "rounds": config.rounds,
        "clients": config.clients,
        "sampled": config.sampled_clients,
        "stage": start.stage,
        "alpha": request.alpha,
        "seed": config.seed,
    }
    if request.plot:
        from .curve import draw_federations

        draw_federations({name: _curve(one, figures[name]) for name, one in outcomes.items()}, described, request.plot)
    ours = outcomes["FedSPZO"]
    return {
        "bit_identical": ours.bit_identical,
        **figures.pop("FedSPZO"),
        "refused": ours.refused,
        "missing": ours.missing,
        **described,
        "baselines": figures,
    }


@dataclass(frozen=True)
class Chosen:
    """What was asked for, all of it checked; nothing is trained yet.

    Parameters
    ----------
    task : Task
    network : Network
    module : nn.Sequential or None
        If its weights are given.
    config : FederatedConfig
        FedSPZO's.
    rates : FederatedRates
    owned : list of Samples
        Of each client.
    stage : int
        At which FedSPZO cuts.
    """

    task: Task
    network: Network
    module: nn.Sequential | None
    config: FederatedConfig
    rates: FederatedRates
    owned: list[Samples]
    stage: int

    def prepared(self, progress: rich.progress.Progress) -> Prepared:
        """Pre-train, or take what is there."""
        module = self.module
        if module is None:
            how = pretraining_defaults(self.network.name, self.config.seed)
            module = pretrained_module(self.network, self.task, how, progress)
        plain, start = deployed(self.network), deployed_module(self.network, module)
        return Prepared(plain, start, self.owned, self.task.test, self.config, self.rates, self.stage)


def chosen(request: Request) -> Chosen:
    """Read the samples and spread them over clients; check the rest.

    Raises
    ------
    UserError
        For whatever is wrong.
    """
    torch.set_num_threads(1)  # layers as small as these gain nothing from more, and sums keep their order
    task = request.task()
    network, module = request.chosen(task)
    asked = {"split": request.rate, "plain": request.plain_rate, "fedavg": request.fedavg_rate}
    rates = replace(federated_rates(network.name), **{name: rate for name, rate in asked.items() if rate is not None})
    config = request.config(rates.split)
    stage = stage_of(network, config.second) if request.stage is None else request.stage
    cut_of(network, stage)
    owned = shards(task.tune, config.clients, request.alpha, request.seed)
    return Chosen(task, network, module, config, rates, owned, stage)


@dataclass(frozen=True)
class Prepared:
    """What all federations start from.

    Parameters
    ----------
    network : Network
        Without batch norm, which is folded.
    module : nn.Sequential
        Pre-trained.
    owned : list of Samples
        Of each client.
    test : Samples
    config : FederatedConfig
        FedSPZO's.
    rates : FederatedRates
    stage : int
        At which FedSPZO cuts.
    """

    network: Network
    module: nn.Sequential
    owned: list[Samples]
    test: Samples
    config: FederatedConfig
    rates: FederatedRates
    stage: int

    def plain(self) -> FederatedConfig:
        """Of plain federated zeroth order: about as much forward work as FedSPZO's, if a message has room for it."""
        config = replace(self.config, first=1, second=PLAIN_QUERIES, rate=self.rates.plain)
        work = step_flops(part_flops(self.network, self.stage), self.config) * config.steps
        steps = round(work / step_flops(part_flops(self.network, 0), config))
        return replace(config, steps=min(max(1, steps), LARGEST_STEPS))

    def zeroth_order(
        self, config: FederatedConfig, stage: int, transport: Transport | None, told: Told
    ) -> tuple[FederationResult, dict[str, Any]]:
        """A federation and its figures."""
        module = copy.deepcopy(self.module)
        cut = cut_of(self.network, stage)
        outcome = federate(module, cut, config, self.owned, self.test, transport, told)
        memory = memory_bytes(module, cut, self.network.input_shape, config)
        mezo = memory_bytes(module, 0, self.network.input_shape, replace(config, first=1, second=1))
        more = {"memory_bytes": memory, "memory_over_mezo_percent": round(100 * (memory / mezo - 1), 4)}
        return outcome, _figures(outcome, config, part_flops(self.network, stage)) | more

    def fedavg(self, config: FederatedConfig, told: Told) -> tuple[FederationResult, dict[str, Any]]:
        """FedAvg and its figures."""
        outcome = fedavg(copy.deepcopy(self.module), config, self.owned, self.test, told)
        back = cost(self.network, METHODS["ft-all"])
        figures = _figures(outcome, config, (0, back.forward_flops))
        figures["backward_flops"] = outcome.curve[-1].evaluations[1] * back.backward_flops
        return outcome, figures


def _figures(outcome: FederationResult, config: FederatedConfig, flops: tuple[int, int]) -> dict[str, Any]:
    """Of a federation: bytes and operations of all clients together, held-out samples before and after."""
    before, after = outcome.curve[0], outcome.curve[-1]
    return {
        "upload_bytes": after.upload_bytes,
        "upload_bytes_per_client_round": after.upload_bytes // (config.rounds * config.sampled_clients),
        "forward_flops": sum(samples * each for samples, each in zip(after.evaluations, flops, strict=True)),
        "loss_before": round(before.loss, 4),
        "loss_after": round(after.loss, 4),
        "accuracy_before": before.accuracy,
        "accuracy_after": after.accuracy,
        "rate": config.rate,
        "steps": config.steps,
    }


def _curve(outcome: FederationResult, figures: dict[str, Any]) -> list[tuple[float, float, float]]:
    """Share of the forward operations in billions, held-out loss, percent right."""
    seen = [sum(one.evaluations) for one in outcome.curve]
    billions = figures["forward_flops"] / 1e9
    return [
        (billions * samples / seen[-1], one.loss, 100 * one.accuracy)
        for samples, one in zip(seen, outcome.curve, strict=True)
    ]


def _told(shown: Callable[[float, float], None], progress: RoundMetrics) -> None:
    shown(progress.loss, progress.accuracy)
