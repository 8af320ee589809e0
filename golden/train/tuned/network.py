"""A tuned network ready for export: folded parameters and adapters, in float and in golden's integers."""

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
from ...models.layers import Linear
from ...models.module import module_of
from ...models.names import unused
from ...models.network import Network, deployed
from ..adapters.methods import METHODS
from ..conversion import Converter, values_of
from .run_file import Run, tensors_of


@dataclass(frozen=True, eq=False)
class LowRankAdapter:
    """Adapter: B (outputs, rank) times A (rank, inputs) times the flattened input of a stage.

    If it `skips` it is added to the logits, else to the output of the stage's layer, before residual and activation.
    """

    stage: int
    a: Floats64
    b: Floats64
    skips: bool


@dataclass(frozen=True, eq=False)
class TunedNetwork:
    """Network before or after fine-tuning.

    Parameters
    ----------
    network : Network
        Without batch norm.
    state : dict of str to Tensor
        The user's tensors before tuning.
    base, parameters : tuple of StageParameters
        Before and after tuning, batch norm folded; for integers their values.
    tuned_layer : "layer", "biases" or None
        Part of the last layer that an integer job has tuned as adapters, see `lora.last_layer`.
    integers : bool
        True if the values are the hardware's integers.
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
        """Network of a run, or without a run the network before tuning; `module` has the weights before tuning.

        Raises
        ------
        UserError
            If the run started from other weights.
        """
        float_module = described(network, module)
        stages, state, base = (
            stage_tensors(network, float_module),
            user_state(module, float_module),
            folded(network, float_module),
        )
        untuned = cls(deployed(network), stages, state, base, base)
        if run is None:
            return untuned
        run.check_base(stages, state)
        if run.integers:
            base = values_of(Converter().stages(base))
        tensors, method = run.applied(state), METHODS.get(run.method)
        _refuse_unknown(run, stages, {*tensors} - {*state})
        skips = method is None or method.ends_in_logits
        _refuse_damaged(run, untuned, tensors, skips)
        parameters = _parameters(stages, base, state, tensors, run.integers)
        adapters = []
        for number, stage in enumerate(stages):
            if f"{stage.title}.lora_a" in tensors:
                a, b = (np.asarray(tensors[f"{stage.title}.lora_{name}"], np.float64) for name in "ab")
                if not skips:
                    scale = stage.scale(state)
                    b = b * np.repeat(scale, len(b) // len(scale))[:, None]
                adapters.append(LowRankAdapter(number, a, b, skips))
        layer = method.last_layer if method is not None and run.integers else None
        return replace(
            untuned,
            base=base,
            parameters=parameters,
            adapters=tuple(adapters),
            tuned_layer=layer,
            integers=run.integers,
        )

    def merged(self) -> TunedNetwork:
        """The network with adapters added to the weights of a parallel layer, if it is fully connected or the last."""
        parameters, unmerged, last = list(self.parameters), [], len(self.parameters) - 1
        for adapter in self.adapters:
            fully = isinstance(self.network.stages[adapter.stage].layer, Linear)
            if fully and (adapter.stage == last or not adapter.skips):
                before = parameters[adapter.stage]
                parameters[adapter.stage] = replace(before, weight=before.weight + adapter.b @ adapter.a)
            else:
                unmerged.append(adapter)
        return replace(self, parameters=tuple(parameters), adapters=tuple(unmerged))

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Whole state of the user's module, by its own names.

        Raises
        ------
        UserError
            If an adapter cannot be merged into a layer, or a layer lacks a bias for a tuned one.
        """
        merged = self.merged()
        if merged.adapters:
            titles = ", ".join(self.stages[adapter.stage].title for adapter in merged.adapters)
            raise UserError(
                f"the adapters that read {titles} are part of no layer's weights: a program has them, -o FILE.pt2"
            )
        changed = returned(self.stages, merged.parameters, self.state)
        if missing := [name for name in changed if name not in self.state]:
            raise UserError(
                f"your network has no {missing[0]}, and the tuned one is not 0: a program has it, -o FILE.pt2"
            )
        return {**{name: tensor.cpu().numpy() for name, tensor in self.state.items()}, **changed}

    def module(self) -> TunedModule:
        """PyTorch module with folded parameters in float32, adapters merged where possible."""
        return TunedModule(self.merged())

    def job(self, rank: int = 1) -> Job:
        """Golden's integer job with the logits of the tuned network.

        For a tuned last layer, `rank` is the number of classes per adapter, as in the generated core.

        Raises
        ------
        UserError
            If the network has adapters without integer support.
        """
        network, last = self.network, self.network.stages[-1]
        if self.tuned_layer:
            adapters = untuned_layer(last_layer_sizes(last, self.tuned_layer, rank))
            frozen, tuned = (_integers(stages[-1]) for stages in (self.base, self.parameters))
            added = np.concatenate(_added(frozen, tuned, self.tuned_layer), axis=1)
            for number, values in enumerate(added):
                adapters.a[number // rank][:, number % rank] = values
            return Job(network, Converter().stages(self.base), adapters, rate=1)
        source = self if all(adapter.skips for adapter in self.adapters) else self.merged()
        if not all(adapter.skips for adapter in source.adapters):
            raise UserError("golden's integers have no adapters beside convolutions: take --engine float")
        count = len(source.adapters) or 1
        rank = len(source.adapters[0].a) if source.adapters else rank
        sizes = AdapterSizes(tuple(stage.inputs for stage in network.stages[-count:]), network.classes, rank)
        a = [adapter.a for adapter in source.adapters] or [np.zeros((rank, last.inputs))]
        b = [adapter.b for adapter in source.adapters] or [np.zeros((network.classes, rank))]
        return Job(network, Converter().stages(source.parameters), Adapters.of(sizes, a, b), rate=1)


class TunedModule(nn.Module):
    """Network with folded parameters and the unmerged adapters, for PyTorch.

    Its state has the user's names: TITLE.weight, TITLE.bias, TITLE.lora_a and TITLE.lora_b.
    """

    def __init__(self, tuned: TunedNetwork) -> None:
        super().__init__()
        network = tuned.network
        with torch.device("meta"):
            plain = module_of(network)
        plain.to_empty(device="cpu")
        weighted = network.weighted
        self._reads, self._layers = network.reads, list(plain)
        self._beside: dict[int, nn.Module] = {}
        self._skips: list[nn.Module] = []
        self._sources: list[int] = []
        for index, stage, stage_parameters in zip(weighted, tuned.stages, tuned.parameters, strict=True):
            layer = plain[index]
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(stage_parameters.weight))
                layer.bias.copy_(torch.from_numpy(stage_parameters.bias))
            _place(self, stage.title, layer)
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
        """Logits, (n, classes)."""
        values = [x]
        for number, (layer, read) in enumerate(zip(self._layers, self._reads, strict=True)):
            inputs = [values[source_number + 1] for source_number in read]
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
    """Add a layer below a module under a name with dots or slashes; invalid or used parts of the name are changed."""
    # a program of torch.export writes names as Python does: normalised
    *path, name = [part for part in re.split("[./]", normalize("NFKC", title)) if part] or ["layer"]
    for part in path:
        containers = {key for key, child in root._modules.items() if type(child) is nn.Module}
        part = unused(part, {*dir(root), *kwlist} - containers)
        if part not in containers:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    root.add_module(unused(name, {*dir(root), *kwlist}), layer)


