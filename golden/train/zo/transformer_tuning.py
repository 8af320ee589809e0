"""Zeroth-order fine-tuning of a transformer in the hardware's integers, forward pass included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...cache import digest_of
from ...errors import UserError
from ...fixed import Q8_16, Integers, Narrower
from ...stream.forward_cache import CachedModel, CacheKind
from ...stream.frozen_base import BaseKind, FrozenBase
from ...stream.machine.core_size import CoreSize
from ...stream.machine.images import StreamImages
from ...stream.transformer_model import TransformerModel
from ...stream.words import TensorName
from ...transformer.blocks import Normalisation, Transformer
from ...transformer.layers import layer_starts, products
from ...zo.deltas import DELTA
from ...zo.job import ZerothOrderJob
from ...zo.split import Split
from ..metrics import accuracy, cross_entropy
from ..sparse.masks import Mask
from .delta_file import Delta
from .finetune import ZoSettings
from .integer import IntegerRun, ZerothOrderProgress, check_steps, source_of, step_orders, step_settings, take_steps
from .methods import start_of
from .parameter_order import TileOrder

TunedKind = Literal["all", "norms"]
TUNED: tuple[TunedKind, ...] = get_args(TunedKind)
LARGEST_EPS = 2.0**-8
"""Largest eps for an almost linear loss: the projected gradient is 88 % off at 2**-6, and 7 % at 2**-8."""
COMPARED = 48
"""Samples on which a frozen base is compared with the floats."""
_AT_ONCE = 32
"""Samples in one forward pass."""


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """Inputs of a transformer, see `TransformerModel.forward`, with their labels."""

    inputs: Integers
    labels: Integers


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Choice of a transformer's tuned tensors, and of the form of its frozen base.

    Parameters
    ----------
    base : "nf4" or "18-bit"
    tuned : "all" or "norms"
        All tensors, or only norms and biases.
    from_layer : int, optional
        First tuned layer, counted from 0. Everything before is frozen, and its outputs are cached. By default
        everything is tuned, the operations before layer 0 included.
    cache : "exact" or "nf4"

    Raises
    ------
    UserError
        If `tuned` is unknown.
    """

    base: BaseKind = "nf4"
    tuned: TunedKind = "all"
    from_layer: int | None = None
    cache: CacheKind = "exact"

    def __post_init__(self) -> None:
        if self.tuned not in TUNED:
            raise UserError(f"--tune {self.tuned} is not one of {', '.join(TUNED)}")

    def start(self, network: Transformer) -> int:
        """Index of the first tuned operation.

        Raises
        ------
        UserError
            If the network does not have the layer.
        """
        if self.from_layer is None:
            return 0
        starts = layer_starts(network)
        if not 0 <= self.from_layer < len(starts):
            raise UserError(f"--from-layer {self.from_layer}: {network.name} has the layers 0 to {len(starts) - 1}")
        return starts[self.from_layer]

    def tunes(self, network: Transformer, sensitive: Collection[TensorName]) -> Callable[[TensorName], bool]:
        """Predicate of tuned tensors; with sensitive weights, of the tensors that hold them."""
        start = self.start(network)

        def tuned(name: TensorName) -> bool:
            if sensitive:
                return name in sensitive
            norm = isinstance(network.operations[name[0]], Normalisation)
            return name[0] >= start and (self.tuned == "all" or norm or name[1] == "bias")

        return tuned

    def cached(self, model: TransformerModel) -> CachedModel | None:
        """The model with a forward cache; None if nothing before the tuned operations is frozen."""
        start = self.start(model.transformer.network)
        return CachedModel(model, start, self.cache) if start else None


