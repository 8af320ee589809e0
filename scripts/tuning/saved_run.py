"""A run or a network named on the command line of `fabtune evaluate` or `fabtune export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import torch
from torch import nn

from ...golden.errors import UserError
from ...golden.importers.user_module import holds_network
from ...golden.models.checkpoint import weights_file
from ...golden.models.layers import Shape
from ...golden.models.network import Network
from ...golden.models.text import NETWORKS
from ...golden.train.text.tuned_sentences import SentenceRun
from ...golden.train.tuned.network import TunedNetwork
from ...golden.train.tuned.run_file import Run
from ..options import given
from ..own_network import OwnNetwork

OF_LAYERS = ("weights", "shape", "drift", "scale")
"""Options of a network of layers."""


def refuse_of_layers() -> None:
    """Refuse options of a network of layers on sentences: a `UserError` for the first."""
    declared = {parameter.name for parameter in click.get_current_context().command.params}
    if name := given(option for option in OF_LAYERS if option in declared):
        raise UserError(f"{name} belongs to a network of layers; a text task takes --model FOLDER")


@dataclass(frozen=True)
class SavedRun:
    """A run, a network, or a run whose network was moved.

    `run` is a file or folder of `fabtune tune`, or a delta file. For `model`, `weights` and `shape` see `OwnNetwork`;
    the default is the run's file.
    """

    run: Path | None
    model: str | None
    weights: Path | None
    shape: Shape | None

    def sentences(self) -> SentenceRun | None:
        """The run, if its samples are sentences.

        Raises
        ------
        UserError
            If its file is missing or damaged, or options of a network of layers were given.
        """
        if self.run and not self.run.exists():
            what = "the file that fabtune tune wrote, its folder, or a delta"
            raise UserError(f"there is no run {self.run}: give {what}")
        run = SentenceRun.load(self.run) if self.run else None
        if run is not None:
            refuse_of_layers()
        return run

    def folder(self, run: SentenceRun) -> Path:
        """Model from which a run on sentences started.

        Raises
        ------
        UserError
            If the model is not named, or not there.
        """
        named = self.model or run.metadata.get("folder")
        if not named:
            raise UserError(f"{run.path} is of {run.metadata.get('model', 'a transformer')}: give it with --model")
        if self.model is None and not Path(named).exists():
            raise UserError(f"{run.path} is of {named}, which is not there: give it with --model")
        return Path(named)

    def read(self) -> Run | None:
        return Run.load(self.run) if self.run else None

    def load(self, run: Run | None, known: Shape | None = None) -> tuple[Network, nn.Module, TunedNetwork]:
        """Network, module with the weights before tuning, and the tuned network.

        `run` is from `read`; `known` is the shape of a sample, if options, run and model do not name it.

        Raises
        ------
        UserError
            If no network is named, a file is missing or wrong, or the run started from other weights.
        """
        metadata = run.metadata if run else {}
        model, shape = self.model or metadata.get("model"), self.shape
        if not model:
            raise UserError(
                "name the network with --model FILE.py:BUILD, FILE.onnx, FILE.pt2 or a preset; or give a RUN of tune"
            )
        weights = self.weights or (Path(metadata["weights"]) if metadata.get("weights") else None)
        if weights is not None and not weights_file(weights)[0].is_file() and self.weights is None:
            raise UserError(f"{self.run} started from {weights}, which is not there: give it with --weights")
        file = model.rpartition(":")[0] or model
        if model not in NETWORKS and not Path(file).is_file() and self.model is None:
            raise UserError(f"{self.run} is of {model}, which is not there: give it with --model")
        if model in NETWORKS and weights is None:
            raise UserError(f"the preset {model} has no weights of its own: give them with --weights")
        if shape is None and model not in NETWORKS and not holds_network(model):
            shape = run.shape if run else known
        torch.manual_seed(int(metadata.get("seed", "0")))  # the user's function draws the same weights as in the run
        network, module = OwnNetwork(model, weights, shape).load()
        return network, module, TunedNetwork.of(network, module, run)
