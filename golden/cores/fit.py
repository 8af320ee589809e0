"""Fit of a core on a device: memories and DSPs by its spec, and the settings that make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from ..errors import UserError
from .core import CoreSpec

MOST_REMEDIES = 3
"""Most remedies that are looked for."""


def remedies(spec: CoreSpec, fits: Callable[[CoreSpec], bool]) -> list[dict[str, Any]]:
    """Find the mildest changes of settings with which a core fits: each is tried.

    Parameters
    ----------
    spec : CoreSpec
        A core that does not fit.
    fits : callable
        Whether a core does.

    Returns
    -------
    list of dict of str to object
        Changes, each of which is enough: of one setting, or, where none is, of two or more at once. Empty where none
        of the core's changes makes it fit.
    """
    choices = [changes for changes in spec.smaller().values() if changes]
    for together in range(1, len(choices) + 1):
        found = []
        for chosen in combinations(choices, together):
            mildest = next((one for one in _ordered(chosen) if _fits(spec, one, fits)), None)
            found.extend([mildest] if mildest else [])
        if found:
            return found[:MOST_REMEDIES]
    return []


def _ordered(chosen: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """List the changes of several settings at once, those first that change least."""
    steps = sorted(product(*(range(len(changes)) for changes in chosen)), key=lambda step: (sum(step), max(step)))
    for step in steps:
        merged: dict[str, Any] = {}
        for changes, at in zip(chosen, step, strict=True):
            merged |= changes[at]
        yield merged


def _fits(spec: CoreSpec, change: Mapping[str, Any], fits: Callable[[CoreSpec], bool]) -> bool:
    """Whether a core fits with a change; not where the change is refused."""
    try:
        return fits(replace(spec, **change))
    except UserError:
        return False