class TransformerTuning(IntegerRun):
    """Fine-tuning run of a transformer; used like `FineTuning`.

    Parameters
    ----------
    model : TransformerModel
        Frozen parameters, and the choice of tuned tensors.
    names : mapping of (int, str) to str
        Name of each tensor, for files.
    cached : CachedModel, optional
        The same model with a forward cache, for the steps.
    base : str
        Kind of the frozen matrices, for files.

    Attributes
    ----------
    frozen : FrozenBase
        Integers of all tensors, with their errors.
    orders : list of StepOrder
        Samples, labels and rate of each step.

    Raises
    ------
    UserError
        If model, samples and settings do not fit together.
    """

    frozen: FrozenBase

    def __init__(
        self,
        model: TransformerModel,
        tune: LabelledInputs,
        test: LabelledInputs,
        settings: ZoSettings,
        names: Mapping[TensorName, str],
        cached: CachedModel | None = None,
        base: str = "nf4",
    ) -> None:
        check_transformer_settings(settings, len(tune.labels))
        self.model, self.tune, self.test, self.settings = model, tune, test, settings
        self.names, self.cached, self.base = names, cached, base
        # a second, exact cache for tests: the logits are the same as without a cache
        self._tested = CachedModel(cached.model, cached.start) if cached else model
        self.source = source_of(settings, self.order.width)
        steps = step_settings(settings)
        self.orders, steps = step_orders(tune.labels, settings.schedule, settings.rate, steps, self.source.spec)
        self._job = ZerothOrderJob(
            cached or model, self.source.spec, steps, start_of(self.source, settings.schedule.seed)
        )

    @property
    def job(self) -> ZerothOrderJob:
        return self._job

    @property
    def order(self) -> TileOrder:
        sensitive = sorted(
            (self.names[name], tuple(map(int, indices))) for name, indices in self.model.sensitive.items()
        )
        cut = self.settings.split.cut
        return TileOrder(self.model.lanes, self.model.columns, self.base, tuple(sensitive), cut)

    @property
    def trained_parameters(self) -> int:
        """Number of perturbed values."""
        return sum(int(np.prod(shape)) for shape in self.model.order.shapes.values())

    @property
    def saturations(self) -> int:
        """Values clipped so far in the steps."""
        return self._job.saturations

    @property
    def forward_work(self) -> float:
        """Matrix products of a step from the second epoch on, as a fraction of those of all operations."""
        network = self.model.transformer.network
        lengths = self.model.lengths(self.tune.inputs)
        counts = products(network, lengths)
        return sum(counts[self.cached.start if self.cached else 0 :]) / sum(counts)

    def base_facts(self, comparison: Mapping[str, float]) -> dict[str, Any]:
        """Errors of the base, forward work, cache in bytes and clipped values, by their keys in ``--json``.

        `comparison` is the base's `base_error`.
        """
        cache = {"cache": self.cached.kind, "cache_bytes": self.cached.size} if self.cached else {}
        clipped = {self.names[name]: count for name, count in self.frozen.clipped.items()}
        return {
            "base": self.base,
            **comparison,
            "errors": {self.names[name]: round(error, 6) for name, error in self.frozen.errors.items()},
            "forward_work": round(self.forward_work, 4),
            **cache,
            "saturated": clipped | self.job.saturated_places,
        }

    def take_steps(self, progress: ZerothOrderProgress) -> None:
        take_steps(self._job, self.tune.inputs, self.orders, progress)

    def logits(self, inputs: Integers) -> Integers:
        """Outputs of the tuned model, (samples, classes) in Q8.16."""
        parameters = self.parameters()
        groups = range(0, len(inputs), _AT_ONCE)
        return np.concatenate(
            [self._tested.run(inputs[start : start + _AT_ONCE], parameters, Narrower()) for start in groups]
        )

    def accuracy(self) -> float:
        return accuracy(self.logits(self.test.inputs).astype(np.float64), self.test.labels)

    def held_out_loss(self) -> float:
        return cross_entropy(Q8_16.to_float(self.logits(self.test.inputs)), self.test.labels)

    def images(self, size: CoreSize) -> StreamImages:
        """Images of the model for a core, see `StreamImages.of`; cut before the tuned operations or at the cut."""
        cut = self.cached.start if self.cached else self._job.settings.split.cut
        return StreamImages.of(self.model, self.frozen, size, cut)

    def parameters(self) -> Mapping[TensorName, Integers]:
        """Tuned parameters, in the format of the products."""
        return tuned_parameters(self.model, self._job)

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Tuned tensors by name, float32."""
        form, parameters = self.model.transformer.format_of, self.parameters()
        tuned = self.model.order.shapes
        return {self.names[name]: form(name).to_float(parameters[name]).astype(np.float32) for name in tuned}

    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        shapes = self.model.transformer.network.parameter_shapes
        parameters = tuple((self.names[name], shapes[name]) for name in self.model.order.shapes)
        total = self._job.total.astype(np.int32)
        digest = integers_digest(self.model, self.names)
        return Delta(self.source, DELTA, parameters, digest, total, self.order, dict(run))


def base_error(
    model: TransformerModel, inputs: Integers, labels: Integers, exact: NDArray[np.float64]
) -> dict[str, float]:
    """Loss of the base and of the floats, and the root mean square error of the base's logits; without deltas."""
    logits = Q8_16.to_float(model.run(inputs, model.frozen, Narrower()))
    return {
        "loss_float": round(cross_entropy(exact, labels), 6),
        "loss_base": round(cross_entropy(logits, labels), 6),
        "logits_error": round(float(np.sqrt(np.mean((logits - exact) ** 2))), 6),
    }


