"""PeZO and Gaussian generators in a whole core: resources, cycles of a step, accuracy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ....boards.estimate.estimate import estimate_spec
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.datasets.tasks import task_of
from ....golden.importers.layers.folding import folded
from ....golden.models.text import preset
from ....golden.rng.gaussian_array import GaussianArraySpec
from ....golden.rng.perturbation import POSITIONS
from ....golden.settings import build
from ....golden.train.pretrain import pretrained, pretraining_defaults
from ....golden.train.zo.integer import IntegerZerothOrder
from ....golden.train.zo.methods import zo_defaults
from ....golden.train.zo.schedule import Schedule
from ....sim.cores.zotrain.measured_jobs import step_cycles
from ...tables.options import Options, Rows
from ...tables.trials import kept_trials, mean_and_deviation

DESIGNS = {
    "PeZO on the fly, 8 bits": (),
    "PeZO on the fly, 14 bits": ("generator.scale.urng.bits=14",),
    "PeZO pool, 33 a cycle": ("generator.strategy=pool", "generator.pool.p=33", "generator.pool.size=16863"),
    "Gaussian, tree": ("gaussian=tree",),
    "Gaussian, select": ("gaussian=select",),
    "Gaussian, sum": ("gaussian=sum",),
}
"""Settings of `ZotrainSpec` by name of the row."""
FORMS = ("tree", "select", "sum")
BATCH = 20
PRESET = "small"
TIMES = defaultdict(lambda: "some minutes each", small="most of an hour")
"""Text on the time that the table without seeds takes, by preset, on two processor cores; most of it is Yosys."""

_NETWORK = "digits"
_RESOURCES = ("lut", "ff", "bram36", "uram", "dsp")


def pezo_core(options: Options) -> Rows:
    """Table of whole cores; with `options.seeds` also accuracy on drifted digits.

    Returns
    -------
    dict
        ``rows``: for each core resources, LUT and FF of the generator alone, cycles of a step and, with seeds, the
        percentage of held-out digits correct before and after; ``notes``.
    """
    chosen = options.preset or PRESET
    specs = {name: _core(settings, chosen) for name, settings in DESIGNS.items()}
    simulations = len(specs) + 1 - len(FORMS)
    options.announce(f"{len(specs)} cores to estimate and {simulations} to simulate, {TIMES[chosen]}; each is kept")
    one_by_one = replace(options, processes=1)
    estimates = kept_trials(_estimates, {name: (spec,) for name, spec in specs.items()}, one_by_one, "cores estimated")
    # Gaussian generators of different forms differ only in the logic between registers
    simulated = {name: _with_form(spec, "sum", *FORMS) for name, spec in specs.items()}
    cycles = kept_trials(_cycles, {spec: (spec,) for spec in simulated.values()}, one_by_one, "cores simulated")
    rows = []
    for name, (whole, generator) in estimates.items():
        rows.append(
            {
                "core": name,
                **{resource: whole[resource] for resource in _RESOURCES},
                "generator lut": generator["lut"],
                "generator ff": generator["ff"],
                "generator % of lut": round(100 * generator["lut"] / whole["lut"], 1),
                "cycles a step": cycles[simulated[name]],
            }
        )
    network = next(iter(specs.values())).network
    notes = [
        "resources: open synthesis with the packing estimate of docs/estimate.md, not Vivado; generator: alone, with "
        "load and replay",
        f"cycles: measured on the compiled core, bit-exact, {BATCH} samples a step; of the forms of Gaussian numbers, "
        "which differ in logic alone, sum was simulated for all",
        "Gaussian: a generator for each multiplier, so that each parameter has a delta of its own",
    ]
    if options.seeds:
        steps = options.steps or zo_defaults(_NETWORK).steps
        for row, accuracies in zip(rows, _accuracies(specs, steps, options), strict=True):
            row |= accuracies
        notes.append(
            f"before, after: held-out {_NETWORK} right (%), drift camera, integer job on this array, {steps} steps of "
            f"{BATCH}, rate {zo_defaults(_NETWORK).rate:g} over the numbers' variance, {options.seeds} seeds"
        )
    return {"title": f"PeZO and Gaussian generators in a whole core: {network}, {chosen}", "rows": rows, "notes": notes}


def _with_form(spec: ZotrainSpec, form: Literal["tree", "sum"], *forms: str) -> ZotrainSpec:
    """The core with this form of Gaussian generator, if it has one of `forms`."""
    return replace(spec, gaussian=form) if spec.gaussian in forms else spec


def _core(settings: tuple[str, ...], chosen: str) -> ZotrainSpec:
    spec = build(ZotrainSpec, settings, chosen)
    assert isinstance(spec, ZotrainSpec)
    return spec


def _estimates(spec: ZotrainSpec) -> tuple[dict[str, float], dict[str, float]]:
    return estimate_spec(spec).resources, estimate_spec(spec.source).resources


def _cycles(spec: ZotrainSpec) -> int:
    comparison = step_cycles(spec, BATCH)
    assert not comparison.mismatches, f"{spec} is not bit-exact"
    return comparison.cycles


def _accuracies(specs: dict[str, ZotrainSpec], steps: int, options: Options) -> list[dict[str, Any]]:
    seeds = range(options.seeds or 0)
    tuned, first = [_with_form(spec, "tree", "select") for spec in specs.values()], dict[ZotrainSpec, str]()
    for name, spec in zip(specs, tuned, strict=True):
        first.setdefault(spec, name)  # select and tree generate the same numbers
    arguments = {(name, seed): (spec, seed, steps) for spec, name in first.items() for seed in seeds}
    fractions = kept_trials(_trial, arguments, options)
    rows = []
    for spec in tuned:
        before, after = zip(*(fractions[first[spec], seed] for seed in seeds), strict=True)
        tuned_to = mean_and_deviation(after)
        start = mean_and_deviation(before)["mean"]
        rows.append({"before": start, "after": tuned_to["mean"], "deviation": tuned_to["deviation"]})
    return rows


def _trial(spec: ZotrainSpec, seed: int, steps: int) -> tuple[float, float]:
    """Fractions correct before and after; the rate is divided by the variance of the perturbations."""
    network, task = preset(_NETWORK), task_of(_NETWORK, drift="camera", seed=seed)
    source = replace(spec, network=_NETWORK).source
    module, _ = pretrained(network, task.pretrain, pretraining_defaults(_NETWORK, seed))
    sigma = source.sigma if isinstance(source, GaussianArraySpec) else 1.0
    run = IntegerZerothOrder(
        network,
        folded(network, module),
        source,
        task.tune,
        Schedule(steps, BATCH, seed),
        zo_defaults(_NETWORK).rate / sigma**2,
        position=int(np.random.default_rng([seed, 4]).integers(min(source.period, POSITIONS // 2))),
        lanes=spec.lanes,
        columns=spec.columns,
    )
    before = run.accuracy(task.test)
    run.run()
    return before, run.accuracy(task.test)
