"""`fabtune federate`: FedSPZO, plain federated zeroth order and FedAvg from the same start with the same clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from ..golden.cores.network_core import NetworkCoreSpec
from ..golden.errors import UserError
from ..golden.fixed import Integers
from ..golden.importers.layers.folding import deployed_module, described, folded
from ..golden.models.network import Network, deployed
from ..golden.rng.pezo import PezoSpec
from ..golden.stream.frozen_base import BASES
from ..golden.stream.transformer_model import everything
from ..golden.stream.words import TensorName
from ..golden.train.adapters.cost_model import cost
from ..golden.train.adapters.methods import BACKPROPAGATION
from ..golden.train.conversion import Converter
from ..golden.train.federated.configuration import TRANSFORMER, FederatedConfig, FederatedRates, federated_rates
from ..golden.train.federated.cost_model import cut_of, stage_of
from ..golden.train.federated.experiment import (
    FederatedExperiment,
    Figures,
    NetworkExperiment,
    RoundProgress,
    work_curve,
)
from ..golden.train.federated.federation import FederationResult, RoundMetrics, faulty
from ..golden.train.federated.shards import shards
from ..golden.train.federated.text_experiment import (
    TextExperiment,
    best_cut,
    cut_named,
    mean_work,
    sensitive_places,
    tuned_parameters,
)
from ..golden.train.pretrain import pretraining_defaults
from ..golden.train.text.classifier import TextClassifier, default_folder
from ..golden.train.text.tasks import SHOTS, generic_text, is_text, text_task
from ..golden.train.zo.integer import eps_shift_of
from ..golden.train.zo.methods import CORE_EPS, EPS, integer_source_of
from ..golden.zo.split import Split
from ..sim.compiled.tuner import federation
from ..sim.simulator import compiler
from .progress import Bars, advance
from .results import refuse_outputs
from .start import Origin, Start
from .tuning.sentences import GGUF, worded


@dataclass(frozen=True)
class FederateRequest(Start):
    """Options of the command; None for a default that depends on the network.

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
        Core preset whose weight order all clients use for perturbations; None for the order of the layers.
    simulated
        Number of clients, from the first on, that are simulated cores.
    alpha
        See `shards`.
    shots, base, cut
        Text tasks: sentences per class, see `text_task`; base of the integers; operation at which the transformer is
        cut, see `cut_named`.
    prompt
        Text tasks: head of the transformer, see `worded`.
    sensitive, generic
        Text tasks: share of weights to tune, chosen by gradients on a text, see `sensitive_places`.
    fault_injection, alone
        Whether to lose and damage messages; whether to leave out the baselines.
    plot, force
        Output file, and whether to replace a file.
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
    shots: int | None
    base: str | None
    cut: str | None
    prompt: str | None
    sensitive: float | None
    generic: Path | None
    fault_injection: bool
    alone: bool
    plot: Path | None
    force: bool

    def rates(self, network: str) -> FederatedRates:
        """Learning rates of the options, else the network's defaults."""
        options = {"split": self.rate, "plain": self.plain_rate, "fedavg": self.fedavg_rate}
        if wrong := [f"{rate:g}" for rate in options.values() if rate is not None and not 0 < rate < float("inf")]:
            raise UserError(f"{wrong[0]} is no learning rate: --rate, --plain-rate and --fedavg-rate are above 0")
        return replace(federated_rates(network), **{name: rate for name, rate in options.items() if rate is not None})

    def config(self, rate: float) -> FederatedConfig:
        """Configuration of FedSPZO, in the order of the layers."""
        names = ("rounds", "clients", "fraction", "steps", "batch", "first", "second", "seed")
        values = {name: getattr(self, name) for name in names}
        eps = (CORE_EPS if self.core or is_text(self.data) else EPS) if self.eps is None else self.eps
        return FederatedConfig(rate=rate, eps=eps, source=integer_source_of(self.generator), **values)

    def spec(self, network: Network, byte_inputs: bool) -> NetworkCoreSpec | None:
        """Spec of the core, if the options name a core."""
        if self.core is None:
            if self.simulated:
                raise UserError("--simulated is the number of clients that are cores: name one with --core")
            return None
        if self.simulated > self.clients:
            raise UserError(f"--simulated {self.simulated}: there are {self.clients} clients")
        generator = integer_source_of(self.generator).spec
        assert isinstance(generator, PezoSpec)
        return federation().spec_for(network, byte_inputs, generator, self.core)


def experiment_of(request: FederateRequest, console: Console) -> FederatedExperiment:
    """Experiment of a request, see `started`."""
    return started(request, console)[0]


