"""Run file: what a fine-tuning leaves, under the names of the user's own tensors, with all that is needed to return."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .... import __version__
from ...cache import package_version
from ...errors import UserError
from ...fixed import Q4_12
from ...importers.layers.own_tensors import StageTensors, State
from ...models.checkpoint import load_saved
from ...models.layers import Shape, Weighted
from ...models.network import Network
from ..zo.delta_file import ARRAY_LAYOUT, Delta, stages_digest

LAYOUT = "fabtune-run-1"
"""Name and version of the layout of a run file."""
_INTEGERS = ("golden", "rtl")


@dataclass(frozen=True, eq=False)
class Run:
    """A fine-tuning, as its file has it.

    Parameters
    ----------
    path : Path
    tensors : dict of str to array
        What was tuned, by the user's names: values of Q4.12 or of float32; adapters are ``TITLE.lora_a`` (rank, inputs)
        and ``TITLE.lora_b`` (outputs, rank) of the layer whose input they read.
    metadata : dict of str to str
        ``model``, ``weights``, ``input``, ``scale``, ``base`` (digest of the tensors before), ``method``, ``engine``,
        ``rank``, ``seed``, versions and more.
    delta : Delta, optional
        The sum of updates that gives the tensors, where the file is a delta.
    """

    path: Path
    tensors: dict[str, NDArray[np.generic]]
    metadata: dict[str, str]
    delta: Delta | None = None

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read a run file, the one of a run's folder, or a delta file of a network of layers.

        Raises
        ------
        UserError
            If it is none of them.
        """
        if path.is_dir():
            found = sorted(path.glob("*.safetensors"))
            if len(found) != 1:
                raise UserError(f"{path} has {len(found)} files .safetensors, not that of one run: name the file")
            path = found[0]
        tensors, metadata = load_saved(path)
        if metadata.get("layout") == ARRAY_LAYOUT:
            delta = Delta.load(path)
            return cls(path, {}, {"engine": "golden", **delta.run}, delta)._checked()
        if metadata.get("layout") != LAYOUT:
            raise UserError(
                f"{path} is no run of a network of layers, nor a delta of one: weights alone are given with --weights"
            )
        return cls(path, tensors, metadata)._checked()

    def _checked(self) -> Run:
        """Refuse metadata that cannot be read, and return self."""
        try:
            if "input" in self.metadata:
                _ = self.shape
            if not isfinite(self.scale) or not 0 <= int(self.metadata.get("seed", "0")) < 2**64:
                raise ValueError("scale or seed")
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{self.path} is a damaged run file: {error!r}") from error
        return self

    @property
    def integers(self) -> bool:
        """Whether the values are the hardware's integers."""
        return self.metadata.get("engine") in _INTEGERS

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.metadata.get("method", "")

    @property
    def shape(self) -> Shape:
        """Shape of a sample; `UserError` where the file does not say it."""
        if "input" not in self.metadata:
            raise UserError(f"{self.path} does not say the shape of a sample: give it with --input")
        return tuple(map(int, self.metadata["input"].split("x")))

    @property
    def scale(self) -> float:
        """Factor by which the samples were multiplied."""
        return float(self.metadata.get("scale", "1"))

    def applied(self, state: State) -> dict[str, NDArray[np.generic]]:
        """Return what was tuned, given the tensors before.

        Raises
        ------
        UserError
            If they are not those from which the run started.
        """
        if self.delta is None:
            return self.tensors
        return {name: one.numpy() for name, one in self.delta.applied(state).items()}

    def check_base(self, stages: Sequence[StageTensors], state: State) -> None:
        """Refuse weights that are not those from which the run started.

        Raises
        ------
        UserError
            Naming both digests.
        """
        found = stages_digest(stages, state)
        if found != self.metadata.get("base", found):
            raise UserError(
                f"{self.path} started from other weights: theirs have the digest {self.metadata['base']}, these"
                f" {found}: give the ones before tuning with --weights, or --model"
            )


def run_metadata(
    model: str,
    weights: str,
    shape: Shape,
    scale: float,
    stages: Sequence[StageTensors],
    state: Mapping[str, Tensor],
) -> dict[str, str]:
    """Describe a run's start: network, weights, samples and versions, by the keys of `Run.metadata`.

    Parameters
    ----------
    model, weights : str
        Reference of the network; file of its weights, empty where the model has them.
    shape, scale
        Of a sample.
    stages, state
        Tensors before tuning, by the user's names.
    """
    return {
        "layout": LAYOUT,
        "model": model,
        "weights": weights,
        "input": "x".join(map(str, shape)),
        "scale": repr(scale),
        "base": stages_digest(stages, state),
        "stages": json.dumps([one.described for one in stages]),
        "fabtune": __version__,
        "torch": package_version("torch"),
    }


def tensors_of(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, Tensor]:
    """Arrays as tensors."""
    return {name: torch.from_numpy(np.array(one)) for name, one in arrays.items()}


def by_title(
    network: Network, stages: Sequence[StageTensors], state: State, tensors: Mapping[str, NDArray[np.generic]]
) -> dict[str, NDArray[np.generic]]:
    """Name what an engine of adapters has trained as the user does; integers become their values in float32.

    Parameters
    ----------
    network : Network
    stages : sequence of StageTensors
    state : mapping of str to Tensor
        The user's, before.
    tensors : mapping of str to array
        From `Engine.tensors`: ``adapter.STAGE.a``, ``layer.STAGE.weight``, or by the number of a layer.
    """
    weighted = [at for at, layer in enumerate(network.layers) if isinstance(layer, Weighted)]
    found: dict[str, NDArray[np.generic]] = {}
    alone: dict[int, dict[str, Any]] = {}
    for name, one in tensors.items():
        first, *rest = name.split(".")
        stage = int(rest[0]) if first in ("adapter", "layer") else weighted.index(int(first))
        own = stages[stage]
        names = {"weight": own.weight_name, "bias": own.bias_name}
        values = Q4_12.to_float(one).astype(np.float32) if one.dtype.kind == "i" else one
        if rest[-1] in names and own.weight is None:
            alone.setdefault(stage, {})[rest[-1]] = np.asarray(values, np.float64)
        else:
            found[names.get(rest[-1], f"{own.title}.lora_{rest[-1]}")] = (
                own.given(values) if rest[-1] == "weight" else values
            )
    for stage, trained in alone.items():  # a batch norm that is a stage of its own
        own = stages[stage]
        found |= own.returned(replace(own.folded(state), **trained), state)
    return found
