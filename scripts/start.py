"""Start of a fine-tuning: samples, a network, and weights that are given or pre-trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from ..golden.datasets.dataset import Task
from ..golden.datasets.tasks import network_for, task_of
from ..golden.errors import UserError
from ..golden.models.checkpoint import load_into
from ..golden.models.importers.folding import check_finite
from ..golden.models.importers.user_model import user_network
from ..golden.models.module import module_of
from ..golden.models.network import Network
from ..golden.models.presets import preset
from ..golden.nn.softmax import LARGEST_SAMPLE
from ..golden.train.pretrain import Pretraining, pretrained
from .progress import Bars, advance


@dataclass(frozen=True)
class Start:
    """The options `scripts.options.start`; None where the default depends on the network or the data.

    Parameters
    ----------
    network, model, weights, as_built
        Name of a preset; ``file.py:build``; file with a state dict; whether the weights are those that ``build`` made.
    data, data_dir, drift
        See `task_of`.
    seed
        Seed of all random numbers.
    """

    network: str | None
    model: str | None
    weights: Path | None
    as_built: bool
    data: str
    data_dir: Path | None
    drift: str | None
    seed: int

    @property
    def drift_name(self) -> str:
        """The drift; by default that of a moved camera for digits, else none."""
        return self.drift or ("camera" if self.data == "digits" else "none")

    def task(self) -> Task:
        """Load the samples."""
        return task_of(self.data, self.data_dir, self.drift_name, self.seed)

    def network_for(self, task: Task) -> tuple[Network, nn.Module]:
        """Describe the network and load its module, which `ready` may have to pre-train.

        Raises
        ------
        UserError
            If network and samples do not go together, a file is wrong, or a user's weights are not finite.
        """
        if self.model and self.network:
            raise UserError("give --network or --model, not both")
        if self.as_built and not self.model:
            raise UserError("--as-built takes the weights of your own network: give it with --model FILE.py:BUILD")
        if self.as_built and self.weights:
            raise UserError("give --weights or --as-built, not both")
        if self.model:
            torch.manual_seed(self.seed)  # the same weights in every run where the user's function draws them
            network, module = user_network(self.model, task.test.shape)
        else:
            network = preset(self.network or network_for(self.data))
            module = module_of(network)
        if network.repeats_inputs and network.classes > LARGEST_SAMPLE:
            raise UserError(
                f"{network.name} has as many outputs as inputs, {network.classes}: the command line tunes classifiers, "
                "and autoencoders are tuned from Python, with loss=mse (docs/zo-job.md)"
            )
        for part in (task.pretrain, task.tune, task.test):
            if len(part):
                if part.shape != network.input_shape:
                    raise UserError(
                        f"{network.name} takes samples of {network.input_shape}, {task.name} has {part.shape}"
                    )
                part.check(task.name, network.classes)
        if self.weights:
            load_into(module, self.weights)
        else:
            check_finite(module, network.name)
        return network, module.eval()

    def ready(
        self, network: Network, module: nn.Module, task: Task, settings: Pretraining, console: Console
    ) -> tuple[nn.Module, str]:
        """Pre-train the module of `network_for`, or take it from the cache, unless its weights are given.

        Returns
        -------
        torch.nn.Module
            In evaluation mode.
        str
            Origin of the weights: a file, or the user's function.

        Raises
        ------
        UserError
            If the task has no samples to pre-train on, or pre-training diverges.
        """
        if self.weights:
            return module, str(self.weights)
        if self.as_built:
            return module, str(self.model)
        if not len(task.pretrain):
            own = ", or take those that your function made with --as-built" if self.model else ""
            raise UserError(f"{task.name} has no samples to pre-train on: give weights with --weights{own}")
        name = f"pre-train {network.name}"
        # in a log nothing is left of it: an error of the work that follows is one line there, too
        with Bars(console, transient=not console.is_terminal) as progress:
            bar = progress.add_task(name, total=settings.epochs)
            start = module if self.model else None
            trained, file = pretrained(network, task.pretrain, settings, advance(progress, bar, name), start)
            done = f"pre-trained {network.name}, cached in {file.name}"
            progress.update(bar, completed=settings.epochs, description=done)
        return trained, str(file)
