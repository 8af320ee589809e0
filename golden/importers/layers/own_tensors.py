"""Tensors of a user's model from which each stage comes, and the way back: batch norm folded, and unfolded again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import UserError
from ...models.batch_norm import Floats64, NormTensors, StageParameters
from ...models.element_order import ElementOrder
from ...models.layers import BatchNorm, Weighted
from ...models.module import NetworkModule
from ...models.network import Network

State = Mapping[str, Tensor]
"""Tensors by their names in the user's model."""
Returned = dict[str, NDArray[np.float32]]
"""The same as arrays."""
FOLDED_WEIGHT, FOLDED_BIAS = ".folded_weight", ".folded_bias"
"""Names behind a layer's of parameters with batch norm folded, where the user's tensors cannot hold them."""
_STATISTICS = ("running_mean", "running_var")
_SMALLEST_SCALE = 2.0**-20
"""Smallest factor of a batch norm's channel through which weights return: below it their float32 could overflow."""
_LARGEST_ERROR = 2.0**-14
"""Largest error of a returned parameter that is folded again: half of what would change an integer of Q4.12."""


@dataclass(frozen=True)
class StageTensors:
    """Names of a stage's tensors in the user's model.

    Parameters
    ----------
    title : str
        Name of the layer: ``stem.0``.
    weight : str or None
        Name of its weight; None for a batch norm that is a stage of its own.
    bias : str or None
        Name of its bias; None where it has none.
    norm : dict of str to str
        Names of the tensors of the batch norm behind it by PyTorch's: running_mean, running_var, and weight and bias
        where it has them. Empty without one.
    eps : float
        Of the batch norm.
    channels : int
        Outputs of the layer: elements of its bias.
    order : ElementOrder, optional
        Way from the user's weight to the stage's, where they differ in shape or order; of a batch norm that is a stage
        of its own from each of its tensors.
    """

    title: str
    weight: str | None
    bias: str | None
    norm: dict[str, str]
    eps: float
    channels: int
    order: ElementOrder | None = None

    @classmethod
    def parse(cls, described: Mapping[str, Any]) -> StageTensors:
        """Make it from what `described` gave."""
        order = described.get("order")
        return cls(**{**described, "order": order and ElementOrder.parse(order)})

    @property
    def described(self) -> dict[str, Any]:
        """Fields by name, for JSON."""
        return asdict(self)

    @property
    def bias_name(self) -> str:
        """Name of the bias in what was tuned, where the layer has none, too."""
        return self.bias or f"{self.title}.bias"

    @property
    def weight_name(self) -> str:
        """Name of the weight, of a batch norm that is a stage of its own, too."""
        return self.weight or f"{self.title}.weight"

    @property
    def names(self) -> list[str]:
        """Names of all tensors from which the stage comes."""
        return [name for name in (self.weight, self.bias, *self.norm.values()) if name]

    def taken(self, weight: NDArray[Any]) -> NDArray[Any]:
        """Turn the user's weight into the stage's."""
        return weight if self.order is None or self.weight is None else self.order.taken(weight)

    def given(self, weight: NDArray[Any]) -> NDArray[Any]:
        """Turn the stage's weight into the user's."""
        return weight if self.order is None or self.weight is None else self.order.returned(weight)

    def folded(self, state: State) -> StageParameters:
        """Fold the tensors of a state.

        Raises
        ------
        UserError
            If one is missing, or a variance is negative.
        """
        for name in self.names:
            if name not in state:
                raise UserError(f"the base lacks {name}, from which {self.title} is folded")
        layer = self._layer(state)
        if not self.norm:
            return layer
        found = self._norm(state).folded(layer, self.title)
        if self.weight is None:  # the importers' stage of a batch norm alone has its parameters in float32
            return StageParameters(*(one.astype(np.float32).astype(np.float64) for one in (found.weight, found.bias)))
        return found

    def returned(self, parameters: StageParameters, state: State) -> Returned:
        """Tensors, in float32, from which these parameters are folded; those that change, and no others.

        Without batch norm they are the parameters themselves, and a bias that is not 0 is named `bias_name`. With it,
        the statistics stay as they are: the weight is divided by the factor of its channel, and the bias is made up for
        in the batch norm's, or else in the layer's, or else in the running mean. Channels whose factor is 0 get one.

        Parameters
        ----------
        parameters : StageParameters
        state : mapping of str to Tensor
            The user's, before.

        Raises
        ------
        UserError
            If float32 cannot hold them so that folding gives them within 2**-14, a quarter of Q4.12's last place.
        """
        found = self._unfolded(parameters, state) if self.norm else self._plain(parameters, state)
        if self.norm:
            own = {**state, **{name: _tensor(one) for name, one in found.items()}}
            again = self.folded(own)
            errors = np.abs(again.weight - parameters.weight).max(), np.abs(again.bias - parameters.bias).max()
            if not max(errors) <= _LARGEST_ERROR:
                raise UserError(
                    f"{self.title}: its batch norm cannot hold the tuned parameters in float32 (an error of "
                    f"{max(errors):.2g}): export to onnx or npz, which have it folded"
                )
        return found

    def _plain(self, parameters: StageParameters, state: State) -> Returned:
        assert self.weight is not None, "a stage without batch norm has a weight"
        found = {self.weight: self.given(parameters.weight.astype(np.float32))}
        if self.bias is not None or parameters.bias.any():
            found[self.bias_name] = self._bias(parameters.bias, state)
        return found

    def _bias(self, values: Floats64, state: State) -> NDArray[np.float32]:
        """Bias in the shape in which the user has it."""
        shape = tuple(state[self.bias].shape) if self.bias is not None and self.bias in state else values.shape
        return values.astype(np.float32).reshape(shape)

    def _unfolded(self, parameters: StageParameters, state: State) -> Returned:
        norm, layer = self._norm(state), self._layer(state)
        deviation = np.sqrt(norm.variance + self.eps)
        scale = (np.ones(self.channels) if norm.weight is None else norm.weight) / deviation
        if self.weight is None:
            return self._scaled(parameters, norm)
        found: Returned = {}
        if norm.weight is not None:
            scale = np.where(np.abs(scale) < _SMALLEST_SCALE, 1.0, scale)
            factors = np.where(scale == norm.weight / deviation, norm.weight, deviation).astype(np.float32)
            found[self.norm["weight"]] = factors
            scale = factors.astype(np.float64) / deviation
        weight = parameters.weight / scale.reshape(-1, *[1] * (parameters.weight.ndim - 1))
        found[self.weight] = self.given(weight.astype(np.float32))
        if norm.bias is not None:
            found[self.norm["bias"]] = (parameters.bias - (layer.bias - norm.mean) * scale).astype(np.float32)
        elif self.bias is not None:
            found[self.bias] = self._bias(parameters.bias / scale + norm.mean, state)
        else:
            found[self.norm["running_mean"]] = (-parameters.bias / scale).astype(np.float32)
        return found

    def _scaled(self, parameters: StageParameters, norm: NormTensors) -> Returned:
        """Tensors of a batch norm that is a stage of its own."""
        scale, bias = parameters.weight.reshape(-1), parameters.bias

        def given(kind: str, values: Floats64) -> Returned:
            own = values if self.order is None else self.order.returned(values)
            return {self.norm[kind]: own.astype(np.float32)}

        if norm.weight is None or norm.bias is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                mean, variance = -bias / scale, scale**-2.0 - self.eps
            if not ((scale > 0) & (variance >= 0) & np.isfinite(mean)).all():
                raise UserError(f"{self.title} has no weight and bias to hold its tuned factors: give it affine=True")
            return given("running_mean", mean) | given("running_var", variance)
        return given("weight", scale * np.sqrt(norm.variance + self.eps)) | given("bias", bias + norm.mean * scale)

    def scale(self, state: State) -> Floats64:
        """Factor of each channel by which batch norm multiplies what the layer gives; 1 without one."""
        if not self.norm:
            return np.ones(self.channels)
        norm = self._norm(state)
        return (1.0 if norm.weight is None else norm.weight) / np.sqrt(norm.variance + self.eps)

    def _layer(self, state: State) -> StageParameters:
        if self.weight is None:
            return StageParameters(np.ones((self.channels, 1, 1, 1)), np.zeros(self.channels))
        bias = np.zeros(self.channels) if self.bias is None else _array(state[self.bias]).reshape(-1)
        return StageParameters(self.taken(_array(state[self.weight])), bias)

    def _norm(self, state: State) -> NormTensors:
        arrays = {kind: _array(state[name]) for kind, name in self.norm.items()}
        mean, variance = (arrays[name] for name in _STATISTICS)
        found = NormTensors(mean, variance, arrays.get("weight"), arrays.get("bias"), self.eps)
        return found.ordered(self.order) if self.weight is None else found


