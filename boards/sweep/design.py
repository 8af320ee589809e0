"""One point of a sweep as a block to emit and a training to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from ...golden.block import Spec
from ...golden.cores.instantft.instantft import InstantftSpec
from ...golden.cores.zotrain.zotrain import ZotrainSpec
from ...golden.datasets.dataset import Task
from ...golden.errors import UserError
from ...golden.models.network import Network, deployed
from ...golden.models.presets import NETWORKS
from ...golden.models.text import text_of
from ...golden.registry import BLOCKS
from ...golden.rng.pezo import PezoSpec
from ...golden.settings import build
from ...golden.train.adapters.defaults import adapter_defaults
from ...golden.train.adapters.methods import Cache, method_of
from ...golden.train.adapters.tune import AdapterSettings
from ...golden.train.zo.defaults import CORE_EPS, zo_defaults
from ...golden.train.zo.finetune import ZoSettings
from ...golden.train.zo.integer_tuning import check_settings, core_settings
from ...golden.train.zo.schedule import Schedule
from .space import GENERATORS, MOST_CORNERS, Choices, Point, Space, Value, combinations

ADAPTER_METHODS = ("instantft", "skip2-lora")
"""Methods of `instantft`: outputs cached in NF4 or in Q8.16."""
ZEROTH_METHODS = {"pezo-otf": "on-the-fly", "pezo-pool": "pool"}
"""Strategy of the generator in `zotrain` by method."""
BATCH = 20
_PREFIX = {"pezo": "", "scale": "scale.", "urng": "scale.urng."}
"""Prefix of a generator's settings in a `PezoSpec`."""


@dataclass(frozen=True)
class Start:
    """Start of a training: samples, network and, where it is trained, its pre-trained module.

    Parameters
    ----------
    task : Task
    network : Network
    module : torch.nn.Module
    """

    task: Task
    network: Network
    module: nn.Module

    @property
    def byte_inputs(self) -> bool:
        """Whether samples are bytes."""
        return bool(self.task.tune.inputs.dtype == np.uint8)


@dataclass(frozen=True)
class Design:
    """A point that can be built and trained.

    Parameters
    ----------
    spec : Spec
        The block.
    texts : tuple of str
        Settings from which, after the preset, `build` makes the block: ``--set`` of `fabtune emit`.
    training : AdapterSettings or ZoSettings or None
        What is trained; None for a generator that is only estimated.
    lanes, columns : int
        Array on which zeroth order is trained.
    """

    spec: Spec
    texts: tuple[str, ...]
    training: AdapterSettings | ZoSettings | None
    lanes: int = 0
    columns: int = 0

    def with_seed(self, seed: int) -> AdapterSettings | ZoSettings | None:
        """Make the training of a seed."""
        if isinstance(self.training, ZoSettings):
            return replace(self.training, schedule=replace(self.training.schedule, seed=seed))
        return self.training and replace(self.training, seed=seed)


def design_of(space: Space, point: Point, start: Start | None) -> Design:
    """Build a point's block and its training settings.

    Parameters
    ----------
    space : Space
    point : Point
    start : Start, optional
        None for a generator that is only estimated.

    Raises
    ------
    UserError
        If the block or the training refuses a value, or one does not go with the other.
    """
    if space.block in GENERATORS:
        return _generator(space, point, start)
    assert start is not None, "a core has a network"
    return _instantft(space, point, start) if space.block == "instantft" else _zotrain(space, point, start)


def _instantft(space: Space, point: Point, start: Start) -> Design:
    given, defaults, samples = point.training, adapter_defaults(start.network.name), len(start.task.tune)
    method = str(given.get("method", "instantft"))
    if method not in ADAPTER_METHODS:
        raise UserError(f"training.method = {method!r} is not one of {', '.join(ADAPTER_METHODS)}")
    batch = int(given.get("batch", BATCH))
    own = {"cache_entries": max(32, 1 << (samples - 1).bit_length())} | point.settings
    spec, texts = _core(space, own | {"batch": max(batch, 2)}, start)
    assert isinstance(spec, InstantftSpec)
    if samples > spec.cache_entries:
        raise UserError(f"cache_entries = {spec.cache_entries}: the data have {samples} samples to tune on")
    if spec.cache == "none":
        raise UserError(f"cache = none: {method} has a cache")
    if method_of(method).cache is Cache.FULL and spec.cache == "chip":
        raise UserError(f"cache = chip keeps records in NF4, and {method} caches Q8.16")
    epochs, rate = int(given.get("epochs", defaults.epochs)), float(given.get("rate", defaults.rate))
    return Design(spec, texts, AdapterSettings(method, "golden", epochs, batch, rate, spec.rank))


