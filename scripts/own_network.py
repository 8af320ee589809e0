"""A network as commands name it, with ``--model``, ``--weights`` and ``--input``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from ..golden.errors import UserError
from ..golden.models.checkpoint import load_into
from ..golden.models.importers.folding import check_finite
from ..golden.models.importers.onnx_file import is_onnx
from ..golden.models.importers.user_model import user_network
from ..golden.models.layers import Shape
from ..golden.models.module import module_of
from ..golden.models.network import Network
from ..golden.models.presets import NETWORKS


@dataclass(frozen=True)
class OwnNetwork:
    """The options `scripts.options.network_options`.

    Parameters
    ----------
    model : str
        ``file.py:build``, ``file.onnx`` or the name of a preset network.
    weights : Path, optional
        File with a state dict; by default the weights are those that ``build`` made, or that the ONNX file holds.
    shape : tuple of int, optional
        Shape of a sample, where the model does not say it.
    """

    model: str
    weights: Path | None = None
    shape: Shape | None = None

    def load(self) -> tuple[Network, nn.Module]:
        """Describe the network, and load its module with its weights.

        Returns
        -------
        Network
        torch.nn.Module
            The user's own, or that of a preset, in evaluation mode.

        Raises
        ------
        UserError
            If there is no such model, it has no hardware, ``--input`` is missing or has no meaning, or the weights do
            not fit the network or are not finite.
        """
        network, module = self.built()
        return network, with_weights(network, module, self.weights)

    def built(self) -> tuple[Network, nn.Module]:
        """Describe the network, and make its module; ``--weights`` are not read, see `load`."""
        if self.model in NETWORKS:
            if self.shape is not None:
                raise UserError(f"--input has no meaning with the preset {self.model}: leave it out")
            return NETWORKS[self.model], module_of(NETWORKS[self.model])
        if is_onnx(self.model) and self.shape is not None:
            raise UserError(f"--input has no meaning with {self.model}, which says it itself: leave it out")
        if not is_onnx(self.model) and ":" not in self.model:
            raise UserError(f"{self.model} is neither file.py:build, file.onnx nor a preset: {', '.join(NETWORKS)}")
        return user_network(self.model, self.shape)


def with_weights(network: Network, module: nn.Module, weights: Path | None) -> nn.Module:
    """Load a file of weights, if there is one, into a network's module; it is then in evaluation mode.

    Raises
    ------
    UserError
        If the weights do not fit the network, or a tensor has NaN or infinity.
    """
    if weights:
        load_into(module, weights)
    else:
        check_finite(module, network.name)
    return module.eval()
