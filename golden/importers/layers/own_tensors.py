"""Tensors of a user's model behind each stage, and the way back: folding and unfolding of batch norm."""

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
"""Arrays by their names in the user's model."""
FOLDED_WEIGHT, FOLDED_BIAS = ".folded_weight", ".folded_bias"
"""Suffixes of a layer's name for folded parameters that the user's tensors cannot hold."""
_STATISTICS = ("running_mean", "running_var")
_SMALLEST_SCALE = 2.0**-20
"""Smallest factor of a batch norm's channel for unfolding; with smaller factors float32 could overflow."""
_LARGEST_ERROR = 2.0**-14
"""Largest error of a parameter that is unfolded and folded again: half of a change of a Q4.12 integer."""


@dataclass(frozen=True)
class StageTensors:
    """Names of a stage's tensors in the user's model.

    Parameters
    ----------
    title : str
        Name of the layer: ``stem.0``.
    weight : str or None
        Name of the weight; None for a batch norm as a separate stage.
    bias : str or None
        Name of the bias; None for a layer without.
    norm : dict of str to str
        Names of the following batch norm's tensors by PyTorch's: running_mean, running_var, and weight and bias if
        present. Empty without batch norm.
    eps : float
        Of the batch norm.
    channels : int
        Outputs of the layer: elements of the bias.
    order : ElementOrder, optional
        From the user's weight to the stage's, if shape or order differ; for a separate batch norm, from each tensor.
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
        """Inverse of `described`."""
        order = described.get("order")
        return cls(**{**described, "order": order and ElementOrder.parse(order)})

    @property
    def described(self) -> dict[str, Any]:
        """Fields by name, for JSON."""
        return asdict(self)

    @property
    def bias_name(self) -> str:
        """Name of the bias in tuned tensors, also for a layer without bias."""
        return self.bias or f"{self.title}.bias"

    @property
    def weight_name(self) -> str:
        """Name of the weight, also for a batch norm as a separate stage."""
        return self.weight or f"{self.title}.weight"

    @property
    def names(self) -> list[str]:
        """Names of all tensors of the stage."""
        return [name for name in (self.weight, self.bias, *self.norm.values()) if name]

    def taken(self, weight: NDArray[Any]) -> NDArray[Any]:
        """The user's weight in the stage's order."""
        return weight if self.order is None or self.weight is None else self.order.taken(weight)

    def given(self, weight: NDArray[Any]) -> NDArray[Any]:
        """The stage's weight in the user's order."""
        return weight if self.order is None or self.weight is None else self.order.returned(weight)

    def folded(self, state: State) -> StageParameters:
        """Folded parameters from the tensors of a state.

        Raises
        ------
        UserError
            If a tensor is missing, or a variance is negative.
        """
        for name in self.names:
            if name not in state:
                raise UserError(f"the base lacks {name}, from which {self.title} is folded")
        layer = self._layer(state)
        if not self.norm:
            return layer
        stage = self._norm(state).folded(layer, self.title)
        if self.weight is None:  # importers give a separate batch norm float32 parameters
            return StageParameters(
                *(values.astype(np.float32).astype(np.float64) for values in (stage.weight, stage.bias))
            )
        return stage

    def returned(self, parameters: StageParameters, state: State) -> Returned:
        """Changed tensors, in float32, that fold to these parameters.

        Without batch norm they are the parameters themselves, and a bias other than 0 is named `bias_name`. With batch
        norm the statistics stay, if possible. The weight is divided by the factor of its channel. The bias is
        compensated in the batch norm's bias, else in the layer's, else in the running mean. Channels with a factor near
        0 get a new factor.

        Parameters
        ----------
        state : mapping of str to Tensor
            The user's tensors before tuning.

        Raises
        ------
        UserError
            If folding float32 tensors cannot restore the parameters within 2**-14, a quarter of Q4.12's last place.
        """
        changed = self._unfolded(parameters, state) if self.norm else self._plain(parameters, state)
        if self.norm:
            after = {**state, **{name: _tensor(values) for name, values in changed.items()}}
            again = self.folded(after)
            errors = np.abs(again.weight - parameters.weight).max(), np.abs(again.bias - parameters.bias).max()
            if not max(errors) <= _LARGEST_ERROR:
                raise UserError(
                    f"{self.title}: its batch norm cannot hold the tuned parameters in float32 (an error of "
                    f"{max(errors):.2g}): export to onnx or npz, which have it folded"
                )
        return changed

    def _plain(self, parameters: StageParameters, state: State) -> Returned:
        assert self.weight is not None, "a stage without batch norm has a weight"
        changed = {self.weight: self.given(parameters.weight.astype(np.float32))}
        if self.bias is not None or parameters.bias.any():
            changed[self.bias_name] = self._bias(parameters.bias, state)
        return changed

    def _bias(self, values: Floats64, state: State) -> NDArray[np.float32]:
        """Bias in the shape of the user's tensor."""
        shape = tuple(state[self.bias].shape) if self.bias is not None and self.bias in state else values.shape
        return values.astype(np.float32).reshape(shape)

    def _unfolded(self, parameters: StageParameters, state: State) -> Returned:
        norm, layer = self._norm(state), self._layer(state)
        deviation = np.sqrt(norm.variance + self.eps)
        scale = (np.ones(self.channels) if norm.weight is None else norm.weight) / deviation
        if self.weight is None:
            return self._scaled(parameters, norm)
        changed: Returned = {}
        if norm.weight is not None:
            scale = np.where(np.abs(scale) < _SMALLEST_SCALE, 1.0, scale)
            factors = np.where(scale == norm.weight / deviation, norm.weight, deviation).astype(np.float32)
            changed[self.norm["weight"]] = factors
            scale = factors.astype(np.float64) / deviation
        weight = parameters.weight / scale.reshape(-1, *[1] * (parameters.weight.ndim - 1))
        changed[self.weight] = self.given(weight.astype(np.float32))
        if norm.bias is not None:
            changed[self.norm["bias"]] = (parameters.bias - (layer.bias - norm.mean) * scale).astype(np.float32)
        elif self.bias is not None:
            changed[self.bias] = self._bias(parameters.bias / scale + norm.mean, state)
        else:
            changed[self.norm["running_mean"]] = (-parameters.bias / scale).astype(np.float32)
        return changed

    def _scaled(self, parameters: StageParameters, norm: NormTensors) -> Returned:
        """Tensors of a batch norm as a separate stage."""
        scale, bias = parameters.weight.reshape(-1), parameters.bias

        def given(kind: str, values: Floats64) -> Returned:
            array = values if self.order is None else self.order.returned(values)
            return {self.norm[kind]: array.astype(np.float32)}

        if norm.weight is None or norm.bias is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                mean, variance = -bias / scale, scale**-2.0 - self.eps
            if not ((scale > 0) & (variance >= 0) & np.isfinite(mean)).all():
                raise UserError(f"{self.title} has no weight and bias to hold its tuned factors: give it affine=True")
            return given("running_mean", mean) | given("running_var", variance)
        return given("weight", scale * np.sqrt(norm.variance + self.eps)) | given("bias", bias + norm.mean * scale)

    def scale(self, state: State) -> Floats64:
        """Factor of each channel in batch norm; 1 without batch norm."""
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
        norm = NormTensors(mean, variance, arrays.get("weight"), arrays.get("bias"), self.eps)
        return norm.ordered(self.order) if self.weight is None else norm


