"""Where a fine-tuning starts: samples, a network, and weights that are given or pre-trained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from torch import nn

from ..golden.datasets.dataset import Task
from ..golden.datasets.tasks import network_for, task_of
from ..golden.errors import UserError
from ..golden.models.checkpoint import load_into
from ..golden.models.network import Network
from ..golden.models.presets import preset
from ..golden.models.sequential import module_of, network_of
from ..golden.models.user_model import user_module
from ..golden.train.pretrain import Pretraining, pretrained


@dataclass(frozen=True)
class Start:
    """What the command line asked for; None where the default depends on the network or the data.

    Parameters
    ----------
    network, model, weights
        A preset's name; ``file.py:build``; a file with a state dict.
    data, data_dir, drift
        See `task_of`.
    seed
        Of everything random.
    """

    network: str | None
    model: str | None
    weights: Path | None
    data: str
    data_dir: Path | None
    drift: str | None
    seed: int

    @property
    def drifted(self) -> str:
        """The drift; by default the camera's for digits."""
        return self.drift or ("camera" if self.data == "digits" else "none")

    def task(self) -> Task:
        """The samples."""
        return task_of(self.data, self.data_dir, self.drifted, self.seed)

    def chosen(self, task: Task) -> tuple[Network, nn.Sequential | None]:
        """The network, and the module if its weights are given."""
        if self.model and self.network:
            raise UserError("give --network or --model, not both")
        if self.model:
            module = user_module(self.model)
            network = network_of(module, task.test.shape, self.model)
        else:
            network = preset(self.network or network_for(self.data))
            module = module_of(network)
        for part in (task.pretrain, task.tune, task.test):
            if len(part):
                if part.shape != network.input_shape:
                    raise UserError(
                        f"{network.name} takes samples of {network.input_shape}, {task.name} has {part.shape}"
                    )
                part.check(task.name, network.classes)
        if self.weights is None:
            return network, None
        load_into(module, self.weights)
        return network, module.eval()


def progress_on(console: Console) -> Progress:
    """Bars of a job."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console)


def pretrained_module(network: Network, task: Task, how: Pretraining, progress: Progress) -> nn.Sequential:
    """Pre-train, or take what was kept."""
    if not len(task.pretrain):
        raise UserError(f"{task.name} has no samples to pre-train on: give a checkpoint with --weights")
    bar = progress.add_task(f"pre-train {network.name}", total=how.epochs)
    module, kept = pretrained(network, task.pretrain, how, partial(show, progress, bar, f"pre-train {network.name}"))
    progress.update(bar, completed=how.epochs, description=f"pre-trained {network.name}, kept in {kept.name}")
    return module


def show(progress: Progress, bar: TaskID, what: str, loss: float, accuracy: float) -> None:
    """One step further on a bar."""
    progress.update(bar, advance=1, description=f"{what}, loss {loss:.3f}, {100 * accuracy:.1f}% right")
