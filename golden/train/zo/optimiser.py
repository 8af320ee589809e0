"""Zeroth-order optimisers in PyTorch's manner: MeZO, and PeZO (equations 1 and 2), for any module on any device.

With central differences a step evaluates the loss at the parameters plus and minus eps times a perturbation z.
One-sided differences use plus eps times z and the parameters themselves. The loss difference over the distance, times
z, estimates the gradient. All updates are in place.
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
from ...rng.perturbation import FoldableSource
from ...rng.pezo import PezoSpec
from .periodic import Periodic
from .sources import Gaussian, Perturbations
from .weights import FloatWeights, IntegerWeights, Weights

DIFFERENCES = ("central", "one-sided")
MINIMUM_EPS = 16
"""Smallest eps in units of the resolution of integer parameters; eps is rounded to a multiple of the resolution."""


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

    ``p -= lr * (mean of slope * z + weight_decay * p)``. As in MeZO, only tensors of two dimensions or more decay:
    biases and norms do not. Parameters that do not require gradients stay unchanged.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        Parameters, or groups with their own `lr` and `weight_decay`. Flattened in this order they are the vector that
        is perturbed.
    lr : float
        Learning rate, at least 0.
    eps : float
        Length of a perturbation, above 0; rounded for integer parameters, see the attribute.
    queries : int
        Perturbations per step, all at the same parameters; the estimates are averaged.
    weight_decay : float
        At least 0.
    differences : "central" or "one-sided"
        Central: two loss evaluations per query. One-sided: one per query and one per step.
    format : Format, optional
        Format of integer parameters, see `weights.IntegerWeights`; needs a `Periodic` source, one parameter group and
        no weight decay.
    position : int
        Position of the first perturbation.

    Attributes
    ----------
    weights : Weights
        The perturbed vector.
    position : int
        Position of the next perturbation.
    slopes : list of float
        Projected gradients of the last step's queries.
    moves : list of (int, int)
        Position and coefficient of each perturbation that the last step added to integer parameters; empty with floats.

    Raises
    ------
    UserError
        If a setting is out of range, no parameter can be tuned, or a parameter is not a contiguous float tensor.
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
            raise UserError(f"{source} gives floats, which cannot be added to integer parameters: take PeZO's")
        parameters: list[Any] = list(params)
        if not parameters:
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
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})
        if not self._tensors:
            raise UserError("none of the parameters requires gradients: there is nothing to tune")
        if eps < MINIMUM_EPS * self.weights.resolution:
            raise UserError(
                f"eps = {eps} is only {eps / self.weights.resolution:.3g} times the resolution of {format} parameters, "
                f"and must be {MINIMUM_EPS}: give the format more fraction bits or the source fewer"
            )
        self.eps = self.weights.snap(eps)
        """Length of a perturbation; with integer parameters, the nearest representable one."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Append a group of parameters to the vector.

        Raises
        ------
        UserError
            As the constructor does, and if integer parameters already have their group.
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
        for parameter in group["params"]:
            if not parameter.is_floating_point():
                raise UserError(f"a parameter of {tuple(parameter.shape)} is {parameter.dtype}: only floats are tuned")
            if not parameter.is_contiguous():
                raise UserError(f"a parameter of {tuple(parameter.shape)} is not contiguous: call contiguous() first")
        self._tensors += [parameter for parameter in group["params"] if parameter.requires_grad]
        self._ends.append(len(self._tensors))
        self.weights = self._make_weights()

    def _make_weights(self) -> Weights:
        if self.format is not None and isinstance(self.source, Periodic):
            return IntegerWeights(self._tensors, self.source, self.format)
        return FloatWeights(self._tensors, self.source)

    @torch.no_grad()
    def step(self, closure: Callable[[], float | Tensor]) -> float:  # type: ignore[override]
        """Update the parameters once, from losses along `queries` perturbations; return the mean of all losses.

        One-sided, the loss before the step is returned. The closure returns the loss and is called without gradients.
        Within a step it must use the same samples and the same dropout masks.

        Raises
        ------
        UserError
            If a loss is not finite. After this error or an exception of the closure, `position` and the parameters are
            as before the step, float parameters up to rounding.
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
                raise UserError(
                    f"the loss is {plus} and {minus} on both sides of the parameters: lower the rate or eps"
                )
        self._descend(positions, slopes)
        self.position += self.queries * span
        return sum(means) / len(means)

    def _losses(self, closure: Callable[[], float | Tensor], position: int, sides: tuple[int, ...]) -> list[float]:
        """Loss at each multiple of eps along a perturbation; the parameters are restored, even after an error."""
        current, losses = 0, []
        try:
            for side in sides:
                self.weights.add(position, (side - current) * self.eps)
                current = side
                losses.append(float(closure()))
        finally:
            self.weights.add(position, -current * self.eps)
        return losses

    def _descend(self, positions: list[int], slopes: list[float]) -> None:
        moves: list[tuple[int, int]] = []
        for group, first, last in zip(self.param_groups, self._ends, self._ends[1:], strict=False):
            if group["weight_decay"]:
                for tensor in self._tensors[first:last]:
                    if tensor.dim() >= 2:
                        tensor.mul_(1 - group["lr"] * group["weight_decay"])
            # all amounts before the first update: an overflow leaves the parameters as they were
            amounts = [self.weights.snap(-group["lr"] * slope / self.queries) for slope in slopes]
            for position, amount in zip(positions, amounts, strict=True):
                self.weights.add(position, amount, first, last)
                if isinstance(self.weights, IntegerWeights):
                    moves.append((position, self.weights.coefficient(amount)))
        self.slopes, self.moves = slopes, moves

    # -- saving ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's state of an optimiser with position, settings and integer parameters.

        With the module's state dict, a run resumes bit for bit.
        """
        integers = self.weights.integers if isinstance(self.weights, IntegerWeights) else []
        return super().state_dict() | {
            "zeroth_order": {**self._identity(), **self._progress(), "integers": integers},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved state; integer parameters overwrite the module's parameters too.

        Raises
        ------
        UserError
            If the state is from another kind of optimiser, or from another source, format or number of parameters.
        """
        saved = state_dict.get("zeroth_order")
        if saved is None:
            raise UserError("this state is not from a zeroth-order optimiser")
        for name, mine in self._identity().items():
            if saved[name] != mine:
                raise UserError(f"the state was saved with {name} = {saved[name]}, here it is {mine}")
        super().load_state_dict(state_dict)
        if isinstance(self.weights, IntegerWeights):
            self.weights.load(saved["integers"])
        for name in self._progress():
            setattr(self, name, saved[name])

    def _identity(self) -> dict[str, Any]:
        """Properties that a resumed run must share, as text and numbers, which load with ``weights_only``."""
        return {"source": repr(self.source), "format": str(self.format), "count": self.weights.count}

    def _progress(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("position", "eps", "queries", "differences")}


class MeZO(ZerothOrder):
    """MeZO (Malladi et al., 2023): Gaussian perturbations from a seed, drawn again at every use.

    `settings` are keyword arguments of `ZerothOrder`.
    """

    def __init__(self, params: ParamsT, *, seed: int = 0, **settings: Unpack[ZerothOrderOptions]) -> None:
        super().__init__(params, Gaussian(seed), **settings)


class PeZO(ZerothOrder):
    """PeZO: perturbations from the hardware's periodic generators.

    The default source is the paper's 31 generators of 8 bits. `lanes` and `fraction` are arguments of `Periodic`,
    `settings` are keyword arguments of `ZerothOrder`.
    """

    def __init__(
        self,
        params: ParamsT,
        source: FoldableSource | None = None,
        *,
        lanes: int = 32,
        fraction: int | None = None,
        **settings: Unpack[ZerothOrderOptions],
    ) -> None:
        super().__init__(params, Periodic(source or PezoSpec(), lanes, fraction), **settings)
