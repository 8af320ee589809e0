"""Fit of a network on each preset of both cores: cycles and memories, or why it does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import UserError
from ..fixed import Q4_12, Q8_16
from ..models.network import Network, deployed
from ..models.text import text_of
from ..nn.mapping import Mapping
from .instantft import InstantftSpec
from .zotrain import ZotrainSpec

CORES = (InstantftSpec, ZotrainSpec)


@dataclass(frozen=True)
class CoreFit:
    """A network on a preset of a core.

    Parameters
    ----------
    core, preset : str
    refusal : str
        Why it cannot be there; empty where it can.
    spec : InstantftSpec or ZotrainSpec or None
        The core for the network.
    """

    core: str
    preset: str
    refusal: str
    spec: InstantftSpec | ZotrainSpec | None

    @property
    def forward(self) -> Mapping | None:
        """Network on the core's array."""
        if isinstance(self.spec, CORES):
            return self.spec.mapping.forward
        return None

    @property
    def cycles(self) -> int:
        """Words that the array takes for one sample forward; each is a cycle."""
        return self.forward.cycles if self.forward else 0

    @property
    def memories(self) -> dict[str, int]:
        """Bits on the chip of what every core has: parameters, activations, outputs of all stages."""
        forward = self.forward
        if forward is None:
            return {}
        return {
            "parameters": (forward.weight_words * forward.lanes + forward.groups) * forward.columns * Q4_12.width,
            "activations": forward.activation_values * Q8_16.width,
            "outputs": forward.output_depth * forward.columns * Q8_16.width,
        }


def fits(network: Network, byte_inputs: bool) -> list[CoreFit]:
    """Put a network on each preset of both cores; what a preset says of a network is left out.

    One with as many outputs as inputs is taken for an autoencoder, whose core has the loss ``mse`` and is not cut.

    Parameters
    ----------
    network : Network
    byte_inputs : bool
        A sample's values are bytes that stand for 0 to 1.
    """
    found: list[CoreFit] = []
    own: dict[str, Any] = {"loss": "mse"} if network.repeats_inputs else {}
    dropped = ("network", "cut_rows") if own else ("network",)
    for kind in CORES:
        for preset, given in kind.presets.items():
            settings = {name: value for name, value in given.items() if name not in dropped} | own
            try:
                spec = kind.of(network, byte_inputs=byte_inputs, **settings)
                found.append(CoreFit(kind.name, preset, "", spec))
            except UserError as refusal:
                # a core names a network by its text
                reason = str(refusal).replace(text_of(deployed(network)), network.name)
                found.append(CoreFit(kind.name, preset, reason, None))
    return found