def stage_tensors(network: Network, module: NetworkModule) -> tuple[StageTensors, ...]:
    """Tensors of each stage.

    Parameters
    ----------
    network : Network
    module : NetworkModule
        Of its description, see `folding.described`.
    """
    norms = {read[0]: at for at, read in enumerate(network.reads) if isinstance(network.layers[at], BatchNorm)}
    found = []
    for at, layer in enumerate(network.layers):
        if not isinstance(layer, Weighted):
            continue
        child, channels = module[at], len(module[at].weight)
        if at in module.scales:
            origin, names = module.scales[at]
            own = {kind: names.get(kind, f"{module.titles[at]}.{kind}") for kind in _kinds(origin)}
            found.append(StageTensors(module.titles[at], None, None, own, origin.eps, channels, module.orders.get(at)))
            continue
        norm, eps = {}, 0.0
        if at in norms:
            behind = module[norms[at]]
            assert isinstance(behind, nn.BatchNorm1d | nn.BatchNorm2d)
            kinds = [kind for kind in (*_STATISTICS, "weight", "bias") if getattr(behind, kind) is not None]
            norm, eps = {kind: _name(module, norms[at], kind) for kind in kinds}, behind.eps
        bias = None if child.bias is None else _name(module, at, "bias")
        title, weight = module.titles[at], _name(module, at, "weight")
        found.append(StageTensors(title, weight, bias, norm, eps, channels, module.orders.get(at)))
    return tuple(found)


