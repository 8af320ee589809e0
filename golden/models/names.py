"""Names of layers and tensors that a user's model does not have."""

from __future__ import annotations

from collections.abc import Container
from itertools import count

TUNED_KINDS = (
    *("weight", "bias", "running_mean", "running_var"),
    *("lora_a", "lora_b", "folded_weight", "folded_bias"),
)
"""Suffixes of tensors in a run file: ``TITLE.weight``."""
RESERVED = "__metadata__"
"""Key of the metadata in a safetensors file."""


def unused(name: str, taken: Container[str]) -> str:
    """The name, or ``NAME_2``, ``NAME_3``, ... if it is taken."""
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := f"{name}_{number}") not in taken)
