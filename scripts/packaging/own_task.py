"""The user's network, weights and samples as the task of a core's example, self-test and memory images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from ...boards.example.job import Example
from ...boards.example.package import Task
from ...boards.example.task import ExampleTask
from ...golden.block import Spec
from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.tasks import task_of
from ...golden.errors import UserError
from ...golden.fixed import Q4_12, Q8_16
from ...golden.importers.layers.folding import folded
from ...golden.importers.user_module import holds_network
from ...golden.models.text import NETWORKS
from ...golden.settings import build
from ...golden.train.conversion import Converter
from ...golden.train.text.tasks import is_text
from ..options import OF_TRANSFORMERS, given, kind_of, refuse_options, spec_of
from ..own_network import OwnNetwork, check_samples, core_spec
from ..start import default_drift
from .own_sentences import spec_and_sentences, takes_sentences

_OF_DATA = ("data_dir", "drift", "scale", "epochs", "steps", "batch", "rate", "seed", *OF_TRANSFORMERS)
"""Options without meaning if no samples are given."""


def spec_and_task(options: Mapping[str, Any]) -> tuple[Spec, Task | None]:
    """Spec of a block, and the task of its jobs if samples are given.

    ``options``, by name, are those of `block` and of `sample_options` or `task_options`; see `spec_of`. A `UserError`
    in the cases of `spec_of`, if network, weights and samples do not go together, or if an option needs another option.
    """
    block, settings, preset = (options[name] for name in ("block", "settings", "preset"))
    model, weights, shape, data = (options[name] for name in ("model", "weights", "shape", "data"))
    kind = kind_of(block)
    if takes_sentences(kind) and (data or model):
        return spec_and_sentences(options)
    if data is None:
        refuse_options((name for name in _OF_DATA if name in options), "no --data")
        if weights:
            raise UserError("--weights without --data: the jobs need samples, give --data npz:FILE, or no weights")
        return spec_of(block, settings, preset, model, shape=shape), None
    if not issubclass(kind, NetworkCoreSpec):
        raise UserError(f"{block} has no network: leave --data out")
    if is_text(data):
        raise UserError(f"--data {data} is a task of text, and {block} runs a network of layers: give npz:FILE")
    if flag := given(name for name in OF_TRANSFORMERS if name in options):
        raise UserError(f"{flag} belongs to a text task")
    name = model
    if not model:
        preset_spec = build(kind, settings, preset)
        assert isinstance(preset_spec, NetworkCoreSpec), "checked above"
        name = preset_spec.network
        if not weights:
            raise UserError(f"{name} has no weights of its own: give --weights FILE, or --model FILE.onnx")
        settings = tuple(setting for setting in settings if setting.partition("=")[0].strip() != "network")
    drift = options["drift"] or default_drift(data)
    samples = task_of(data, options["data_dir"], drift, options["seed"], options["scale"])
    known = shape or (None if holds_network(name) or not model or model in NETWORKS else samples.test.shape)
    torch.manual_seed(options["seed"])  # the user's function may draw weights: the same in every run
    user_network = OwnNetwork(name, weights, known)
    network, module = user_network.load()
    check_samples(network, samples)
    spec = core_spec(kind, user_network, settings, preset, samples.test.inputs.dtype == np.uint8)
    converter = Converter()
    frozen = converter.stages(folded(network, module))
    _warn(converter.clipped, f"parameters of {network.name}", f"{Q4_12}: train with weight decay, or rescale them")
    for split in (samples.tune, samples.test):
        converter.clipped = 0
        converter.samples(split)
        _warn(converter.clipped, f"values of {samples.name}", f"{Q8_16}: scale them with --scale")
    how = {name: options[name] for name in ("epochs", "steps", "batch", "rate", "seed") if name in options}
    # only the file's name: a package does not show the user's folders
    public_name = f"npz:{Path(data.removeprefix('npz:')).name}" if data.startswith("npz:") else data
    return spec, ExampleTask(public_name, network.name, frozen, samples.tune, samples.test, **how)


def _warn(clipped: int, what: str, remedy: str) -> None:
    if clipped:
        click.echo(f"fabtune: warning: {clipped} {what} are clipped, outside {remedy}", err=True)


def job_facts(example: Example | None) -> dict[str, Any]:
    """Facts for ``--json`` about the job of a package: the user's samples, or a random self-test."""
    if example is None:
        return {"selftest": "random"}
    own = example.data.name
    of_network = isinstance(example.spec, NetworkCoreSpec)
    facts: dict[str, Any] = {"selftest": own} if of_network else {"selftest": "random", "example": own}
    regions = {name: region.size for name, region in example.memory.regions.items()}
    facts |= {"tuning": example.how, "tested": example.tested}
    facts |= {f"accuracy_{name}": getattr(example, name) / example.tested for name in ("before", "after")}
    return facts | {"memory": {"regions": regions, "together": example.memory.end}}


def job_lines(facts: Mapping[str, Any], of_network: bool = True) -> list[str]:
    """Lines about `job_facts`. For a random self-test of a core `of_network` they say how to use real data."""
    if "memory" not in facts:
        remedy = ": --weights and --data make it of your network and samples" if of_network else ""
        return [f"the self-test is random{remedy}"]
    before, after = (100 * facts[f"accuracy_{when}"] for when in ("before", "after"))
    regions = ", ".join(f"{name} {size:,}" for name, size in facts["memory"]["regions"].items())
    selftest = f"the self-test has the first samples of {facts['selftest']}, at most six"
    if "example" in facts:
        selftest = f"the self-test is random; the example has the sentences of {facts['example']}"
    return [
        f"golden: {before:.1f}% of {facts['tested']} right before, {after:.1f}% after; {facts['tuning']}",
        selftest,
        f"shared memory: {facts['memory']['together']:,} bytes: {regions}",
    ]
