"""Start of a fine-tuning: samples, a network, and weights that are given or pre-trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn
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
    """The options `scripts.options.start`; None where the default depends on the network or the data.

    Parameters
    ----------
    network, model, weights
        Name of a preset; ``file.py:build``; file with a state dict.
    data, data_dir, drift
        See `task_of`.
    seed
        Seed of all random numbers.
    """

    network: str | None
    model: str | None
    weights: Path | None
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

    def network_for(self, task: Task) -> tuple[Network, nn.Sequential | None]:
        """Describe the network; the module is there if its weights are given.

        Raises
        ------
        UserError
            If network and samples do not go together, or a file is wrong.
        """
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


class Bars(Progress):
    """Progress bars on a terminal, which vanish where an error ends the work: what is left is its one line.

    Elsewhere there are none, so that stderr has errors and warnings alone.
    """

    def __init__(self, *columns: ProgressColumn, console: Console) -> None:
        super().__init__(*columns, console=console, disable=not console.is_terminal)

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self.live.transient = kind is not None
        super().__exit__(kind, *rest)


def progress_bars(console: Console) -> Progress:
    """Progress bars on a console."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Bars(*columns, console=console)


def advance(progress: Progress, bar: TaskID, name: str) -> Callable[[float, float], None]:
    """Make a function that advances a bar by one and shows a loss and the fraction right beside its name."""

    def step(loss: float, accuracy: float) -> None:
        progress.update(bar, advance=1, description=f"{name}, loss {loss:.3f}, {100 * accuracy:.1f}% right")

    return step


@contextmanager
def core_bar(progress: Progress, name: str = "the core") -> Iterator[Callable[[str], None]]:
    """Add a bar for the simulation of a core; the function that it gives shows the present stage beside its name."""
    bar = progress.add_task(name, total=None)
    yield lambda stage: progress.update(bar, description=f"{name}: {stage}")
    progress.update(bar, total=1, completed=1, description=name)


def pretrained_module(network: Network, task: Task, settings: Pretraining, console: Console) -> nn.Sequential:
    """Pre-train a network, or take it from the cache.

    Raises
    ------
    UserError
        If the task has no samples to pre-train on.
    """
    if not len(task.pretrain):
        raise UserError(f"{task.name} has no samples to pre-train on: give a checkpoint with --weights")
    name = f"pre-train {network.name}"
    with progress_bars(console) as progress:
        bar = progress.add_task(name, total=settings.epochs)
        module, file = pretrained(network, task.pretrain, settings, advance(progress, bar, name))
        done = f"pre-trained {network.name}, cached in {file.name}"
        progress.update(bar, completed=settings.epochs, description=done)
    return module