def _refuse_unknown(run: Run, stages: Sequence[StageTensors], names: set[str]) -> None:
    """Refuse tensors of a run that are neither tensors nor adapters of the network."""
    known = {name for stage in stages for name in (stage.weight_name, stage.bias_name)}
    known |= {stage.title + kind for stage in stages for kind in (".lora_a", ".lora_b", FOLDED_WEIGHT, FOLDED_BIAS)}
    if unknown := sorted(names - known):
        sparse = ": weights that sparse-zo has split are not read again" if run.method == "sparse-zo" else ""
        raise UserError(f"{run.path} has {unknown[0]}, which is no tensor of this network{sparse}")


def _refuse_damaged(run: Run, network: TunedNetwork, tensors: Mapping[str, NDArray[np.generic]], skips: bool) -> None:
    """Refuse tensors of a run that are not finite, have a wrong shape, or lack their other half."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    outputs = network.network.stages[-1].biases if skips else None
    for stage, tensors_of_stage, before in zip(network.network.stages, network.stages, network.base, strict=True):
        weight, bias = tensors_of_stage.title + FOLDED_WEIGHT, tensors_of_stage.title + FOLDED_BIAS
        a, b = f"{tensors_of_stage.title}.lora_a", f"{tensors_of_stage.title}.lora_b"
        for first, second in ((weight, bias), (a, b)):
            if (first in tensors) != (second in tensors):
                raise UserError(f"{run.path} has one of {first} and {second}: save both")
        rank = tensors[a].shape[0] if a in tensors and tensors[a].ndim else None
        shapes[tensors_of_stage.bias_name] = shapes[bias] = before.bias.shape
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
    parameters, after_state = [], {**state, **tensors_of(tensors)}
    for stage, before in zip(stages, base, strict=True):
        if (name := stage.title + FOLDED_WEIGHT) in tensors:
            pair = tensors[name], tensors[stage.title + FOLDED_BIAS]
            parameters.append(StageParameters(*(np.asarray(values, np.float64) for values in pair)))
        elif not stage.norm:
            weight, bias = before.weight, np.asarray(tensors.get(stage.bias_name, before.bias), np.float64)
            if stage.weight_name in tensors:
                weight = stage.taken(np.asarray(tensors[stage.weight_name], np.float64))
            parameters.append(StageParameters(weight, bias.reshape(-1)))
        else:
            after = stage.folded(after_state)
            parameters.append(values_of(Converter().stages((after,)))[0] if integers else after)
    return tuple(parameters)


def _integers(stage: StageParameters) -> tuple[Integers, Integers]:
    """Integers with 12 fraction bits of any size."""
    weight, bias = (np.rint(values * 2**Q4_12.fraction).astype(np.int64) for values in (stage.weight, stage.bias))
    return weight, bias


def _added(frozen: tuple[Integers, Integers], tuned: tuple[Integers, Integers], what: Tuned) -> list[Integers]:
    """Update of the last layer in two parts, (classes, inputs) and (classes, 1); for biases the second alone."""
    weight, bias = (after - before for before, after in zip(frozen, tuned, strict=True))
    return [*([weight] if what == "layer" else []), bias[:, None]]
