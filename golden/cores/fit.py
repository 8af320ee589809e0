"""Remedies for a core that does not fit a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from ..errors import UserError
from .core import CoreSpec

MOST_REMEDIES = 3
"""Most remedies of an answer."""


def remedies(spec: CoreSpec, fits: Callable[[CoreSpec], bool]) -> list[dict[str, Any]]:
    """Mildest changes of settings with which a core fits, found by trial.

    Parameters
    ----------
    spec : CoreSpec
        A core that does not fit.
    fits : callable
        Whether a core fits.

    Returns
    -------
    list of dict of str to object
        Each dict is sufficient alone: it changes one setting if possible, otherwise several. Empty if no change of
        `CoreSpec.smaller` is enough.
    """
    choices = [changes for changes in spec.smaller().values() if changes]
    for together in range(1, len(choices) + 1):
        sufficient = []
        for chosen in combinations(choices, together):
            mildest = next((change for change in _ordered(chosen) if _fits(spec, change, fits)), None)
            sufficient.extend([mildest] if mildest else [])
        if sufficient:
            return sufficient[:MOST_REMEDIES]
    return []


def _ordered(chosen: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Changes of several settings at once, the mildest first."""
    steps = sorted(product(*(range(len(changes)) for changes in chosen)), key=lambda step: (sum(step), max(step)))
    for step in steps:
        merged: dict[str, Any] = {}
        for changes, index in zip(chosen, step, strict=True):
            merged |= changes[index]
        yield merged


def _fits(spec: CoreSpec, change: Mapping[str, Any], fits: Callable[[CoreSpec], bool]) -> bool:
    """Whether a core fits with a change; False for a refused change."""
    try:
        return fits(replace(spec, **change))
    except UserError:
        return False
