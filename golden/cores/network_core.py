"""Part of the contract that cores of one network share: the network, its array, and how presets take another one."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers, q8_16_of_bytes
from ..models.network import Network, deployed
from ..models.text import NETWORKS, network_from, text_of
from ..nn.arithmetic.loss import Loss
from ..nn.array.mapping import Mapping
from .core import CoreFit, CoreSpec


def named(network: Network) -> str:
    """Name a network as a spec has it: that of a preset, or its description, with batch norm folded."""
    known = NETWORKS.get(network.name)
    return network.name if known and deployed(known) == deployed(network) else text_of(deployed(network))


class NetworkCoreSpec(CoreSpec):
    """Spec of a core that is generated for a network; its fields are declared by each core, in an order of its own.

    Attributes
    ----------
    network : str
        Name of a preset, or a description such as ``1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10``.
    byte_inputs : bool
        Samples are bytes that stand for 0 to 1; otherwise Q8.16 in four bytes.
    lanes, columns : int
        Size of the array of multipliers.
    loss : str
        ``cross_entropy`` of labels, or ``mse``, an autoencoder's mean squared error.
    """

    network: str
    byte_inputs: bool
    lanes: int
    columns: int
    loss: Loss

    @classmethod
    def of(cls, network: Network, **settings: Any) -> Self:
        """Make the spec of a network that need not be a preset."""
        given: dict[str, Any] = {"network": named(network), **settings}
        return cls(**given)

    @cached_property
    def described(self) -> Network:
        """Description of the network, with batch norm folded."""
        return deployed(NETWORKS[self.network] if self.network in NETWORKS else network_from(self.network))

    @property
    @abstractmethod
    def forward(self) -> Mapping:
        """Network on the array."""

    @property
    @abstractmethod
    def labels(self) -> int:
        """Labels that a sample can have, see `nn.arithmetic.loss.labels_of`."""

    @property
    @abstractmethod
    def largest_batch(self) -> int:
        """Most samples of a batch."""

    @cached_property
    def signature(self) -> int:
        """Value of the register of this name: a digest of parameters, network, registers and layout version."""
        return self.signed(network=text_of(self.described))

    def values_of(self, inputs: NDArray[np.integer]) -> Integers:
        """Convert samples as the core reads them to Q8.16."""
        return q8_16_of_bytes(inputs) if self.byte_inputs else inputs.astype(np.int64)

    def smaller_arrays(self) -> dict[str, list[dict[str, Any]]]:
        """Smaller arrays, see `smaller`."""
        return {
            "columns": [{"columns": columns} for columns in (4, 2) if columns < self.columns],
            "lanes": [{"lanes": 16}] if self.lanes > 16 else [],
        }

    @classmethod
    def fits(cls, network: Network, byte_inputs: bool) -> list[CoreFit]:
        """Put a network on each preset of the core; what a preset says of a network is left out.

        One with as many outputs as inputs is taken for an autoencoder, whose core has the loss ``mse`` and is not cut.
        """
        found: list[CoreFit] = []
        for preset, given in cls.presets.items():
            try:
                spec = cls.of(network, byte_inputs=byte_inputs, **cls.for_network(given, network))
                found.append(CoreFit(cls.name, preset, "", spec, spec.forward))
            except UserError as refusal:
                # a core names a network by its text
                reason = str(refusal).replace(text_of(deployed(network)), network.name)
                found.append(CoreFit(cls.name, preset, reason))
        return found

    @classmethod
    def for_network(cls, preset: dict[str, object], network: Network) -> dict[str, Any]:
        """Settings of a preset for another network: without its own network, and with the loss of an autoencoder."""
        own = {"loss": "mse"} if network.repeats_inputs else {}
        return {name: value for name, value in preset.items() if name != "network"} | own
