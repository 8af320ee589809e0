"""Start of a fine-tuning: samples, a network, and loaded or pre-trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from ..golden.datasets.dataset import Task
from ..golden.datasets.tasks import network_for, task_of
from ..golden.errors import UserError
from ..golden.importers.user_module import holds_network
from ..golden.models.layers import Shape
from ..golden.models.module import module_of
from ..golden.models.network import Network
from ..golden.models.text import preset
from ..golden.nn.softmax import LARGEST_SAMPLE
from ..golden.train.pretrain import Pretraining, accuracy_of, at_chance, pretrained
from ..golden.train.text.tasks import is_text
from ..golden.transformer.blocks import Transformer
from ..golden.transformer.sample_model import TRANSFORMERS, SampleModule, SampleTransformer
from .own_network import OwnNetwork, check_samples, with_weights
from .progress import Bars, advance
from .words import refuse_unknown_task


def default_drift(data: str) -> str:
    """Default drift: a moved camera for digits, else none."""
    return "camera" if data == "digits" else "none"


@dataclass(frozen=True)
class Start:
    """The options `scripts.options.start`; None for a default that depends on the network or the data.

    Parameters
    ----------
    network
        Name of a preset.
    model, weights, shape
        See `OwnNetwork`; the default shape is the samples'.
    pretrain
        Also pre-train weights from a file or from ``build``.
    data, data_dir, drift, scale
        See `task_of`.
    seed
        Seed of all random numbers.
    """

    network: str | None
    model: str | None
    weights: Path | None
    shape: Shape | None
    pretrain: bool
    data: str
    data_dir: Path | None
    drift: str | None
    scale: float
    seed: int

    @property
    def drift_name(self) -> str:
        return self.drift or default_drift(self.data)

    def task(self) -> Task:
        """Load the samples."""
        refuse_unknown_task(self.data)
        if is_text(self.data):
            raise UserError(f"{self.data} is a task of text, which zeroth order tunes: --method pezo-otf or mezo")
        return task_of(self.data, self.data_dir, self.drift_name, self.seed, self.scale)

    @property
    def pretrains(self) -> bool:
        """Whether to pre-train the network: on request, or if it has no weights."""
        return self.pretrain or not (self.weights or self.model)

    def network_for(self, task: Task) -> tuple[Network, nn.Module]:
        """Network and module; `ready` may have to pre-train the module.

        A `UserError` if network and samples do not go together, a file is wrong, or the weights are not finite.
        """
        if self.model and self.network:
            raise UserError("give --network or --model, not both")
        if self.shape and not self.model:
            raise UserError("--input is the shape of your own network's samples: give it with --model FILE.py:BUILD")
        if self.model:
            torch.manual_seed(self.seed)  # the user's function may draw weights: the same in every run
            known = self.shape or (None if holds_network(self.model) else task.test.shape)
            network, module = OwnNetwork(self.model, self.weights, known).built()
        elif self.network in TRANSFORMERS:
            raise UserError(f"{self.network} is a transformer, which zeroth order tunes: --method pezo-otf or mezo")
        else:
            network = preset(self.network or network_for(self.data))
            module = module_of(network)
        if network.repeats_inputs and network.classes > LARGEST_SAMPLE:
            raise UserError(
                f"{network.name} has as many outputs as inputs, {network.classes}: the command line tunes classifiers, "
                "and autoencoders are tuned from Python, with loss=mse (docs/zo-job.md)"
            )
        check_samples(network, task)
        return network, with_weights(network, module, self.weights)

    def transformer_for(self, task: Task) -> tuple[SampleTransformer, nn.Module]:
        """Preset transformer and module, as `network_for`."""
        if self.model:
            raise UserError("give --network or --model, not both")
        if self.shape:
            raise UserError("--input is the shape of your own network's samples: give it with --model FILE.py:BUILD")
        model = TRANSFORMERS[self.network or ""](self.seed)
        check_samples(model, task)
        return model, with_weights(model, SampleModule(model), self.weights)

    def ready(
        self, network: Network | Transformer, module: nn.Module, task: Task, settings: Pretraining, console: Console
    ) -> tuple[nn.Module, Origin]:
        """Module of `network_for` in evaluation mode, pre-trained or from the cache if `pretrains`, and the weights'
        origin.

        A `UserError` if the task has no samples to pre-train on, or pre-training diverges.
        """
        if not self.pretrains:
            return module, Origin(str(self.weights or self.model))
        if not len(task.pretrain):
            remedy = "leave out --pretrain" if self.pretrain else "give weights with --weights"
            raise UserError(f"{task.name} has no samples to pre-train on: {remedy}")
        name = f"pre-train {network.name}"
        # transient: an error of later work stays a single line
        with Bars(console, transient=not console.is_terminal) as progress:
            bar = progress.add_task(name, total=settings.epochs)
            start = module if self.model or self.weights or isinstance(network, Transformer) else None
            trained, file = pretrained(network, task.pretrain, settings, advance(progress, bar, name), start)
            done = f"pre-trained {network.name}, cached in {file.name}"
            progress.update(bar, completed=settings.epochs, description=done)
        right = accuracy_of(file)
        warning = None
        if at_chance(right, task.pretrain.labels):
            warning = (
                f"pre-training ended at chance: {100 * right:.1f}% of its samples right after {settings.epochs} epochs,"
                " no more than by guessing: change --pretrain-epochs or --pretrain-rate, or give trained weights"
            )
        return trained, Origin(str(file), settings.epochs, right, warning)


@dataclass(frozen=True)
class Origin:
    """Origin of a network's weights.

    ``start`` is a file or the user's function. After pre-training, ``epochs`` is set, ``accuracy`` is the final
    fraction of pre-training samples classified correctly, and ``warning`` is set if this is at chance level.
    """

    start: str
    epochs: int | None = None
    accuracy: float | None = None
    warning: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        start_facts = {"start": self.start, "pretrained": self.epochs is not None}
        return start_facts | {f"pretrain_{name}": getattr(self, name) for name in ("epochs", "accuracy")}


def origin_of(facts: Mapping[str, Any]) -> str:
    """Text about the origin of the weights before fine-tuning, from `Origin.facts`."""
    if not facts["pretrained"]:
        return f"weights of {facts['start']}, as they are"
    return (
        f"pre-trained for {facts['pretrain_epochs']} epochs, {100 * facts['pretrain_accuracy']:.1f}% of its samples "
        "right"
    )
