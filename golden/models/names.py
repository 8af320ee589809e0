"""Names that are given to layers and tensors beside those that a user's model has."""

from __future__ import annotations

from collections.abc import Container
from itertools import count

TUNED_KINDS = (
    *("weight", "bias", "running_mean", "running_var"),
    *("lora_a", "lora_b", "folded_weight", "folded_bias"),
)
"""Tensors that a run names behind a layer: ``TITLE.weight``."""
RESERVED = "__metadata__"
"""Key of a safetensors file that is no tensor."""


def unused(name: str, taken: Container[str]) -> str:
    """Name that is not taken: this one, or with the first number behind it that makes it one."""
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := f"{name}_{number}") not in taken)
