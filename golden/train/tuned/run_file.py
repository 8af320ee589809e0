"""Run file: the result of a fine-tuning, by the names of the user's tensors, with the start of the run."""

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
from ...models.layers import Shape
from ...models.network import Network
from ..zo.delta_file import ARRAY_LAYOUT, Delta, stages_digest

LAYOUT = "fabtune-run-1"
"""Layout name and version of a run file."""
_INTEGERS = ("golden", "rtl", "golden-core")


@dataclass(frozen=True, eq=False)
class Run:
    """A fine-tuning, as read from its file.

    Parameters
    ----------
    tensors : dict of str to array
        Tuned tensors by the user's names, values of Q4.12 or float32. Adapters are ``TITLE.lora_a`` (rank, inputs) and
        ``TITLE.lora_b`` (outputs, rank), named by the layer whose input they read.
    metadata : dict of str to str
        ``model``, ``weights``, ``input``, ``scale``, ``base`` (digest of the tensors before), ``method``, ``engine``,
        ``rank``, ``seed``, versions and more.
    delta : Delta, optional
        Sum of updates from which the tensors follow, if the file is a delta.
    """

    path: Path
    tensors: dict[str, NDArray[np.generic]]
    metadata: dict[str, str]
    delta: Delta | None = None

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read a run file, the only run file of a folder, or a delta file of a network of layers.

        Raises
        ------
        UserError
            If the path is none of these, or the file is damaged.
        """
        if path.is_dir():
            files = sorted(path.glob("*.safetensors"))
            if len(files) != 1:
                raise UserError(f"{path} has {len(files)} files .safetensors, not that of one run: name the file")
            path = files[0]
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
        """Refuse unreadable metadata, and return self."""
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
        """True if the values are the hardware's integers."""
        return self.metadata.get("engine") in _INTEGERS

    @property
    def method(self) -> str:
        return self.metadata.get("method", "")

    @property
    def shape(self) -> Shape:
        """Shape of a sample.

        Raises
        ------
        UserError
            If the file does not name the shape.
        """
        if "input" not in self.metadata:
            raise UserError(f"{self.path} does not say the shape of a sample: give it with --input")
        return tuple(map(int, self.metadata["input"].split("x")))

    @property
    def scale(self) -> float:
        """Factor by which the samples were multiplied."""
        return float(self.metadata.get("scale", "1"))

    def applied(self, state: State) -> dict[str, NDArray[np.generic]]:
        """Tuned tensors, from the tensors before tuning.

        Raises
        ------
        UserError
            If the run started from other tensors.
        """
        if self.delta is None:
            return self.tensors
        return {name: tensor.numpy() for name, tensor in self.delta.applied(state).items()}

    def check_base(self, stages: Sequence[StageTensors], state: State) -> None:
        """Refuse weights from which the run did not start.

        Raises
        ------
        UserError
            Naming both digests.
        """
        digest = stages_digest(stages, state)
        if digest != self.metadata.get("base", digest):
            raise UserError(
                f"{self.path} started from other weights: theirs have the digest {self.metadata['base']}, these"
                f" {digest}: give the ones before tuning with --weights, or --model"
            )


def run_metadata(
    model: str,
    weights: str,
    shape: Shape,
    scale: float,
    stages: Sequence[StageTensors],
    state: Mapping[str, Tensor],
) -> dict[str, str]:
    """Start of a run: network, weights, samples and versions, by the keys of `Run.metadata`.

    `model` is the network's reference, `weights` the file of weights, empty if the model contains them. `shape` and
    `scale` are those of a sample, `stages` and `state` the tensors before tuning by the user's names.
    """
    return {
        "layout": LAYOUT,
        "model": model,
        "weights": weights,
        "input": "x".join(map(str, shape)),
        "scale": repr(scale),
        "base": stages_digest(stages, state),
        "stages": json.dumps([stage.described for stage in stages]),
        "fabtune": __version__,
        "torch": package_version("torch"),
    }


def tensors_of(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}


def by_title(
    network: Network, stages: Sequence[StageTensors], state: State, tensors: Mapping[str, NDArray[np.generic]]
) -> dict[str, NDArray[np.generic]]:
    """Trained tensors of an adapter engine by the user's names; integers become float32 values.

    `state` has the user's tensors before tuning. `tensors` are from `Engine.tensors`: ``adapter.STAGE.a``,
    ``layer.STAGE.weight``, or by a layer's number.
    """
    weighted = network.weighted
    named: dict[str, NDArray[np.generic]] = {}
    alone: dict[int, dict[str, Any]] = {}
    for name, values_read in tensors.items():
        first, *rest = name.split(".")
        stage = int(rest[0]) if first in ("adapter", "layer") else weighted.index(int(first))
        names_of_stage = stages[stage]
        names = {"weight": names_of_stage.weight_name, "bias": names_of_stage.bias_name}
        values = Q4_12.to_float(values_read).astype(np.float32) if values_read.dtype.kind == "i" else values_read
        if rest[-1] in names and names_of_stage.weight is None:
            alone.setdefault(stage, {})[rest[-1]] = np.asarray(values, np.float64)
        else:
            named[names.get(rest[-1], f"{names_of_stage.title}.lora_{rest[-1]}")] = (
                names_of_stage.given(values) if rest[-1] == "weight" else values
            )
    for stage, trained in alone.items():  # batch norm as a separate stage
        names_of_stage = stages[stage]
        named |= names_of_stage.returned(replace(names_of_stage.folded(state), **trained), state)
    return named