def with_delta(model: TransformerModel, delta: Delta, names: Mapping[TensorName, str]) -> dict[TensorName, Integers]:
    """Parameters of a transformer with the updates of a delta, in the format of the products; see `delta_job`."""
    return tuned_parameters(*delta_job(model, delta, names))


def delta_job(
    model: TransformerModel, delta: Delta, names: Mapping[TensorName, str]
) -> tuple[TransformerModel, ZerothOrderJob]:
    """Model and job of a delta's run, with the updates of the delta.

    `model` is the base; tuned tensors, tiles and the period of words are the delta's. `names` are the tensors' names.

    Raises
    ------
    UserError
        If the delta is of another base, or not in the `TileOrder` of the model.
    """
    order = delta.order
    if not isinstance(order, TileOrder):
        raise UserError("this delta is none of a transformer's tiles: give --weights, the tensors that it started from")
    if (digest := integers_digest(model, names)) != delta.base:
        raise UserError(
            f"this is another base: its integers ({order.base}) have the digest {digest}, the delta's {delta.base}"
        )
    numbers = {name: number for number, name in names.items()}
    tuned = {numbers[name] for name, _ in delta.parameters}
    tuned_model = replace(
        model,
        tuned=tuned.__contains__,
        sensitive={numbers[name]: places for name, places in order.places.items()},
        lanes=order.lanes,
        columns=order.columns,
        times=delta.total.shape[-2],
    )
    shapes = model.transformer.network.parameter_shapes
    if (expected := tuple((names[name], shapes[name]) for name in tuned_model.order.shapes)) != delta.parameters:
        raise UserError(f"the delta's tensors are in another order, or of other shapes, than {expected}")
    total = delta.total.astype(np.int64)
    settings = step_settings(ZoSettings(eps=LARGEST_EPS, split=Split(order.cut)))
    return tuned_model, ZerothOrderJob(tuned_model, delta.source.spec, settings, deltas=total)


def tuned_parameters(model: TransformerModel, job: ZerothOrderJob) -> dict[TensorName, Integers]:
    """Parameters of a whole model, in the format of the products, after a job has tuned it or its parts."""
    parameters = dict(model.frozen)
    for part, offsets in zip(model.parts(job.settings.split.cut), job.offsets(), strict=True):
        tensors = part.parameters(offsets)
        parameters |= {name: tensors[name] for name in part.order.places}
    return parameters


def integers_digest(model: TransformerModel, names: Mapping[TensorName, str]) -> str:
    """Digest of a transformer's frozen integers and their formats, by name, and of its embeddings."""
    parts: list[Any] = [] if model.embeddings is None else [model.embeddings.astype(np.int32).tobytes()]
    for name, values in model.frozen.items():
        form = model.transformer.format_of(name)
        parts += [names[name], str(form), values.shape, values.astype(np.int32).tobytes()]
    return digest_of(*parts)


def check_transformer_settings(settings: ZoSettings, samples: int) -> None:
    """Refuse settings that a transformer's integers cannot run.

    Raises
    ------
    UserError
        If eps is above `LARGEST_EPS`, or as `check_steps` says.
    """
    check_steps(settings, samples)
    if settings.eps > LARGEST_EPS:
        raise UserError(f"eps = {settings.eps:g}: a transformer's slope is true up to {LARGEST_EPS}: take 2**-10")


def places_of(mask: Mask, names: Mapping[TensorName, str]) -> dict[TensorName, Integers]:
    """Indices of a mask's weights, by tensor of the normal form.

    The mask names layers of a `TextClassifier`, where the user's model is ``encoder``. `names` are the tensors' names
    in the user's file, perhaps with a prefix.

    Raises
    ------
    UserError
        If the network does not have a layer of the mask.
    """
    places = {}
    for layer, chosen in mask.items():
        ending = f"{layer.removeprefix('encoder.')}.weight"
        matches = [name for name, file in names.items() if file == ending or file.endswith(f".{ending}")]
        if len(matches) != 1:
            raise UserError(f"the mask's layer {layer!r} is none of the network's")
        places[matches[0]] = chosen.cpu().numpy().astype(np.int64)
    return places
