"""Trials of zeroth-order fine-tuning of a transformer on few-shot text, and PeZO's tables 3 and 4 from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...golden.errors import UserError
from ...golden.train.text.classifier import TextClassifier, default_folder
from ...golden.train.text.objective import TextObjective
from ...golden.train.text.tasks import generic_text, text_task
from ...golden.train.zo.finetune import FineTuning, ZoSettings
from ...golden.train.zo.methods import zo_defaults
from ...golden.train.zo.schedule import Schedule
from .options import Options, Rows
from .trials import kept_trials, mean_and_deviation

SEEDS = 3
WINDOW = 50
"""Steps whose losses are averaged to a point of a curve."""


@dataclass(frozen=True)
class Way:
    """Settings of a trial, see `ZoSettings`; the default rate where none is given."""

    method: str
    generator: str | None = None
    parameters: tuple[str, ...] = ()
    mask: str = "generic"
    rate: float | None = None


@dataclass(frozen=True)
class Outcome:
    """Result of a trial: fractions right, and the mean loss of each window of steps."""

    before: float
    after: float
    curve: tuple[float, ...]
    collapsed: bool

    @property
    def loss(self) -> float:
        """Loss of the last window."""
        return self.curve[-1] if self.curve else float("nan")


Found = dict[tuple[str, int, Way, int], Outcome]
"""Outcomes by task, shots, way and seed."""


def trials(cases: Iterable[tuple[str, int, Way]], options: Options) -> Found:
    """Run each case with every seed."""
    folder = options.model or default_folder()
    usual = zo_defaults("transformer")
    steps, rate = options.steps or usual.steps, options.rate or usual.rate
    keys = [(*case, seed) for case in cases for seed in range(options.seeds or SEEDS)]
    for task, shots, seed in dict.fromkeys((task, shots, seed) for task, shots, _, seed in keys):
        text_task(task, options.data_dir, shots, seed)  # a missing file is found here, not in a process of its own
    rates = {way: way.rate or (usual.sparse_rate if way.method == "sparse-zo" else rate) for _, _, way, _ in keys}
    arguments = {key: (*key, steps, rates[key[2]], options.data_dir, folder) for key in keys}
    return kept_trials(_trial, arguments, options)


def _trial(
    task: str, shots: int, way: Way, seed: int, steps: int, rate: float, data_dir: Path, folder: Path
) -> Outcome:
    texts = text_task(task, data_dir, shots, seed)
    classifier = TextClassifier(folder, texts.prompts, "bfloat16")
    classifier.freeze_words()
    objective = TextObjective(classifier, texts, generic_text(data_dir))
    settings = ZoSettings(
        way.method,
        rate,
        schedule=Schedule(steps, zo_defaults("transformer").batch, seed),
        generator=way.generator,
        parameters=way.parameters,
        engine="float",
        mask=way.mask,
    )
    tuning = FineTuning(objective, settings)
    collapsed = False
    try:
        tuning.run()
    except UserError:  # the loss is no number any more; the weights are those of the step before
        collapsed = True
        tuning.curve.append((len(tuning.losses), objective.accuracy()))
    return Outcome(tuning.curve[0][1], tuning.curve[-1][1], _windows(tuning.losses), collapsed)


def _windows(losses: list[float]) -> tuple[float, ...]:
    return tuple(float(np.mean(losses[at : at + WINDOW])) for at in range(0, len(losses), WINDOW))


def row_of(found: Found, task: str, shots: int, way: Way, reference: Way | None = None) -> dict[str, Any]:
    """Columns of a case: accuracy before and after, loss, and how its curve lies to that of another way.

    ``curve inside %`` is the share of the curve's points, each the mean over seeds, that lie between the least and the
    largest of the other way's seeds.
    """
    own = [one for key, one in found.items() if key[:3] == (task, shots, way)]
    mean, deviation = mean_and_deviation(one.after for one in own)
    start, _ = mean_and_deviation(one.before for one in own)
    collapsed = sum(one.collapsed for one in own)
    row: dict[str, Any] = {
        "before": start,
        "after": mean,
        "deviation": deviation,
        "gain": round(mean - start, 2),
        "loss": None if collapsed else round(float(np.mean([one.loss for one in own])), 3),
        "collapsed": collapsed,
    }
    if reference is not None:
        others = [one.curve for key, one in found.items() if key[:3] == (task, shots, reference)]
        row["curve inside %"] = None if collapsed else _inside([one.curve for one in own], others)
    return row


def curves_of(found: Found, name: dict[Way, str]) -> dict[str, dict[str, list[float]]]:
    """Mean curves over seeds, by task with shots, and by way; a way that collapsed has none."""
    groups: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for (task, shots, way, _), one in found.items():
        if not one.collapsed:
            groups.setdefault((f"{task}, k = {shots}", name[way]), []).append(one.curve)
    curves: dict[str, dict[str, list[float]]] = {}
    for (panel, way_name), points in groups.items():
        curves.setdefault(panel, {})[way_name] = [round(float(one), 4) for one in np.mean(points, axis=0)]
    return curves


def _inside(own: list[tuple[float, ...]], others: list[tuple[float, ...]]) -> float:
    points = np.mean(own, axis=0)
    low, high = np.min(others, axis=0), np.max(others, axis=0)
    return round(100 * float(np.mean((points >= low) & (points <= high))), 1)


STAND_IN = (
    "here: MiniLM (22.6 million parameters, of which 10.8 million are tuned: word embeddings are frozen) with prompts "
    "as its head stands in for the paper's models; products in bfloat16, weights and losses in float32",
    f"loss: mean of the last {WINDOW} steps, each on its own samples; deviation over seeds, which change split, "
    "samples, order and perturbations",
)


# -- table 3 -----------------------------------------------------------------------------------------------------------

MEZO = Way("mezo")
_DISTRIBUTIONS = {
    MEZO: ("Gaussian", 90.4, 93.1),
    Way("mezo", "rademacher"): ("Rademacher", 51.9, 50.5),
    Way("mezo", "integers"): ("uniform, integers of 8 bits", 51.2, 49.5),
    Way("mezo", "uniform"): ("uniform in [-1, 1)", None, None),
    Way("pezo-pool"): ("pool", 90.7, 92.9),
    Way("pezo-otf"): ("on the fly, 8 bits", None, None),
}


def pezo_3(options: Options) -> Rows:
    """Table 3: distributions of the perturbation, scaled or not."""
    shots = options.shots or 16
    tasks = options.tasks or ("sst-2", "trec")
    found = trials([(task, shots, way) for task in tasks for way in _DISTRIBUTIONS], options)
    rows = [
        {"task": task, "k": shots, "perturbation": name}
        | {"paper, SST-2": {16: small, 256: large}.get(shots) if task == "sst-2" else None}
        | row_of(found, task, shots, way, MEZO)
        for task in tasks
        for way, (name, small, large) in _DISTRIBUTIONS.items()
    ]
    return {
        "title": "PeZO, table 3: held-out sentences right (%) by distribution of the perturbation",
        "rows": rows,
        "curves": curves_of(found, {way: name for way, (name, *_) in _DISTRIBUTIONS.items()}),
        "notes": [
            "paper: RoBERTa-large; its row 'ours' stands beside the pool; it does not state the width of its uniform "
            "numbers",
            *STAND_IN,
            "curve inside %: points of the mean loss curve within the least and the largest of Gaussian's seeds",
        ],
    }


# -- table 4 -----------------------------------------------------------------------------------------------------------

_METHODS = {MEZO: "MeZO", Way("pezo-pool"): "PeZO, pool", Way("pezo-otf"): "PeZO, on the fly"}
_PAPER_4 = {
    ("sst-2", 16): (90.4, 90.7, 90.9),
    ("sst-5", 16): (45.3, 44.7, 44.8),
    ("trec", 16): (73.0, 72.0, 76.2),
    ("sst-2", 256): (93.1, 92.9, 91.9),
    ("sst-5", 256): (50.0, 49.4, 48.3),
    ("trec", 256): (90.8, 89.8, 84.2),
}


def pezo_4(options: Options) -> Rows:
    """Table 4: PeZO's two strategies beside MeZO."""
    shots = options.shots or 16
    tasks = options.tasks or ("sst-2", "sst-5", "trec")
    found = trials([(task, shots, way) for task in tasks for way in _METHODS], options)
    rows = []
    for task in tasks:
        papers = _PAPER_4.get((task, shots), (None,) * len(_METHODS))
        for (way, name), paper in zip(_METHODS.items(), papers, strict=True):
            rows.append(
                {"task": task, "k": shots, "method": name, "paper": paper} | row_of(found, task, shots, way, MEZO)
            )
    mean = {name: np.mean([row["after"] for row in rows if row["method"] == name]) for name in _METHODS.values()}
    return {
        "title": "PeZO, table 4: held-out sentences right (%)",
        "rows": rows,
        "curves": curves_of(found, _METHODS),
        "notes": [
            "on average " + ", ".join(f"{name} {value:.2f}" for name, value in mean.items()),
            "paper: RoBERTa-large, 5 seeds",
            *STAND_IN,
            "curve inside %: points of the mean loss curve within the least and the largest of MeZO's seeds",
        ],
    }
