"""Contract of the cores that are generated for one network."""

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
    """Name of a network in a spec: a preset's name, or its description with folded batch norm."""
    known = NETWORKS.get(network.name)
    return network.name if known and deployed(known) == deployed(network) else text_of(deployed(network))


class NetworkCoreSpec(CoreSpec):
    """Spec of a core that is generated for a network. The core's own class declares the fields, in its own order.

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
        """Spec for any network."""
        values: dict[str, Any] = {"network": named(network), **settings}
        return cls(**values)

    @cached_property
    def described(self) -> Network:
        """Network with folded batch norm."""
        return deployed(NETWORKS[self.network] if self.network in NETWORKS else network_from(self.network))

    @property
    @abstractmethod
    def forward(self) -> Mapping:
        """Network on the array."""

    @property
    @abstractmethod
    def labels(self) -> int:
        """Number of labels, see `nn.arithmetic.loss.labels_of`."""

    @property
    @abstractmethod
    def largest_batch(self) -> int:
        """Maximum number of samples in a batch."""

    @cached_property
    def signature(self) -> int:
        """Value of the register ``signature``: a digest of parameters, network, registers and layout version."""
        return self.signed(network=text_of(self.described))

    def values_of(self, inputs: NDArray[np.integer]) -> Integers:
        """Samples in Q8.16, from samples in the core's format."""
        return q8_16_of_bytes(inputs) if self.byte_inputs else inputs.astype(np.int64)

    def smaller_arrays(self) -> dict[str, list[dict[str, Any]]]:
        """Settings with a smaller array, for `smaller`."""
        return {
            "columns": [{"columns": columns} for columns in (4, 2) if columns < self.columns],
            "lanes": [{"lanes": 16}] if self.lanes > 16 else [],
        }

    @classmethod
    def fits(cls, network: Network, byte_inputs: bool) -> list[CoreFit]:
        """Fit of a network, in place of the preset's own, on each preset of the core; see `CoreSpec.fits`.

        A network with as many outputs as inputs counts as an autoencoder: its core has the loss ``mse`` and no cut.
        """
        results: list[CoreFit] = []
        for preset, preset_settings in cls.presets.items():
            try:
                spec = cls.of(network, byte_inputs=byte_inputs, **cls.for_network(preset_settings, network))
                results.append(CoreFit(cls.name, preset, "", spec, spec.forward))
            except UserError as refusal:
                # a core's message has the network's description
                reason = str(refusal).replace(text_of(deployed(network)), network.name)
                results.append(CoreFit(cls.name, preset, reason))
        return results

    @classmethod
    def for_network(cls, preset: dict[str, object], network: Network) -> dict[str, Any]:
        """Settings of a preset, changed to another network; the loss is ``mse`` for an autoencoder."""
        loss = {"loss": "mse"} if network.repeats_inputs else {}
        return {name: value for name, value in preset.items() if name != "network"} | loss