def _zotrain(space: Space, point: Point, start: Start) -> Design:
    method = str(point.training.get("method", "pezo-otf"))
    if method not in ZEROTH_METHODS:
        raise UserError(f"training.method = {method!r} is not one of {', '.join(ZEROTH_METHODS)}")
    prefix = "generator."
    own = {name.removeprefix(prefix): one for name, one in point.settings.items() if name.startswith(prefix)}
    training = core_settings(_zeroth(point, start, method, None, _texts(own)))
    check_settings(training, len(start.task.tune))
    generator = dict(one.split("=", 1) for one in (f"strategy={ZEROTH_METHODS[method]}", *training.parameters))
    others: dict[str, Value] = {name: one for name, one in point.settings.items() if not name.startswith(prefix)}
    whole = {"cut_rows": 0} | others | {prefix + name: one for name, one in generator.items()}
    spec, texts = _core(space, whole, start)
    assert isinstance(spec, ZotrainSpec)
    return Design(spec, texts, training, spec.lanes, spec.columns)


def _generator(space: Space, point: Point, start: Start | None) -> Design:
    texts = _texts(point.settings)
    spec = build(BLOCKS[space.block], texts, space.preset)
    if start is None:
        return Design(spec, texts, None)
    method = str(point.training.get("method", "pezo-otf"))
    parameters = tuple(_PREFIX[space.block] + one for one in texts)
    training = _zeroth(point, start, method, space.preset or "otf8", parameters)
    check_settings(training, len(start.task.tune))
    core = str(point.training["core"])
    if core not in ZotrainSpec.presets:
        raise UserError(f"training.core = {core!r} is not one of {', '.join(ZotrainSpec.presets)}")
    array: dict[str, Any] = {key: one for key, one in ZotrainSpec.presets[core].items() if key in ("lanes", "columns")}
    generator = build(PezoSpec, parameters, space.preset or "otf8")
    # refuses a generator that no core can train with
    whole = ZotrainSpec.of(start.network, byte_inputs=start.byte_inputs, generator=generator, **array)
    return Design(spec, texts, training, whole.lanes, whole.columns)


def _core(space: Space, settings: dict[str, Value], start: Start) -> tuple[Spec, tuple[str, ...]]:
    own = deployed(start.network)
    known = NETWORKS.get(start.network.name)
    network = start.network.name if known and deployed(known) == own else text_of(own)
    given: dict[str, Value] = {"network": network, "byte_inputs": start.byte_inputs}
    texts = _texts(given | settings)
    return build(BLOCKS[space.block], texts, space.preset), texts


def _zeroth(point: Point, start: Start, method: str, generator: str | None, parameters: tuple[str, ...]) -> ZoSettings:
    given, defaults = point.training, zo_defaults(start.network.name)
    return ZoSettings(
        method,
        float(given.get("rate", defaults.core_rate or defaults.rate)),
        float(given.get("eps", CORE_EPS)),
        Schedule(int(given.get("steps", defaults.steps)), int(given.get("batch", defaults.batch))),
        generator=generator,
        parameters=parameters,
        engine="golden",
    )


def _texts(settings: dict[str, Value]) -> tuple[str, ...]:
    """Settings as ``--set`` takes them."""
    return tuple(f"{name}={str(one).lower() if isinstance(one, bool) else one}" for name, one in settings.items())


def check(space: Space, start: Start | None) -> int:
    """Refuse a value that no combination of the others makes possible; return the number of points that were built.

    It is each value of a list, and both ends of a range. All combinations are tried, or of a large space the ends of
    all other parameters.

    Raises
    ------
    UserError
        Naming the parameter, the value and the reason of the last refusal.
    """
    built = dict[tuple[Value, ...], str]()

    def refusal(values: dict[str, Value]) -> str:
        key = tuple(values.values())
        if key not in built:
            try:
                design_of(space, space.point(values), start)
                built[key] = ""
            except UserError as error:
                built[key] = str(error)
        return built[key]

    ends = {name: one.values or one.corners for name, one in space.parameters.items()}
    if space.total > MOST_CORNERS or any(not one.values for one in space.parameters.values()):
        ends = {name: one.corners for name, one in space.parameters.items()}
    for name, one in space.parameters.items():
        for value in one.values if isinstance(one, Choices) else one.corners:
            refusals = [refusal(others) for others in _others(ends, name, value)]
            if all(refusals):
                where = f"{space.name}: sweep.{name} = {value!r}"
                raise UserError(f"{where} is possible with none of the others' values: {refusals[-1]}")
    return len(built)


def _others(ends: dict[str, tuple[Value, ...]], name: str, value: Value) -> Iterator[dict[str, Value]]:
    """Combinations with one value of a parameter and any of the others', at most `MOST_CORNERS`."""
    found = combinations(ends | {name: (value,)})
    for _, one in zip(range(MOST_CORNERS), found, strict=False):
        yield one
