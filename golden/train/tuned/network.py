"""A tuned network as it leaves fabtune: folded parameters and adapters, in float and in golden's integers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from keyword import kwlist
from typing import Any
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import UserError
from ...fixed import Q4_12, Integers
from ...importers.layers.folding import Parameters, described, folded
from ...importers.layers.own_tensors import (
    FOLDED_BIAS,
    FOLDED_WEIGHT,
    StageTensors,
    returned,
    stage_tensors,
    user_state,
)
from ...lora.adapters import Adapters, AdapterSizes, Tuned, last_layer_sizes, untuned_layer
from ...lora.job import Job
from ...models.batch_norm import Floats64, StageParameters
from ...models.layers import Linear, Weighted
from ...models.module import module_of
from ...models.names import unused
from ...models.network import Network, deployed
from ..adapters.methods import METHODS
from ..conversion import Converter, values_of
from .run_file import Run, tensors_of


@dataclass(frozen=True, eq=False)
class LowRankAdapter:
    """Adapter: B A of the flattened input of a stage.

    Parameters
    ----------
    stage : int
        Stage whose input it reads.
    a : array of float64, (rank, inputs)
    b : array of float64, (outputs, rank)
    skips : bool
        It is added to the logits; otherwise to what the stage's layer gives, before residual and activation.
    """

    stage: int
    a: Floats64
    b: Floats64
    skips: bool


@dataclass(frozen=True, eq=False)
class TunedNetwork:
    """Network before or after a fine-tuning.

    Parameters
    ----------
    network : Network
        Without batch norm.
    stages : tuple of StageTensors
    state : dict of str to Tensor
        The user's tensors before tuning.
    base, parameters : tuple of StageParameters
        Before and after tuning, batch norm folded; of integers their values.
    adapters : tuple of LowRankAdapter
    tuned_layer : "layer", "biases" or None
        Part of the last layer that an integer job has tuned as adapters, see `lora.last_layer`.
    integers : bool
        Whether the values are those of the hardware's integers.
    """

    network: Network
    stages: tuple[StageTensors, ...]
    state: dict[str, Tensor]
    base: Parameters
    parameters: Parameters
    adapters: tuple[LowRankAdapter, ...] = ()
    tuned_layer: Tuned | None = None
    integers: bool = False

    @classmethod
    def of(cls, network: Network, module: nn.Module, run: Run | None = None) -> TunedNetwork:
        """Make the network of a run, or one that is not tuned.

        Parameters
        ----------
        network : Network
        module : nn.Module
            The user's, with the weights before tuning.
        run : Run, optional

        Raises
        ------
        UserError
            If the run started from other weights.
        """
        own = described(network, module)
        stages, state, base = stage_tensors(network, own), user_state(module, own), folded(network, own)
        found = cls(deployed(network), stages, state, base, base)
        if run is None:
            return found
        run.check_base(stages, state)
        if run.integers:
            base = values_of(Converter().stages(base))
        tensors, method = run.applied(state), METHODS.get(run.method)
        _refuse_unknown(run, stages, {*tensors} - {*state})
        skips = method is None or method.ends_in_logits
        _refuse_damaged(run, found, tensors, skips)
        parameters = _parameters(stages, base, state, tensors, run.integers)
        adapters = []
        for number, one in enumerate(stages):
            if f"{one.title}.lora_a" in tensors:
                a, b = (np.asarray(tensors[f"{one.title}.lora_{name}"], np.float64) for name in "ab")
                if not skips:
                    scale = one.scale(state)
                    b = b * np.repeat(scale, len(b) // len(scale))[:, None]
                adapters.append(LowRankAdapter(number, a, b, skips))
        layer = method.last_layer if method is not None and run.integers else None
        return replace(
            found,
            base=base,
            parameters=parameters,
            adapters=tuple(adapters),
            tuned_layer=layer,
            integers=run.integers,
        )

    def merged(self) -> TunedNetwork:
        """Add the adapters to weights where one layer does both: beside a fully connected one, or the last one."""
        parameters, rest, last = list(self.parameters), [], len(self.parameters) - 1
        for one in self.adapters:
            fully = isinstance(self.network.stages[one.stage].layer, Linear)
            if fully and (one.stage == last or not one.skips):
                before = parameters[one.stage]
                parameters[one.stage] = replace(before, weight=before.weight + one.b @ one.a)
            else:
                rest.append(one)
        return replace(self, parameters=tuple(parameters), adapters=tuple(rest))

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Whole state of the user's module, by its own names.

        Raises
        ------
        UserError
            If adapters are left that are part of no layer, or a layer has no bias for one that was tuned.
        """
        merged = self.merged()
        if merged.adapters:
            titles = ", ".join(self.stages[one.stage].title for one in merged.adapters)
            raise UserError(
                f"the adapters that read {titles} are part of no layer's weights: a program has them, -o FILE.pt2"
            )
        changed = returned(self.stages, merged.parameters, self.state)
        if missing := [name for name in changed if name not in self.state]:
            raise UserError(
                f"your network has no {missing[0]}, and the tuned one is not 0: a program has it, -o FILE.pt2"
            )
        return {**{name: one.cpu().numpy() for name, one in self.state.items()}, **changed}

    def module(self) -> TunedModule:
        """Make the PyTorch module with folded parameters, adapters merged where they can be, in float32."""
        return TunedModule(self.merged())

    def job(self, rank: int = 1) -> Job:
        """Make golden's integer job, whose logits are those of the tuned network.

        Parameters
        ----------
        rank : int
            Classes that each adapter of a tuned last layer has, as a core was generated.

        Raises
        ------
        UserError
            If there are adapters that the integers do not have.
        """
        network, last = self.network, self.network.stages[-1]
        if self.tuned_layer:
            adapters = untuned_layer(last_layer_sizes(last, self.tuned_layer, rank))
            frozen, tuned = (_integers(one[-1]) for one in (self.base, self.parameters))
            added = np.concatenate(_added(frozen, tuned, self.tuned_layer), axis=1)
            for number, values in enumerate(added):
                adapters.a[number // rank][:, number % rank] = values
            return Job(network, Converter().stages(self.base), adapters, rate=1)
        own = self if all(one.skips for one in self.adapters) else self.merged()
        if not all(one.skips for one in own.adapters):
            raise UserError("golden's integers have no adapters beside convolutions: take --engine float")
        count = len(own.adapters) or 1
        rank = len(own.adapters[0].a) if own.adapters else rank
        sizes = AdapterSizes(tuple(stage.inputs for stage in network.stages[-count:]), network.classes, rank)
        a = [one.a for one in own.adapters] or [np.zeros((rank, last.inputs))]
        b = [one.b for one in own.adapters] or [np.zeros((network.classes, rank))]
        return Job(network, Converter().stages(own.parameters), Adapters.of(sizes, a, b), rate=1)


class TunedModule(nn.Module):
    """Network with folded parameters and the adapters that are left, for PyTorch.

    Its state has the user's names: TITLE.weight, TITLE.bias, TITLE.lora_a and TITLE.lora_b.

    Parameters
    ----------
    tuned : TunedNetwork
    """

    def __init__(self, tuned: TunedNetwork) -> None:
        super().__init__()
        network = tuned.network
        with torch.device("meta"):
            plain = module_of(network)
        plain.to_empty(device="cpu")
        weighted = [at for at, layer in enumerate(network.layers) if isinstance(layer, Weighted)]
        self._reads, self._layers = network.reads, list(plain)
        self._beside: dict[int, nn.Module] = {}
        self._skips: list[nn.Module] = []
        self._sources: list[int] = []
        for at, own, one in zip(weighted, tuned.stages, tuned.parameters, strict=True):
            layer = plain[at]
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(one.weight))
                layer.bias.copy_(torch.from_numpy(one.bias))
            _place(self, own.title, layer)
        for adapter in tuned.adapters:
            layer = plain[weighted[adapter.stage]]
            for name in "ab":
                values = torch.from_numpy(getattr(adapter, name)).float()
                layer.register_parameter(f"lora_{name}", nn.Parameter(values))
            if adapter.skips:
                self._skips.append(layer)
                self._sources.append(network.reads[weighted[adapter.stage]][0])
            else:
                self._beside[weighted[adapter.stage]] = layer
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        values = [x]
        for number, (layer, read) in enumerate(zip(self._layers, self._reads, strict=True)):
            inputs = [values[at + 1] for at in read]
            y = layer(*inputs)
            if number in self._beside:
                y = y + _adapted(self._beside[number], inputs[0]).view_as(y)
            values.append(y)
        logits = values[-1]
        for layer, source in zip(self._skips, self._sources, strict=True):
            logits = logits + _adapted(layer, values[source + 1])
        return logits


