"""Zeroth-order optimisers in PyTorch's manner: MeZO, and PeZO (equations 1 and 2), for any module on any device.

A step sees the loss at the parameters plus and minus eps times a perturbation z, or at plus eps z and at the
parameters themselves; the slope between them, times z, stands for the gradient. Everything is done in place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from ...errors import UserError
from ...fixed import Format
from ...rng.perturbation import Source
from ...rng.pezo import PezoSpec
from .periodic import Periodic
from .sources import Gaussian, Perturbations
from .weights import FloatWeights, IntegerWeights, Weights

DIFFERENCES = ("central", "one-sided")
LEAST = 16
"""eps is at least so many of what integer parameters can be moved by: it is rounded to a multiple of that."""


class ZerothOrderOptions(TypedDict, total=False):
    """Keyword arguments of `ZerothOrder`."""

    lr: float
    eps: float
    queries: int
    weight_decay: float
    differences: Literal["central", "one-sided"]
    format: Format | None
    position: int


class ZerothOrder(Optimizer):
    """Zeroth-order stochastic gradient descent.

    ``p -= lr * (mean of slope * z + weight_decay * p)``, the second term for tensors of two dimensions or more: as in
    MeZO neither biases nor norms decay. Parameters that do not require gradients stay as they are.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        Parameters, or groups of them with `lr` and `weight_decay` of their own. Flattened, in this order, they are the
        vector that is perturbed.
    source : Perturbations
    lr : float
        Learning rate, at least 0.
    eps : float
        Length of a perturbation, above 0. In integers it is rounded, see `eps` of the instance.
    queries : int
        Perturbations a step, all at the same parameters; their mean is taken.
    weight_decay : float
        At least 0.
    differences : "central" or "one-sided"
        The loss is seen twice a query, or once a query and once a step.
    format : Format, optional
        Keep the parameters as integers, see `weights.IntegerWeights`: for a `Periodic` source, one group and no weight
        decay.
    position : int
        Where the first perturbation starts.

    Attributes
    ----------
    weights : Weights
        The vector.
    position : int
        Where the next perturbation starts.
    slopes : list of float
        Of the last step's queries.
    moves : list of (int, int)
        Position and coefficient of what the last step added to integer parameters; nothing with floats.

    Raises
    ------
    UserError
        For a setting out of range, no parameters, or parameters that are no contiguous floats.
    """

    def __init__(
        self,
        params: ParamsT,
        source: Perturbations,
        *,
        lr: float = 1e-6,
        eps: float = 1e-3,
        queries: int = 1,
        weight_decay: float = 0.0,
        differences: Literal["central", "one-sided"] = "central",
        format: Format | None = None,
        position: int = 0,
    ) -> None:
        if not (isfinite(eps) and eps > 0):
            raise UserError(f"eps = {eps}: the length of a perturbation is above 0")
        if queries < 1:
            raise UserError(f"queries = {queries}: a step takes at least 1")
        if differences not in DIFFERENCES:
            raise UserError(f"differences = {differences!r} is not one of {', '.join(DIFFERENCES)}")
        if position < 0:
            raise UserError(f"position = {position} is negative")
        if format is not None and not isinstance(source, Periodic):
            raise UserError(f"{source} gives floats, from which no integer parameters can be moved: take PeZO's")
        given: list[Any] = list(params)
        if not given:
            raise UserError("there are no parameters to tune")
        self.source = source
        self.queries = queries
        self.differences = differences
        self.format = format
        self.position = position
        self.slopes: list[float] = []
        self.moves: list[tuple[int, int]] = []
        self._ends = [0]
        self._tensors: list[Tensor] = []
        super().__init__(given, {"lr": lr, "weight_decay": weight_decay})
        if not self._tensors:
            raise UserError("none of the parameters requires gradients: there is nothing to tune")
        if eps < LEAST * self.weights.resolution:
            raise UserError(
                f"eps = {eps} is only {eps / self.weights.resolution:.3g} times the least that {format} parameters are "
                f"moved by, and must be {LEAST}: give the format more fraction bits or the source fewer"
            )
        self.eps = self.weights.snap(eps)
        """Length of a perturbation; with integer parameters the nearest that there is."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, behind those that are there.

        Raises
        ------
        UserError
            As the constructor does, and if integer parameters are there already.
        """
        if self.format is not None and self.param_groups:
            raise UserError("integer parameters are one group, so that a step is one coefficient")
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for name in ("lr", "weight_decay"):
            if not (isfinite(group[name]) and group[name] >= 0):
                raise UserError(f"{name} = {group[name]} is not 0 or more")
        if self.format is not None and group["weight_decay"]:
            raise UserError("integer parameters have no weight decay: the sum of steps would depend on their order")
        for one in group["params"]:
            if not one.is_floating_point():
                raise UserError(f"a parameter of {tuple(one.shape)} is {one.dtype}: only floats are tuned")
            if not one.is_contiguous():
                raise UserError(f"a parameter of {tuple(one.shape)} is not contiguous: make it so before")
        self._tensors += [one for one in group["params"] if one.requires_grad]
        self._ends.append(len(self._tensors))
        self.weights = self._held()

    def _held(self) -> Weights:
        if self.format is not None and isinstance(self.source, Periodic):
            return IntegerWeights(self._tensors, self.source, self.format)
        return FloatWeights(self._tensors, self.source)

    @torch.no_grad()
    def step(self, closure: Callable[[], float | Tensor]) -> float:  # type: ignore[override]
        """See the loss `queries` times and move the parameters once.

        Parameters
        ----------
        closure : callable
            Gives the loss, without gradients. Within a step it must use the same samples, and the same masks where
            there is dropout.

        Returns
        -------
        float
            The mean of all losses seen; one-sided, the loss before the step.

        Raises
        ------
        UserError
            If a loss is not finite. Then, and after an exception in the closure, the parameters are where they were,
            with floats but for rounding, and so is `position`.
        """
        central = self.differences == "central"
        before = 0.0 if central else float(closure())
        span = self.source.span(self.weights.count)
        positions = [self.position + query * span for query in range(self.queries)]
        slopes, means = [], []
        for position in positions:
            plus, *other = self._losses(closure, position, (1, -1) if central else (1,))
            minus = other[0] if central else before
            slopes.append((plus - minus) / (2 * self.eps if central else self.eps))
            means.append((plus + minus) / 2 if central else before)
            if not isfinite(slopes[-1]):
                raise UserError(f"the loss is {plus} and {minus} on both sides of the parameters: lower lr or eps")
        self._descend(positions, slopes)
        self.position += self.queries * span
        return sum(means) / len(means)

    def _losses(self, closure: Callable[[], float | Tensor], position: int, sides: tuple[int, ...]) -> list[float]:
        """The loss at multiples of eps along a perturbation; the parameters return whatever happens."""
        at, seen = 0, []
        try:
            for side in sides:
                self.weights.add(position, (side - at) * self.eps)
                at = side
                seen.append(float(closure()))
        finally:
            self.weights.add(position, -at * self.eps)
        return seen

    def _descend(self, positions: list[int], slopes: list[float]) -> None:
        moves: list[tuple[int, int]] = []
        for group, first, last in zip(self.param_groups, self._ends, self._ends[1:], strict=False):
            if group["weight_decay"]:
                for tensor in self._tensors[first:last]:
                    if tensor.dim() >= 2:
                        tensor.mul_(1 - group["lr"] * group["weight_decay"])
            # before any of them is made: one that overflows is refused
            amounts = [self.weights.snap(-group["lr"] * slope / self.queries) for slope in slopes]
            for position, amount in zip(positions, amounts, strict=True):
                self.weights.add(position, amount, first, last)
                if isinstance(self.weights, IntegerWeights):
                    moves.append((position, self.weights.coefficient(amount)))
        self.slopes, self.moves = slopes, moves

    # -- saving ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's, with all that a run goes on from: position, settings, and the integers where parameters have them.

        Together with the module's own state dict it resumes to the bit.
        """
        integers = self.weights.integers if isinstance(self.weights, IntegerWeights) else []
        return super().state_dict() | {
            "zeroth_order": {**self._identity(), **self._progress(), "integers": integers},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a run was saved; with integer parameters this sets the module's too.

        Raises
        ------
        UserError
            If it was saved by another optimiser, with another source or format, or with other parameters.
        """
        saved = state_dict.get("zeroth_order")
        if saved is None:
            raise UserError("this state was not saved by a zeroth-order optimiser")
        for name, mine in self._identity().items():
            if saved[name] != mine:
                raise UserError(f"the state was saved with {name} = {saved[name]}, here it is {mine}")
        super().load_state_dict(state_dict)
        if isinstance(self.weights, IntegerWeights):
            self.weights.load(saved["integers"])
        for name in self._progress():
            setattr(self, name, saved[name])

    def _identity(self) -> dict[str, Any]:
        """What a resumed run must have in common, as plain text and numbers, so that it loads with ``weights_only``."""
        return {"source": repr(self.source), "format": str(self.format), "count": self.weights.count}

    def _progress(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("position", "eps", "queries", "differences")}


class MeZO(ZerothOrder):
    """MeZO (Malladi et al., 2023): Gaussian perturbations, drawn again whenever they are needed.

    Parameters
    ----------
    params : iterable of Tensor or of dict
    seed : int
        Of the numbers.
    **settings
        Of `ZerothOrder`.
    """

    def __init__(self, params: ParamsT, *, seed: int = 0, **settings: Unpack[ZerothOrderOptions]) -> None:
        super().__init__(params, Gaussian(seed), **settings)


class PeZO(ZerothOrder):
    """PeZO: perturbations from the hardware's periodic generators.

    Parameters
    ----------
    params : iterable of Tensor or of dict
    source : PezoSpec, PoolSpec or ScaleSpec, optional
        The generator; the paper's 31 of 8 bits where none is given.
    lanes, fraction
        Of `Periodic`.
    **settings
        Of `ZerothOrder`.
    """

    def __init__(
        self,
        params: ParamsT,
        source: Source | None = None,
        *,
        lanes: int = 32,
        fraction: int | None = None,
        **settings: Unpack[ZerothOrderOptions],
    ) -> None:
        super().__init__(params, Periodic(source or PezoSpec(), lanes, fraction), **settings)
