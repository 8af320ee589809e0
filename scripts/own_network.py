"""The user's network, as named by ``--model``, ``--weights`` and ``--input``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from torch import nn

from ..golden.block import Spec
from ..golden.cores.network_core import NetworkCoreSpec, named
from ..golden.datasets.dataset import Task
from ..golden.errors import UserError
from ..golden.importers.layers.folding import check_finite
from ..golden.importers.layers.network import user_network
from ..golden.importers.user_module import holds_network
from ..golden.models.checkpoint import load_into
from ..golden.models.layers import Shape
from ..golden.models.module import module_of
from ..golden.models.network import Network
from ..golden.models.text import NETWORKS, network_from
from ..golden.settings import build, preset_of
from ..golden.transformer.sample_model import SampleTransformer
from .words import nearest


@dataclass(frozen=True)
class OwnNetwork:
    """The options `scripts.options.network_options`.

    Parameters
    ----------
    model : str
        ``file.py:build``, ``file.onnx``, ``file.pt2``, the name of a preset network, or a network in one line
        (`models.text`).
    weights : Path, optional
        File with a state dict; by default the weights of ``build`` or of the model's file.
    shape : tuple of int, optional
        Shape of a sample, if the model does not define the shape.
    """

    model: str
    weights: Path | None = None
    shape: Shape | None = None

    def load(self) -> tuple[Network, nn.Module]:
        """Network, and its module in evaluation mode with weights loaded.

        Raises
        ------
        UserError
            If the model does not exist or has no hardware, ``--input`` is missing or has no meaning, or the weights do
            not fit the network or are not finite.
        """
        network, module = self.built()
        return network, with_weights(network, module, self.weights)

    def built(self) -> tuple[Network, nn.Module]:
        """Network and module, like `load`, but without reading ``--weights``."""
        if self.model in NETWORKS or re.match(r"\d+(x\d+)*\s", self.model):
            if self.shape is not None:
                what = "the preset" if self.model in NETWORKS else "the description"
                raise UserError(f"--input has no meaning with {what} {self.model}: leave it out")
            network = NETWORKS.get(self.model) or network_from(self.model)
            return network, module_of(network)
        self.check_file()
        self.refuse_word()
        return user_network(self.model, self.shape)

    def refuse_word(self, transformers: Sequence[str] = ()) -> None:
        """Refuse a word that names no network; `transformers` are further names that the command takes."""
        known = (*NETWORKS, *transformers)
        if holds_network(self.model) or ":" in self.model or " " in self.model or self.model in known:
            return
        presets = ", ".join(NETWORKS) + "; a transformer: " * bool(transformers) + ", ".join(transformers)
        raise UserError(
            f"{self.model} is neither file.py:build, file.onnx, file.pt2, one line, nor a preset: {presets}"
            f"{nearest(self.model, known)}"
        )

    def check_file(self) -> None:
        """Refuse ``--input`` with a file that defines the shape."""
        if holds_network(self.model) and self.shape is not None:
            raise UserError(f"--input has no meaning with {self.model}, which says it itself: leave it out")


def with_weights(network: Network | SampleTransformer, module: nn.Module, weights: Path | None) -> nn.Module:
    """Load an optional file of weights into a network's module, in evaluation mode.

    A `UserError` if the weights do not fit the network, or a tensor has NaN or infinity.
    """
    if weights:
        load_into(module, weights)
    else:
        check_finite(module, network.name)
    return module.eval()


def check_samples(network: Network | SampleTransformer, task: Task) -> None:
    """Refuse samples that are not finite or have another shape or class count; a `UserError` names the task."""
    for part in (task.pretrain, task.tune, task.test):
        if len(part):
            check_shape(network, part.shape, task.name)
            part.check(task.name, network.classes)


def check_shape(network: Network | SampleTransformer, shape: Shape, where: str | Path) -> None:
    """Refuse samples of another shape than the network's, with a remedy for permuted axes.

    The `UserError` names `where`, the origin of the samples.
    """
    if shape == network.input_shape:
        return
    remedy = ""
    if len(shape) == 3 and network.input_shape == (1, shape[0], shape[2]):
        remedy = ": for images of one channel write x[:, None]"
    elif len(shape) == 3 and network.input_shape == (shape[2], *shape[:2]):
        remedy = ": the channels come first, write x.transpose(0, 3, 1, 2)"
    raise UserError(f"{network.name} takes samples of {network.input_shape}, {where} has {shape}{remedy}")


def core_spec(
    kind: type[Spec],
    user_network: OwnNetwork,
    settings: Sequence[str],
    preset: str | None,
    byte_inputs: bool | None = None,
) -> NetworkCoreSpec:
    """Spec of a core for the user's network; a line on stderr says how the core reads samples.

    ``settings`` are the texts of ``--set``. ``byte_inputs`` says whether the data's samples are bytes; None keeps the
    core's default.

    Raises
    ------
    UserError
        If the block has no network, the network is named twice, or the core does not take the network.
    """
    if not issubclass(kind, NetworkCoreSpec):
        raise UserError(f"{kind.name} has no network: leave --model out")
    chosen = {setting.partition("=")[0].strip() for setting in settings}
    if "network" in chosen:
        raise UserError(f"--set network= and --model {user_network.model} both name the network: give one of them")
    network, _ = user_network.built()
    values = kind.for_network(preset_of(kind, preset), network) | {"network": named(network)}
    if byte_inputs is not None:
        values["byte_inputs"] = byte_inputs
    try:
        spec = build(kind, settings, given=values)
    except UserError as refusal:
        raise UserError(str(refusal).replace(named(network), network.name)) from refusal
    assert isinstance(spec, NetworkCoreSpec), "checked above"
    if "byte_inputs" not in chosen:
        how = "bytes that stand for 0 to 1" if spec.byte_inputs else "Q8.16 in four bytes"
        why = f"the default of {kind.name}" if byte_inputs is None else "as the data has them"
        other = str(not spec.byte_inputs).lower()
        click.echo(f"{kind.name} reads samples as {how}, {why}; --set byte_inputs={other} for the other", err=True)
    return spec