def stage_tensors(network: Network, module: NetworkModule) -> tuple[StageTensors, ...]:
    """Tensors of each stage.

    Parameters
    ----------
    module : NetworkModule
        The description's module, see `folding.described`.
    """
    norms = {
        read[0]: number for number, read in enumerate(network.reads) if isinstance(network.layers[number], BatchNorm)
    }
    stages = []
    for number, layer in enumerate(network.layers):
        if not isinstance(layer, Weighted):
            continue
        child, channels = module[number], len(module[number].weight)
        if number in module.scales:
            origin, names = module.scales[number]
            names_of_norm = {kind: names.get(kind, f"{module.titles[number]}.{kind}") for kind in _kinds(origin)}
            stages.append(
                StageTensors(
                    module.titles[number], None, None, names_of_norm, origin.eps, channels, module.orders.get(number)
                )
            )
            continue
        norm, eps = {}, 0.0
        if number in norms:
            following = module[norms[number]]
            assert isinstance(following, nn.BatchNorm1d | nn.BatchNorm2d)
            kinds = [kind for kind in (*_STATISTICS, "weight", "bias") if getattr(following, kind) is not None]
            norm, eps = {kind: _name(module, norms[number], kind) for kind in kinds}, following.eps
        bias = None if child.bias is None else _name(module, number, "bias")
        title, weight = module.titles[number], _name(module, number, "weight")
        stages.append(StageTensors(title, weight, bias, norm, eps, channels, module.orders.get(number)))
    return tuple(stages)


def own_state(module: NetworkModule) -> dict[str, Tensor]:
    """Tensors of a description's module by the names of the user's model."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in module.state_dict().items():
        number, _, kind = name.partition(".")
        if int(number) not in module.scales:
            values_of_user = tensor.detach()
            if kind == "weight" and (order := module.orders.get(int(number))) is not None:
                values_of_user = _tensor(np.array(order.returned(values_of_user.numpy())))
            tensors[_name(module, int(number), kind)] = values_of_user
    for layer_number, (origin, names) in module.scales.items():
        for kind, values in _kinds(origin).items():
            tensors[names.get(kind, f"{module.titles[layer_number]}.{kind}")] = _tensor(values.astype(np.float32))
    return tensors


def user_state(module: nn.Module, description: NetworkModule) -> dict[str, Tensor]:
    """Copy of the whole state of the user's module; for an ONNX file of its description, see `own_state`."""
    state = own_state(description) if isinstance(module, NetworkModule) else module.state_dict()
    return {name: tensor.detach().cpu().clone() for name, tensor in state.items()}


def returned(tensors: Sequence[StageTensors], parameters: Sequence[StageParameters], state: State) -> Returned:
    """Changed tensors of all stages, see `StageTensors.returned`."""
    pairs = zip(tensors, parameters, strict=True)
    return {name: values for stage, wanted in pairs for name, values in stage.returned(wanted, state).items()}


def by_stage(tensors: Sequence[StageTensors], parameters: Sequence[StageParameters]) -> Returned:
    """Folded parameters of all stages, named by the layer with `FOLDED_WEIGHT` and `FOLDED_BIAS`."""
    named: Returned = {}
    for stage, folded in zip(tensors, parameters, strict=True):
        named[stage.title + FOLDED_WEIGHT] = folded.weight.astype(np.float32)
        named[stage.title + FOLDED_BIAS] = folded.bias.astype(np.float32)
    return named


def _name(module: NetworkModule, number: int, kind: str) -> str:
    return module.tensor_names.get(f"{number}.{kind}", f"{module.titles[number]}.{kind}")


def _kinds(norm: NormTensors) -> dict[str, Floats64]:
    values = {"running_mean": norm.mean, "running_var": norm.variance, "weight": norm.weight, "bias": norm.bias}
    return {kind: array for kind, array in values.items() if array is not None}


def _array(tensor: Tensor) -> Floats64:
    return np.asarray(tensor.detach().cpu().double().numpy()).copy()


def _tensor(values: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(values)
