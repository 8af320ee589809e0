"""Default settings of fine-tuning with adapters, by network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdapterDefaults:
    """Epochs and learning rate for batches of 20.

    Parameters
    ----------
    epochs : int
    rate : float
    """

    epochs: int
    rate: float


_DEFAULTS = {
    "lenet5-mnist": AdapterDefaults(10, 0.1),  # InstantFT, section 5.1
    "lenet5-svhn": AdapterDefaults(10, 0.025),
    "fan": AdapterDefaults(300, 0.003),  # epochs: Skip2-LoRA, section 5.2; the paper does not give rates
    "har": AdapterDefaults(600, 0.01),
    "digits": AdapterDefaults(20, 0.1),
}
_OTHER = AdapterDefaults(10, 0.05)


def adapter_defaults(network: str) -> AdapterDefaults:
    """Defaults of a preset network, or those for any other network."""
    return _DEFAULTS.get(network, _OTHER)
