"""Order in which a core perturbs parameters.

For a network of layers: the word order of the multipliers' memories. For a transformer: tile by tile in the order of
reading, alongside the frozen base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import UserError
from ...fixed import Q4_12, Format, Integers
from ...models.batch_norm import StageParameters
from ...models.network import Network, deployed
from ...models.text import network_from, text_of
from ...nn.arithmetic.forward import StageIntegers
from ...nn.array.mapping import Mapping as ArrayMapping
from ...rng.perturbation import PerturbationSource
from ...stream.words import sensitive_word
from ...zo.job import ZerothOrderJob
from ...zo.mapping import PerturbationMapping
from ...zo.network_model import NetworkModel, check_cut
from ...zo.split import Split
from ...zo.step_settings import StepSettings
from ..conversion import Converter
from .periodic import Periodic
from .weights import IntegerWeights


@dataclass(frozen=True)
class ArrayOrder:
    """Order of a network's parameters on an array of multipliers, see `PerturbationMapping`.

    Parameters
    ----------
    network : str
        Description of the network, without batch norm.
    lanes, columns : int
        Size of the array.
    cut : int
        First stage of the second part, where each part has its own perturbations; 0 for a single part.

    Raises
    ------
    UserError
        If the network, the array or the cut is invalid.
    """

    network: str
    lanes: int
    columns: int
    cut: int = 0

    def __post_init__(self) -> None:
        check_cut(self.mapping, self.cut)

    @classmethod
    def of(cls, network: Network, lanes: int, columns: int, cut: int = 0) -> ArrayOrder:
        """Order of a network, with batch norm folded."""
        return cls(text_of(deployed(network)), lanes, columns, cut)

    def __str__(self) -> str:
        return f"{self.lanes} x {self.columns}" + (f" cut {self.cut}" if self.cut else "")

    @classmethod
    def parse(cls, network: str, array: str) -> ArrayOrder:
        """Order from a network's description and the array's text, as `str` gives it."""
        size, _, cut = array.partition(" cut ")
        lanes, columns = map(int, size.split(" x "))
        return cls(network, lanes, columns, int(cut or 0))

    @cached_property
    def mapping(self) -> PerturbationMapping:
        """Words of a perturbation."""
        network = network_from(self.network)
        return PerturbationMapping(ArrayMapping.of(network, self.lanes, self.columns, pairs="perturbed"))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of weight and bias of each stage, in order."""
        stages = self.mapping.forward.network_stages
        return [shape for stage in stages for shape in (stage.weight_shape, (stage.biases,))]

    def weights(self, tensors: Sequence[Tensor], part: int, source: Periodic, format: Format) -> ArrayWeights:
        """Parameters of one part (0 or 1) as integers in this order, see `ArrayWeights`.

        Raises
        ------
        UserError
            If the tensors do not have the shapes of the part.
        """
        mappings = self.mapping.parts(self.cut)
        mapping = (mappings if self.cut else [None, *mappings])[part]
        return ArrayWeights(tensors, mapping, source, format)

    def tuned(self, tensors: Sequence[Tensor], source: PerturbationSource, total: Integers) -> list[Tensor]:
        """Tensors in Q4.12 after a sum of updates, with the types of the inputs, as the core tunes them.

        `tensors` are weight and bias of all stages before the updates, in the `shapes`. `total` is in
        `golden.zo.deltas.DELTA`, (times, n), with a cut (2, times, n).
        """
        arrays = [tensor.detach().cpu().double().numpy() for tensor in tensors]
        stages = tuple(StageParameters(*pair) for pair in zip(arrays[::2], arrays[1::2], strict=True))
        model = NetworkModel(self.mapping, Converter().stages(stages))
        job = ZerothOrderJob(model, source, StepSettings(split=Split(self.cut)), deltas=total)
        return [
            torch.from_numpy(Q4_12.to_float(values)).to(tensor.dtype)
            for values, tensor in zip(flat(model.tuned(job)), tensors, strict=True)
        ]


