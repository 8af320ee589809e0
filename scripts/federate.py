"""`fabtune federate`: FedSPZO beside plain federated zeroth order and FedAvg, from one start with the same clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from rich.console import Console

from ..golden.cores.core import CoreSpec
from ..golden.datasets.dataset import Samples
from ..golden.errors import UserError
from ..golden.models.importers.folding import deployed_module, described, folded
from ..golden.models.network import Network, deployed
from ..golden.nn.arithmetic.forward import StageIntegers
from ..golden.registry import CORES
from ..golden.rng.pezo import PezoSpec
from ..golden.train.adapters.cost_model import cost
from ..golden.train.adapters.methods import METHODS
from ..golden.train.conversion import Converter
from ..golden.train.federated.client import FederatedClient
from ..golden.train.federated.configuration import FederatedConfig
from ..golden.train.federated.cost_model import cut_of, stage_of
from ..golden.train.federated.defaults import FederatedRates, federated_rates
from ..golden.train.federated.experiment import FederatedExperiment, Figures, RoundProgress, work_curve
from ..golden.train.federated.federation import FederationResult, RoundMetrics
from ..golden.train.federated.shards import shards
from ..golden.train.federated.transport import faulty
from ..golden.train.pretrain import pretraining_defaults
from ..golden.train.zo.defaults import CORE_EPS, EPS
from ..golden.train.zo.integer_tuning import eps_shift_of
from ..golden.train.zo.methods import integer_source_of
from ..sim.simulator import compiler
from .results import refuse_outputs
from .start import Start, advance, progress_bars


class CoreClients(Protocol):
    """Clients of a federation that are cores: ``CLIENTS`` in ``sim/cores/CORE/federate.py``."""

    def spec_for(self, network: Network, preset: str, byte_inputs: bool, generator: PezoSpec) -> CoreSpec:
        """Make the core of all clients.

        Parameters
        ----------
        network : Network
        preset : str
            Preset of the core.
        byte_inputs : bool
            Whether samples are bytes.
        generator : PezoSpec

        Raises
        ------
        UserError
            If there is no such preset, or it does not fit.
        """

    def configured(self, spec: Any, config: FederatedConfig, network: Network, stage: int) -> FederatedConfig:
        """Configure the order in which the core perturbs the parameters, cut at a layer with weights.

        Parameters
        ----------
        spec : CoreSpec
            From `spec_for`.
        config : FederatedConfig
            In the order of the layers.
        network : Network
        stage : int
            See `cut_of`.
        """

    def client(
        self, spec: Any, frozen: Sequence[StageIntegers], config: FederatedConfig, samples: Samples, seed: int
    ) -> FederatedClient:
        """Compile the core, and make a client of it.

        Parameters
        ----------
        spec : CoreSpec
            From `spec_for`.
        frozen : sequence of StageIntegers
            Pre-trained weights and biases, Q4.12.
        config : FederatedConfig
            From `configured`.
        samples : Samples
            Samples of the client.
        seed : int
            Seed of the randomness of the core's memory.
        """


def core_clients() -> CoreClients:
    """Find the first core that takes part in federations."""
    parts = (core.part("sim", "federate", "CLIENTS") for core in CORES.values())
    found: CoreClients = next(part for part in parts if part is not None)
    return found


@dataclass(frozen=True)
class FederateRequest(Start):
    """Options of the command; None where the default depends on the network.

    Parameters
    ----------
    rounds, clients, fraction, steps, batch, eps, first, second
        See `FederatedConfig`.
    rate, plain_rate, fedavg_rate
        Learning rates of FedSPZO, plain federated zeroth order and FedAvg.
    stage
        Layer at which the model is cut, see `cut_of`.
    generator
        A preset of pezo.
    core
        Preset of the core in whose order all clients perturb their weights; None for the order of the layers.
    simulated
        How many clients, the first ones, are cores in simulation.
    alpha
        See `shards`.
    fault_injection, alone
        Lose and damage messages; leave out the baselines.
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
    eps: float | None
    first: int
    second: int
    stage: int | None
    generator: str
    core: str | None
    simulated: int
    alpha: float
    fault_injection: bool
    alone: bool
    plot: Path | None
    force: bool

    def rates(self, network: str) -> FederatedRates:
        """Learning rates: those given, and defaults of the network for the others."""
        given = {"split": self.rate, "plain": self.plain_rate, "fedavg": self.fedavg_rate}
        return replace(federated_rates(network), **{name: rate for name, rate in given.items() if rate is not None})

    def config(self, rate: float) -> FederatedConfig:
        """Configuration of FedSPZO, in the order of the layers."""
        names = ("rounds", "clients", "fraction", "steps", "batch", "first", "second", "seed")
        values = {name: getattr(self, name) for name in names}
        eps = (CORE_EPS if self.core else EPS) if self.eps is None else self.eps
        return FederatedConfig(rate=rate, eps=eps, source=integer_source_of(self.generator), **values)

    def spec(self, network: Network, byte_inputs: bool) -> CoreSpec | None:
        """Spec of the core, if one is asked for."""
        if self.core is None:
            if self.simulated:
                raise UserError("--simulated is the number of clients that are cores: name one with --core")
            return None
        if self.simulated > self.clients:
            raise UserError(f"--simulated {self.simulated}: there are {self.clients} clients")
        generator = integer_source_of(self.generator).spec
        assert isinstance(generator, PezoSpec)
        return core_clients().spec_for(network, self.core, byte_inputs, generator)