def _adapted(layer: Any, x: Tensor) -> Tensor:
    return nn.functional.linear(nn.functional.linear(x.flatten(1), layer.lora_a), layer.lora_b)


def _place(root: nn.Module, title: str, layer: nn.Module) -> None:
    """Put a layer below a module, under a name with dots or slashes, of which parts that are no names there change."""
    # programs of torch.export write names as Python does, which normalises them
    *path, name = [part for part in re.split("[./]", normalize("NFKC", title)) if part] or ["layer"]
    for part in path:
        containers = {key for key, one in root._modules.items() if type(one) is nn.Module}
        part = unused(part, {*dir(root), *kwlist} - containers)
        if part not in containers:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    root.add_module(unused(name, {*dir(root), *kwlist}), layer)


def _refuse_unknown(run: Run, stages: Sequence[StageTensors], names: set[str]) -> None:
    """Refuse tensors of a run that are none of the network's, and no adapters of it."""
    known = {name for one in stages for name in (one.weight_name, one.bias_name)}
    known |= {one.title + kind for one in stages for kind in (".lora_a", ".lora_b", FOLDED_WEIGHT, FOLDED_BIAS)}
    if unknown := sorted(names - known):
        sparse = ": weights that sparse-zo has split are not read again" if run.method == "sparse-zo" else ""
        raise UserError(f"{run.path} has {unknown[0]}, which is no tensor of this network{sparse}")


