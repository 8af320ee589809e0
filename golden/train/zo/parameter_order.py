"""Order in which a core perturbs parameters.

Of a network of layers it is the order of the words in the multipliers' memories; of a transformer tile by tile, as they
are read, beside their frozen base.
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
        First stage of the second part, where both parts of the network have perturbations of their own; 0 without.

    Raises
    ------
    UserError
        If the network, the array or the cut is none.
    """

    network: str
    lanes: int
    columns: int
    cut: int = 0

    def __post_init__(self) -> None:
        check_cut(self.mapping, self.cut)

    @classmethod
    def of(cls, network: Network, lanes: int, columns: int, cut: int = 0) -> ArrayOrder:
        """Make the order of a network, with batch norm folded."""
        return cls(text_of(deployed(network)), lanes, columns, cut)

    def __str__(self) -> str:
        return f"{self.lanes} x {self.columns}" + (f" cut {self.cut}" if self.cut else "")

    @classmethod
    def parse(cls, network: str, array: str) -> ArrayOrder:
        """Make the order of a network's description, and an array as text gives it."""
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
        """Shapes of weight and bias of all stages, one after the other."""
        stages = self.mapping.forward.network_stages
        return [shape for stage in stages for shape in (stage.weight_shape, (stage.biases,))]

    def weights(self, tensors: Sequence[Tensor], part: int, source: Periodic, format: Format) -> ArrayWeights:
        """Parameters of the first or the second part, 0 or 1, as integers in this order; see `ArrayWeights`.

        Raises
        ------
        UserError
            If they are not those of the part.
        """
        mappings = self.mapping.parts(self.cut)
        own = (mappings if self.cut else [None, *mappings])[part]
        return ArrayWeights(tensors, own, source, format)

    def tuned(self, tensors: Sequence[Tensor], source: PerturbationSource, total: Integers) -> list[Tensor]:
        """Tune parameters by a sum of updates, as the core does.

        Parameters
        ----------
        tensors : sequence of Tensor
            Weight and bias of all stages before the updates, in the `shapes`.
        source : PerturbationSource
        total : array (times, n) of int, with a cut (2, times, n)
            Sum of updates in `golden.zo.deltas.DELTA`.

        Returns
        -------
        list of Tensor
            The tensors in Q4.12, in their types.
        """
        arrays = [one.detach().cpu().double().numpy() for one in tensors]
        stages = tuple(StageParameters(*pair) for pair in zip(arrays[::2], arrays[1::2], strict=True))
        model = NetworkModel(self.mapping, Converter().stages(stages))
        job = ZerothOrderJob(model, source, StepSettings(split=Split(self.cut)), deltas=total)
        return [
            torch.from_numpy(Q4_12.to_float(values)).to(tensor.dtype)
            for values, tensor in zip(flat(model.tuned(job)), tensors, strict=True)
        ]


class ArrayWeights(IntegerWeights):
    """Parameters in the words of an array, as `IntegerWeights` in use: one vector, 0 where there is no parameter.

    Parameters
    ----------
    tensors : sequence of Tensor
        Weight and bias of each stage; rounded to Q4.12 at construction, and overwritten after every change.
    part : PerturbationMapping or None
        Their places; None for no parameters.
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
        places = [one for pair in part.positions for one in pair] if part else []
        if [one.shape for one in places] != [tuple(one.shape) for one in tensors]:
            raise UserError(f"parameters of {[tuple(one.shape) for one in tensors]} are not those of the array's order")
        self._owned = list(zip(tensors, (torch.from_numpy(one.reshape(-1)) for one in places), strict=True))
        vector = torch.zeros(part.words * part.width if part else 0)
        for tensor, at in self._owned:
            values = tensor.detach().double().numpy().reshape(-1)
            vector[at] = torch.from_numpy(Q4_12.to_float(Q4_12.from_float(values)).astype(np.float32))
        super().__init__([vector], source, format)

    def _update_tensors(self, first: int = 0, last: int | None = None) -> None:
        super()._update_tensors(first, last)
        for tensor, at in self._owned:
            tensor.detach().view(-1).copy_(self.tensors[0][at])


def flat(stages: Sequence[StageIntegers]) -> list[Integers]:
    """Weight and bias of all stages, one after the other."""
    return [values for stage in stages for values in (stage.weight, stage.bias)]


@dataclass(frozen=True)
class TileOrder:
    """Order of a transformer's parameters, see `golden.stream.words`, and what they are offsets of.

    Parameters
    ----------
    lanes, columns : int
        Size of a tile.
    base : str
        Kind of the frozen matrices, see `golden.stream.frozen_base`.
    sensitive : tuple of (str, tuple of int)
        Of tensors that are tuned in part their name and the places of the values, ascending.
    cut : int
        First operation of the part with perturbations of its own; 0: there is none.

    Raises
    ------
    UserError
        If places are not ascending.
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
        """Make the order of a text, and of places by name."""
        text, _, cut = text.partition(" cut ")
        size, base = text.rsplit(" ", 1)
        lanes, columns = map(int, size.split(" x "))
        own = sorted((name, tuple(map(int, places))) for name, places in sensitive.items())
        return cls(lanes, columns, base, tuple(own), int(cut or 0))

    @property
    def width(self) -> int:
        """Parameters of a word; where tensors are tuned in part, of a word of these."""
        return sensitive_word(self.columns) if self.sensitive else self.lanes * self.columns

    @property
    def places(self) -> dict[str, Integers]:
        """Places of the sensitive values of each tensor."""
        return {name: np.array(places) for name, places in self.sensitive}
