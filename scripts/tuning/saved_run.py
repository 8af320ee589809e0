"""A run or a network as `fabtune evaluate` and `fabtune export` name it: loaded, checked, in golden's terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ...golden.errors import UserError
from ...golden.importers.user_module import holds_network
from ...golden.models.checkpoint import weights_file
from ...golden.models.layers import Shape
from ...golden.models.network import Network
from ...golden.models.text import NETWORKS
from ...golden.train.tuned.network import TunedNetwork
from ...golden.train.tuned.run_file import Run
from ..own_network import OwnNetwork


@dataclass(frozen=True)
class SavedRun:
    """A run, a network, or a run of a network that was moved.

    Parameters
    ----------
    run : Path, optional
        File or folder of `fabtune tune`, or a delta file.
    model, weights, shape
        See `OwnNetwork`; by default those that the run's file names.
    """

    run: Path | None
    model: str | None
    weights: Path | None
    shape: Shape | None

    def read(self) -> Run | None:
        """Read the run's file, if one is named."""
        return Run.load(self.run) if self.run else None

    def load(self, run: Run | None, known: Shape | None = None) -> tuple[Network, nn.Module, TunedNetwork]:
        """Load the network with the weights before tuning, and what the run made of it.

        Parameters
        ----------
        run : Run, optional
            From `read`.
        known : tuple of int, optional
            Shape of a sample, where neither options nor run nor model say it.

        Raises
        ------
        UserError
            If nothing names a network, a file is missing or wrong, or the weights are not those of the run's start.
        """
        said = run.metadata if run else {}
        model, shape = self.model or said.get("model"), self.shape
        if not model:
            raise UserError(
                "name the network with --model FILE.py:BUILD, FILE.onnx, FILE.pt2 or a preset; or give a RUN of tune"
            )
        weights = self.weights or (Path(said["weights"]) if said.get("weights") else None)
        if weights is not None and not weights_file(weights)[0].is_file() and self.weights is None:
            raise UserError(f"{self.run} started from {weights}, which is not there: give it with --weights")
        file = model.rpartition(":")[0] or model
        if model not in NETWORKS and not Path(file).is_file() and self.model is None:
            raise UserError(f"{self.run} is of {model}, which is not there: give it with --model")
        if model in NETWORKS and weights is None:
            raise UserError(f"the preset {model} has no weights of its own: give them with --weights")
        if shape is None and model not in NETWORKS and not holds_network(model):
            shape = run.shape if run else known
        torch.manual_seed(int(said.get("seed", "0")))  # weights that the user's function draws are those of the run
        network, module = OwnNetwork(model, weights, shape).load()
        return network, module, TunedNetwork.of(network, module, run)