def started(request: FederateRequest, console: Console) -> tuple[FederatedExperiment, Origin]:
    """Check the request, distribute the samples over the clients, and pre-train or load the network.

    Returns the experiment and the origin of the network's weights. A `UserError` for any mistake, before training
    begins.
    """
    torch.set_num_threads(1)  # small layers gain nothing from more threads, and sums keep their order
    if is_text(request.data):
        return text_experiment(request)
    task = request.task()
    network, module = request.network_for(task)
    config = request.config(request.rates(network.name).split)
    stage = stage_of(network, config.second) if request.stage is None else request.stage
    cut_of(network, stage)
    spec = request.spec(network, task.tune.inputs.dtype == np.uint8)
    if spec is not None:
        config = federation().in_order(spec, network, config, stage)
        if request.simulated:
            compiler()
            eps_shift_of(config.eps)  # before training, refuse an eps that a core cannot take
    owned = shards(task.tune, config.clients, request.alpha, request.seed)
    module, origin = request.ready(network, module, task, pretraining_defaults(network.name, request.seed), console)
    plain = deployed(network)
    backward_flops = cost(plain, BACKPROPAGATION).backward_flops
    trained = described(network, module)
    start = deployed_module(network, trained)
    cores: Sequence[Any] = []
    if spec is not None and request.simulated:
        frozen = Converter().stages(folded(network, trained))
        cores = federation().clients(spec, frozen, config, owned[: request.simulated], request.seed)
    experiment = NetworkExperiment(
        network=plain,
        module=start,
        owned=owned,
        test=task.test,
        config=config,
        stage=stage,
        backward_flops=backward_flops,
        cores=cores,
    )
    return experiment, origin


def text_experiment(request: FederateRequest) -> tuple[TextExperiment, Origin]:
    """Check the request, distribute the sentences over the clients, and convert a transformer to integers, see
    `started`.
    """
    config = request.config(request.rates(TRANSFORMER).split)
    eps_shift_of(config.eps)
    Split(1, config.first, config.second)
    base = next((name for name in BASES if name == (request.base or BASES[0])), None)
    if base is None:
        raise UserError(f"--base {request.base} is not one of {', '.join(BASES)}")
    task = text_task(request.data, request.data_dir, request.shots or SHOTS, request.seed)
    owned = shards(task.tune, config.clients, request.alpha, request.seed)
    path, sparse = Path(request.model) if request.model else default_folder(), request.sensitive is not None
    if sparse and path.suffix == GGUF:
        raise UserError("--sensitive chooses weights by a classifier's gradients: give --model a folder")
    # the server chooses the formats of activations, from the held-out sentences: it has no others
    sentences = worded(path, task, request.prompt, sparse).calibrated(task.test.sentences)
    classifier = None if sentences.wording else partial(TextClassifier, path, task.prompts)
    places: dict[TensorName, Integers] = {}
    if request.sensitive is not None and classifier:
        generic = request.generic or (generic_text(request.data_dir) if request.data_dir else None)
        places = sensitive_places(classifier(), task, request.sensitive, generic, sentences.names)
    tuned = places.__contains__ if places else everything
    integers = sentences.on_base(sentences.base(base, places), tuned, places, len(config.source.spec.base))
    if request.cut is None:
        cut = best_cut(integers, mean_work(sentences, task.tune.sentences), config.second)
    else:
        cut = cut_named(sentences.network, request.cut)
    experiment = TextExperiment(
        sentences=sentences,
        integers=integers,
        owned=owned,
        test=task.test,
        config=config,
        stage=cut,
        classifier=classifier,
    )
    return experiment, Origin(str(path))


def run(request: FederateRequest, console: Console) -> dict[str, Any]:
    """Run the federations and draw the curves.

    Returns
    -------
    dict
        FedSPZO's figures, see `FederatedExperiment`, ``bit_identical``, ``refused``, ``missing``, the settings, and in
        ``baselines`` the figures of the other federations by name.
    """
    refuse_outputs([], request.plot, request.force)
    experiment, origin = started(request, console)
    text = isinstance(experiment, TextExperiment)
    rates = request.rates(TRANSFORMER if text else experiment.name)
    config = experiment.config
    transport = faulty(config.seed) if request.fault_injection else None
    runs = experiment.runs(rates, transport, request.alone)
    results: dict[str, FederationResult] = {}
    figures: dict[str, Figures] = {}
    with Bars(console) as progress:
        for name, federation in runs.items():
            bar = progress.add_task(name, total=config.rounds)
            results[name], figures[name] = federation(progress=_shown_by(advance(progress, bar, name)))
    settings = {
        "network": experiment.name,
        "data": request.data,
        "drift": "none" if text else request.drift_name,
        "rounds": config.rounds,
        "clients": config.clients,
        "sampled": config.sampled_clients,
        "stage": experiment.stage,
        "core": request.core,
        "simulated": request.simulated,
        "alpha": request.alpha if isfinite(request.alpha) else None,
        "seed": config.seed,
    }
    if isinstance(experiment, TextExperiment):
        settings |= {
            "cut": experiment.sentences.network.titles[experiment.stage],
            "base": request.base or BASES[0],
            "trained_parameters": sum(tuned_parameters(experiment.integers, experiment.stage)),
            "lora_upload_bytes": experiment.lora_upload_bytes,
        }
    if request.plot:
        from .curve import draw_federations

        draw_federations(
            {name: work_curve(result, figures[name]) for name, result in results.items()}, settings, request.plot
        )
    fedspzo = results["FedSPZO"]
    return {
        "bit_identical": fedspzo.bit_identical,
        **figures.pop("FedSPZO"),
        "refused": fedspzo.refused,
        "missing": fedspzo.missing,
        **settings,
        **origin.facts,
        "warning": origin.warning,
        "baselines": figures,
    }


def _shown_by(step: Callable[[float, float], None]) -> RoundProgress:
    def after_round(metrics: RoundMetrics) -> None:
        step(metrics.loss, metrics.accuracy)

    return after_round