class ArrayWeights(IntegerWeights):
    """Parameters in the words of an array, used like `IntegerWeights`: one vector, with 0 in unused positions.

    Parameters
    ----------
    tensors : sequence of Tensor
        Weight and bias of each stage; rounded to Q4.12 at construction, and overwritten after every change.
    part : PerturbationMapping or None
        Indices of the parameters in the vector; None for no parameters.
    source, format
        See `IntegerWeights`.

    Raises
    ------
    UserError
        If the tensors do not have the shapes of the part's stages.
    """

    def __init__(
        self, tensors: Sequence[Tensor], part: PerturbationMapping | None, source: Periodic, format: Format
    ) -> None:
        positions = [indices for pair in part.positions for indices in pair] if part else []
        shapes = [tuple(tensor.shape) for tensor in tensors]
        if [indices.shape for indices in positions] != shapes:
            raise UserError(f"parameters of {shapes} are not those of the array's order")
        self._owned = list(zip(tensors, (torch.from_numpy(indices.reshape(-1)) for indices in positions), strict=True))
        vector = torch.zeros(part.words * part.width if part else 0)
        for tensor, indices in self._owned:
            values = tensor.detach().double().numpy().reshape(-1)
            vector[indices] = torch.from_numpy(Q4_12.to_float(Q4_12.from_float(values)).astype(np.float32))
        super().__init__([vector], source, format)

    def _update_tensors(self, first: int = 0, last: int | None = None) -> None:
        super()._update_tensors(first, last)
        for tensor, indices in self._owned:
            tensor.detach().view(-1).copy_(self.tensors[0][indices])


def flat(stages: Sequence[StageIntegers]) -> list[Integers]:
    """Weight and bias of each stage in one list."""
    return [values for stage in stages for values in (stage.weight, stage.bias)]


@dataclass(frozen=True)
class TileOrder:
    """Order of a transformer's parameters, see `golden.stream.words`, with the base to which deltas are added.

    Parameters
    ----------
    lanes, columns : int
        Size of a tile.
    base : str
        Kind of the frozen matrices, see `golden.stream.frozen_base`.
    sensitive : tuple of (str, tuple of int)
        Name of each partly tuned tensor, with the ascending indices of its tuned values.
    cut : int
        First operation of the part with its own perturbations; 0 for a single part.

    Raises
    ------
    UserError
        If indices are not ascending.
    """

    lanes: int
    columns: int
    base: str
    sensitive: tuple[tuple[str, tuple[int, ...]], ...] = ()
    cut: int = 0

    def __post_init__(self) -> None:
        for name, places in self.sensitive:
            if not places or places[0] < 0 or (np.diff(places) <= 0).any():
                raise UserError(f"places of {name} are not ascending")

    def __str__(self) -> str:
        return f"{self.lanes} x {self.columns} {self.base}" + (f" cut {self.cut}" if self.cut else "")

    @classmethod
    def parse(cls, text: str, sensitive: Mapping[str, NDArray[Any]]) -> TileOrder:
        """Order from its text, as `str` gives it, and from sensitive indices by tensor name."""
        text, _, cut = text.partition(" cut ")
        size, base = text.rsplit(" ", 1)
        lanes, columns = map(int, size.split(" x "))
        pairs = sorted((name, tuple(map(int, places))) for name, places in sensitive.items())
        return cls(lanes, columns, base, tuple(pairs), int(cut or 0))

    @property
    def width(self) -> int:
        """Parameters of a perturbation word; with partly tuned tensors, of a word of sensitive values."""
        return sensitive_word(self.columns) if self.sensitive else self.lanes * self.columns

    @property
    def places(self) -> dict[str, Integers]:
        """Indices of the sensitive values of each tensor."""
        return {name: np.array(places) for name, places in self.sensitive}