def own_state(module: NetworkModule) -> dict[str, Tensor]:
    """Tensors of a description's module under the names of the user's model."""
    found: dict[str, Tensor] = {}
    for name, tensor in module.state_dict().items():
        number, _, kind = name.partition(".")
        if int(number) not in module.scales:
            own = tensor.detach()
            if kind == "weight" and (order := module.orders.get(int(number))) is not None:
                own = _tensor(np.array(order.returned(own.numpy())))
            found[_name(module, int(number), kind)] = own
    for at, (origin, names) in module.scales.items():
        for kind, values in _kinds(origin).items():
            found[names.get(kind, f"{module.titles[at]}.{kind}")] = _tensor(values.astype(np.float32))
    return found


def user_state(module: nn.Module, description: NetworkModule) -> dict[str, Tensor]:
    """Copy the whole state of the user's module; of an ONNX file's that of its description, see `own_state`."""
    own = own_state(description) if isinstance(module, NetworkModule) else module.state_dict()
    return {name: one.detach().cpu().clone() for name, one in own.items()}


def returned(tensors: Sequence[StageTensors], parameters: Sequence[StageParameters], state: State) -> Returned:
    """Tensors of all stages, see `StageTensors.returned`."""
    pairs = zip(tensors, parameters, strict=True)
    return {name: one for own, wanted in pairs for name, one in own.returned(wanted, state).items()}


def by_stage(tensors: Sequence[StageTensors], parameters: Sequence[StageParameters]) -> Returned:
    """Folded parameters of all stages: `FOLDED_WEIGHT` and `FOLDED_BIAS` behind their layer's name."""
    found: Returned = {}
    for own, one in zip(tensors, parameters, strict=True):
        found[own.title + FOLDED_WEIGHT] = one.weight.astype(np.float32)
        found[own.title + FOLDED_BIAS] = one.bias.astype(np.float32)
    return found


def _name(module: NetworkModule, number: int, kind: str) -> str:
    return module.tensor_names.get(f"{number}.{kind}", f"{module.titles[number]}.{kind}")


def _kinds(norm: NormTensors) -> dict[str, Floats64]:
    values = {"running_mean": norm.mean, "running_var": norm.variance, "weight": norm.weight, "bias": norm.bias}
    return {kind: one for kind, one in values.items() if one is not None}


def _array(tensor: Tensor) -> Floats64:
    return np.asarray(tensor.detach().cpu().double().numpy()).copy()


def _tensor(values: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(values)
