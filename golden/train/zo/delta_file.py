"""Delta files: a fine-tuned model as a short sum of steps and the digest of its base model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...cache import digest_of
from ...errors import UserError
from ...files import parse_json
from ...fixed import Format
from ...importers.layers.own_tensors import StageTensors, State, returned
from ...models.batch_norm import StageParameters
from ...models.checkpoint import load_saved, save_state
from ...rng.pezo import PezoSpec
from ...settings import build, settings_of
from ...zo.deltas import DELTA, PerturbationTable
from .parameter_order import ArrayOrder, TileOrder
from .periodic import Periodic
from .weights import IntegerWeights

LAYOUT = "fabtune-delta-1"
"""Layout name and version of a file with parameters perturbed one after the other."""
ARRAY_LAYOUT = "fabtune-delta-array-1"
"""Layout of a file with an `ArrayOrder`."""
TILE_LAYOUT = "fabtune-delta-tiles-1"
"""Layout of a transformer's file, with a `TileOrder`."""
_TENSOR, _SENSITIVE = "deltas", "sensitive/"


@dataclass(frozen=True, eq=False)
class Delta:
    """Sum of the updates of zeroth-order runs, added to the parameters from which the runs started.

    The sum has the size of the generator's base, whatever the size of the model: 31.6 kB for `otf8`.

    Parameters
    ----------
    source : Periodic
        Generator, lanes and fraction bits; the generator is a `PezoSpec`.
    format : Format
        Format of the integer parameters, see `IntegerWeights`.
    parameters : tuple of (str, tuple of int)
        Name and shape of each tuned tensor, in the order of perturbation.
    base : str
        Digest of the parameters before the runs, from `base_digest`.
    total : array (times, n) of int32
        Sum of the updates, modulo 2**32. A core's order with a cut has a sum for each part, (2, times, n).
    order : ArrayOrder or TileOrder, optional
        A core's order of perturbation. With an `ArrayOrder` the parameters are weight and bias of each stage in Q4.12;
        a `TileOrder` belongs to a transformer. By default parameters are perturbed in their own order and keep their
        format.
    run : dict of str to str
        Start of the run, see `tuned.run_file.run_metadata`. ``stages`` names the base's tensors from which the
        parameters are folded; without ``stages`` these tensors are the parameters.

    Raises
    ------
    UserError
        If the generator is not a `PezoSpec`, the sum's shape is not its base's, or the order is that of other
        parameters.
    """

    source: Periodic
    format: Format
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    base: str
    total: NDArray[np.int32]
    order: ArrayOrder | TileOrder | None = None
    run: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.source.spec, PezoSpec):
            raise UserError(
                f"a delta's generator is a PezoSpec, which a file can name, not {type(self.source.spec).__name__}"
            )
        parts = 2 if self.order is not None and self.order.cut else 1
        if len(self.total) != parts and parts > 1:
            raise UserError(f"a delta of two parts has two sums, not {self.total.shape}")
        for part in self.total if parts > 1 else [self.total]:
            self.source.table_of(torch.from_numpy(part))
        if self.order is not None:
            self._check_order(self.order)

    def _check_order(self, order: ArrayOrder | TileOrder) -> None:
        if isinstance(order, ArrayOrder):
            width, shapes = order.mapping.width, [shape for _, shape in self.parameters]
            if shapes != order.shapes:
                raise UserError(f"a delta of {order.network!r} has parameters of {order.shapes}, not {shapes}")
        else:
            width, shape_of = order.width, dict(self.parameters)
            for name, places in order.sensitive:
                if name not in shape_of or places[-1] >= prod(shape_of[name]):
                    raise UserError(f"a delta has sensitive values of {name}, which are none of its parameters")
            if order.sensitive and (lanes := self.source.lanes) != width:
                raise UserError(
                    f"a delta of sensitive weights has words of {width} values, not of {lanes}, as first versions "
                    "wrote: tune again"
                )
        actual = self.source.lanes, self.source.fraction_bits, self.format
        expected = width, PerturbationTable(self.source.spec).fraction, DELTA
        if actual != expected:
            raise UserError(f"a delta of an array of {order} has lanes, fraction and format {expected}, not {actual}")

    @property
    def _generator(self) -> PezoSpec:
        assert isinstance(self.source.spec, PezoSpec)
        return self.source.spec

    @classmethod
    def of(
        cls,
        tensors: Mapping[str, Tensor],
        base: str,
        source: Periodic,
        format: Format,
        moves: Iterable[tuple[int, int]],
    ) -> Delta:
        """Sum of the moves of a run: position and coefficient of each update, `ZerothOrder.moves` of all steps.

        Only names and shapes of `tensors` are used; for `base`, `source` and `format` see the class.
        """
        shapes = tuple((name, tuple(tensor.shape)) for name, tensor in tensors.items())
        return cls(source, format, shapes, base, source.accumulate(moves).numpy())

    def applied(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """New tensors of a state with the updates added, bit for bit as after the run.

        The state has at least the tuned tensors of the base; other tensors are passed on.

        Raises
        ------
        UserError
            If a tensor is missing, has another shape or another digest than the base's, or the delta is a
            transformer's, see `text.tuned_folder`.
        """
        if isinstance(self.order, TileOrder):
            raise UserError("this is the delta of a transformer, which is added to the model's folder: give --model")
        names = (
            [name for stage in self.stages for name in stage.names]
            if self.order
            else [name for name, _ in self.parameters]
        )
        for name in names:
            if name not in state:
                raise UserError(f"the base lacks {name}, which the delta changes")
        for name, shape in self.parameters:
            if name in state and tuple(state[name].shape) != shape:
                raise UserError(f"{name} of the base is {tuple(state[name].shape)}, the delta's is {shape}")
        tuned = {name: state[name].detach().clone().contiguous() for name in names}
        if (digest := base_digest(tuned)) != self.base:
            raise UserError(f"this is another base: its parameters have the digest {digest}, the delta's {self.base}")
        if self.order is not None:
            return {**state, **self._in_order(self.order, state)}
        weights = IntegerWeights(list(tuned.values()), self.source, self.format)
        weights.apply(self.source.table_of(torch.from_numpy(self.total)))
        return {**state, **tuned}

    @property
    def stages(self) -> tuple[StageTensors, ...]:
        """Tensors of the base from which the parameters of an `ArrayOrder` are folded."""
        if "stages" in self.run:
            return stages_of(self.run)
        pairs = zip(self.parameters[::2], self.parameters[1::2], strict=True)
        return tuple(
            StageTensors(weight.removesuffix(".weight"), weight, bias, {}, 0.0, shape[0])
            for (weight, _), (bias, shape) in pairs
        )

    def _in_order(self, order: ArrayOrder, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of a state that change with an array's updates."""
        folded = [stage.folded(state) for stage in self.stages]
        tensors = [torch.from_numpy(values) for stage in folded for values in (stage.weight, stage.bias)]
        tuned = [tensor.numpy() for tensor in order.tuned(tensors, self.source.spec, self.total.astype(np.int64))]
        values = [StageParameters(*pair) for pair in zip(tuned[::2], tuned[1::2], strict=True)]
        changed = returned(self.stages, values, state)
        return {
            name: torch.from_numpy(tensor).to(state[name].dtype if name in state else torch.float32)
            for name, tensor in changed.items()
        }

    def plus(self, other: Delta, sign: int = 1) -> Delta:
        """Sum with, or difference to, another run from the same base.

        Raises
        ------
        UserError
            If base, generator, format, parameters or order differ.
        """
        for what in ("base", "source", "format", "parameters", "order"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                raise UserError(f"deltas of different {what}: {mine} and {theirs}")
        total = self.total.astype(np.int64) + sign * other.total
        return replace(self, total=total.astype(np.int32))

    def described(self) -> dict[str, object]:
        """Readable summary: base, sizes, generator, formats, order, largest change."""
        order, sizes = "one after the other", {name: prod(shape) for name, shape in self.parameters}
        if isinstance(self.order, ArrayOrder):
            order = f"array of {self.order}, {self.order.network}"
        elif self.order:
            order = f"tiles of {self.order.lanes} x {self.order.columns}, base {self.order.base}"
            order += f", cut before operation {self.order.cut}" if self.order.cut else ""
            sizes |= {name: len(places) for name, places in self.order.sensitive}
        return {
            "base": self.base,
            "tensors": len(self.parameters),
            "parameters": sum(sizes.values()),
            "deltas": self.total.size,
            "largest": float(np.abs(self.total.astype(np.int64)).max()) * 2.0**-self.format.fraction,
            "format": str(self.format),
            "lanes": self.source.lanes,
            "fraction": self.source.fraction_bits,
            "order": order,
            "generator": " ".join(settings_of(self._generator)),
        }

    # -- files -----------------------------------------------------------------------------------------------------

    def save(self, path: Path, force: bool = False) -> None:
        """Write a safetensors file; equal deltas give equal bytes.

        Raises
        ------
        UserError
            If the file exists and `force` is not set.
        """
        metadata = {
            "layout": LAYOUT,
            "base": self.base,
            "format": str(self.format),
            "generator": json.dumps(settings_of(self._generator)),
            "lanes": str(self.source.lanes),
            "fraction": str(self.source.fraction_bits),
            "parameters": json.dumps(self.parameters),
        }
        tensors: dict[str, NDArray[np.generic]] = {_TENSOR: self.total}
        if isinstance(self.order, ArrayOrder):
            metadata |= {"layout": ARRAY_LAYOUT, "network": self.order.network, "array": str(self.order)}
        elif self.order:
            metadata |= {"layout": TILE_LAYOUT, "tiles": str(self.order)}
            tensors |= {_SENSITIVE + name: indices.astype(np.int32) for name, indices in self.order.places.items()}
        if self.run:
            metadata["run"] = json.dumps(self.run)
        save_state(path, tensors, metadata, force)

    @classmethod
    def load(cls, path: Path) -> Delta:
        """Read a file of `save`.

        Raises
        ------
        UserError
            If the file is not a delta file, or is damaged.
        """
        tensors, metadata = load_saved(path)
        layouts = LAYOUT, ARRAY_LAYOUT, TILE_LAYOUT
        if metadata.get("layout") not in layouts:
            raise UserError(f"{path} is not a delta file ({', '.join(layouts)})")
        try:
            spec = build(PezoSpec, parse_json(metadata["generator"]))
            assert isinstance(spec, PezoSpec)
            fraction = int(metadata["fraction"])
            source = Periodic(spec, int(metadata["lanes"]), None if fraction == spec.fraction_bits else fraction)
            parameters = tuple(
                (str(name), tuple(map(int, shape))) for name, shape in parse_json(metadata["parameters"])
            )
            order: ArrayOrder | TileOrder | None = None
            if metadata["layout"] == ARRAY_LAYOUT:
                order = ArrayOrder.parse(metadata["network"], metadata["array"])
            elif metadata["layout"] == TILE_LAYOUT:
                indices = {
                    name[len(_SENSITIVE) :]: tensor for name, tensor in tensors.items() if name.startswith(_SENSITIVE)
                }
                order = TileOrder.parse(metadata["tiles"], indices)
            total: Any = tensors[_TENSOR]  # its shape and type are checked with the source
            run = parse_json(metadata.get("run", "{}"))
            if not all(isinstance(value, str) for value in run.values()):
                raise TypeError("its run has other values than texts")
            return cls(source, Format.parse(metadata["format"]), parameters, metadata["base"], total, order, run)
        except (KeyError, ValueError, TypeError, AttributeError, MemoryError) as error:
            raise UserError(f"{path} is a damaged delta file: {error!r}") from error


def base_digest(tensors: Mapping[str, Tensor]) -> str:
    """Digest of tensors: names, types, shapes and bytes, in order."""
    parts: list[object] = []
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        parts += [name, tensor.dtype, tuple(tensor.shape), data]
    return digest_of(*parts)


def stages_digest(stages: Iterable[StageTensors], state: State) -> str:
    """Digest of all tensors from which a network's stages are folded."""
    return base_digest({name: state[name] for stage in stages for name in stage.names})


def stages_of(run: Mapping[str, str]) -> tuple[StageTensors, ...]:
    """Tensors of all stages, parsed from a run's metadata.

    Raises
    ------
    UserError
        If the metadata are damaged.
    """
    try:
        return tuple(StageTensors.parse(text) for text in parse_json(run["stages"]))
    except (ValueError, TypeError) as error:
        raise UserError(f"the run's file has damaged stages: {error!r}") from error