def experiment_of(request: FederateRequest, console: Console) -> FederatedExperiment:
    """Check the request, spread the samples over the clients, and pre-train or load the network.

    Raises
    ------
    UserError
        For whatever is wrong, before anything is trained.
    """
    torch.set_num_threads(1)  # layers as small as these gain nothing from more, and sums keep their order
    task = request.task()
    network, module = request.network_for(task)
    config = request.config(request.rates(network.name).split)
    stage = stage_of(network, config.second) if request.stage is None else request.stage
    cut_of(network, stage)
    spec = request.spec(network, task.tune.inputs.dtype == np.uint8)
    if spec is not None:
        config = core_clients().configured(spec, config, network, stage)
        if request.simulated:
            compiler()
            eps_shift_of(config.eps)  # refuses what a core cannot take before anything is trained
    owned = shards(task.tune, config.clients, request.alpha, request.seed)
    module, _ = request.ready(network, module, task, pretraining_defaults(network.name, request.seed), console)
    plain = deployed(network)
    backward_flops = cost(plain, METHODS["ft-all"]).backward_flops
    trained = described(network, module)
    start = deployed_module(network, trained)
    cores: list[FederatedClient] = []
    if spec is not None and request.simulated:
        frozen, clients = Converter().stages(folded(network, trained)), core_clients()
        cores = [clients.client(spec, frozen, config, own, request.seed) for own in owned[: request.simulated]]
    return FederatedExperiment(plain, start, owned, task.test, config, stage, backward_flops, cores)


def run(request: FederateRequest, console: Console) -> dict[str, Any]:
    """Run the federations and draw their curves.

    Returns
    -------
    dict
        FedSPZO's figures, see `FederatedExperiment`, ``bit_identical``, ``refused``, ``missing``, the settings, and in
        ``baselines`` the figures of the others by name.
    """
    refuse_outputs([], request.plot, request.force)
    experiment = experiment_of(request, console)
    rates = request.rates(experiment.network.name)
    config = experiment.config
    transport = faulty(config.seed) if request.fault_injection else None
    runs: dict[str, Callable[..., tuple[FederationResult, Figures]]] = {
        "FedSPZO": partial(experiment.fedspzo, transport)
    }
    if not request.alone:
        runs["FedZO"] = partial(experiment.fedzo, rates.plain, transport)
        runs["FedAvg"] = partial(experiment.fedavg, rates.fedavg)
    results: dict[str, FederationResult] = {}
    figures: dict[str, Figures] = {}
    with progress_bars(console) as progress:
        for name, federation in runs.items():
            bar = progress.add_task(name, total=config.rounds)
            results[name], figures[name] = federation(progress=_shown_by(advance(progress, bar, name)))
    settings = {
        "network": experiment.network.name,
        "data": request.data,
        "drift": request.drift_name,
        "rounds": config.rounds,
        "clients": config.clients,
        "sampled": config.sampled_clients,
        "stage": experiment.stage,
        "core": request.core,
        "simulated": request.simulated,
        "alpha": request.alpha,
        "seed": config.seed,
    }
    if request.plot:
        from .curve import draw_federations

        draw_federations(
            {name: work_curve(one, figures[name]) for name, one in results.items()}, settings, request.plot
        )
    fedspzo = results["FedSPZO"]
    return {
        "bit_identical": fedspzo.bit_identical,
        **figures.pop("FedSPZO"),
        "refused": fedspzo.refused,
        "missing": fedspzo.missing,
        **settings,
        "baselines": figures,
    }


def _shown_by(step: Callable[[float, float], None]) -> RoundProgress:
    def after_round(metrics: RoundMetrics) -> None:
        step(metrics.loss, metrics.accuracy)

    return after_round