def _refuse_damaged(run: Run, network: TunedNetwork, tensors: Mapping[str, NDArray[np.generic]], skips: bool) -> None:
    """Refuse tensors of a run that are not finite, of another shape than the network's, or without their other half."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    outputs = network.network.stages[-1].biases if skips else None
    for stage, own, before in zip(network.network.stages, network.stages, network.base, strict=True):
        weight, bias = own.title + FOLDED_WEIGHT, own.title + FOLDED_BIAS
        a, b = f"{own.title}.lora_a", f"{own.title}.lora_b"
        for first, second in ((weight, bias), (a, b)):
            if (first in tensors) != (second in tensors):
                raise UserError(f"{run.path} has one of {first} and {second}: save both")
        rank = tensors[a].shape[0] if a in tensors and tensors[a].ndim else None
        shapes[own.bias_name] = shapes[bias] = before.bias.shape
        shapes[weight], shapes[a], shapes[b] = before.weight.shape, (rank, stage.inputs), (outputs, rank)
    shapes |= {name: tuple(tensor.shape) for name, tensor in network.state.items()}
    for name, values in tensors.items():
        want = shapes.get(name, values.shape)
        if len(want) != values.ndim or any(
            pair[0] not in (None, pair[1]) for pair in zip(want, values.shape, strict=True)
        ):
            raise UserError(f"{run.path}: {name} is {values.shape}, the network's is {want}")
        if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise UserError(f"{run.path}: {name} is {values.dtype} with NaN or infinity, or no numbers: tune again")


def _parameters(
    stages: Sequence[StageTensors],
    base: Parameters,
    state: Mapping[str, Tensor],
    tensors: Mapping[str, NDArray[np.generic]],
    integers: bool,
) -> Parameters:
    """Folded parameters of all stages after tuning."""
    found, now = [], {**state, **tensors_of(tensors)}
    for own, before in zip(stages, base, strict=True):
        if (name := own.title + FOLDED_WEIGHT) in tensors:
            pair = tensors[name], tensors[own.title + FOLDED_BIAS]
            found.append(StageParameters(*(np.asarray(one, np.float64) for one in pair)))
        elif not own.norm:
            weight, bias = before.weight, np.asarray(tensors.get(own.bias_name, before.bias), np.float64)
            if own.weight_name in tensors:
                weight = own.taken(np.asarray(tensors[own.weight_name], np.float64))
            found.append(StageParameters(weight, bias.reshape(-1)))
        else:
            after = own.folded(now)
            found.append(values_of(Converter().stages((after,)))[0] if integers else after)
    return tuple(found)


def _integers(one: StageParameters) -> tuple[Integers, Integers]:
    """Integers with 12 fraction bits of any size."""
    weight, bias = (np.rint(values * 2**Q4_12.fraction).astype(np.int64) for values in (one.weight, one.bias))
    return weight, bias


def _added(frozen: tuple[Integers, Integers], tuned: tuple[Integers, Integers], what: Tuned) -> list[Integers]:
    """Part that was added to the last layer, (classes, inputs + 1) or (classes, 1) in two parts."""
    weight, bias = (after - before for before, after in zip(frozen, tuned, strict=True))
    return [*([weight] if what == "layer" else []), bias[:, None]]
