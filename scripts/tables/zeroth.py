"""Trials of zeroth-order fine-tuning of a transformer on few-shot text, and PeZO's tables 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
"""Number of steps whose mean loss is one point of a curve."""


@dataclass(frozen=True)
class Way:
    """Settings of a trial, see `ZoSettings`; None for the default rate."""

    method: str
    generator: str | None = None
    parameters: tuple[str, ...] = ()
    mask: str = "generic"
    rate: float | None = None


@dataclass(frozen=True)
class Outcome:
    """Result of a trial: fractions correct, and the mean loss of each window of steps."""

    before: float
    after: float
    curve: tuple[float, ...]
    collapsed: bool

    @property
    def loss(self) -> float:
        return self.curve[-1] if self.curve else float("nan")


Found = dict[tuple[str, int, Way, int], Outcome]
"""Outcomes by task, shots, way and seed."""


def trials(cases: Iterable[tuple[str, int, Way]], options: Options) -> Found:
    """Run each case with every seed."""
    folder = options.model or default_folder()
    defaults = zo_defaults("transformer")
    steps, rate = options.steps or defaults.steps, options.rate or defaults.rate
    keys = [(*case, seed) for case in cases for seed in range(options.seeds or SEEDS)]
    for task, shots, seed in dict.fromkeys((task, shots, seed) for task, shots, _, seed in keys):
        text_task(task, options.data_dir, shots, seed)  # report a missing file before processes start
    rates = {way: way.rate or (defaults.sparse_rate if way.method == "sparse-zo" else rate) for _, _, way, _ in keys}
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
    except UserError:  # the loss is not finite; the weights are from the previous step
        collapsed = True
        tuning.curve.append((len(tuning.losses), objective.accuracy()))
    return Outcome(tuning.curve[0][1], tuning.curve[-1][1], _windows(tuning.losses), collapsed)


def _windows(losses: list[float]) -> tuple[float, ...]:
    return tuple(float(np.mean(losses[start : start + WINDOW])) for start in range(0, len(losses), WINDOW))


def row_of(outcomes: Found, task: str, shots: int, way: Way, reference: Way | None = None) -> dict[str, Any]:
    """Columns of a case: accuracy before and after, loss, and a comparison of its loss curve with another way's curve.

    ``curve inside %`` is the share of points of the mean curve that lie between the smallest and the largest value over
    the other way's seeds.
    """
    case_outcomes = [outcome for key, outcome in outcomes.items() if key[:3] == (task, shots, way)]
    after = mean_and_deviation(outcome.after for outcome in case_outcomes)
    start = mean_and_deviation(outcome.before for outcome in case_outcomes)["mean"]
    collapsed = sum(outcome.collapsed for outcome in case_outcomes)
    row: dict[str, Any] = {
        "before": start,
        "after": after["mean"],
        "deviation": after["deviation"],
        "gain": round(after["mean"] - start, 2),
        "loss": None if collapsed else round(float(np.mean([outcome.loss for outcome in case_outcomes])), 3),
        "collapsed": collapsed,
    }
    if reference is not None:
        others = [outcome.curve for key, outcome in outcomes.items() if key[:3] == (task, shots, reference)]
        row["curve inside %"] = None if collapsed else _inside([outcome.curve for outcome in case_outcomes], others)
    return row


def curves_of(outcomes: Found, name: dict[Way, str]) -> dict[str, dict[str, list[float]]]:
    """Mean loss curves over seeds, by task with shots, then by way; collapsed trials are left out."""
    groups: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for (task, shots, way, _), outcome in outcomes.items():
        if not outcome.collapsed:
            groups.setdefault((f"{task}, k = {shots}", name[way]), []).append(outcome.curve)
    curves: dict[str, dict[str, list[float]]] = {}
    for (panel, way_name), points in groups.items():
        curves.setdefault(panel, {})[way_name] = [round(float(outcome), 4) for outcome in np.mean(points, axis=0)]
    return curves


def _inside(curves: list[tuple[float, ...]], others: list[tuple[float, ...]]) -> float:
    points = np.mean(curves, axis=0)
    low, high = np.min(others, axis=0), np.max(others, axis=0)
    return round(100 * float(np.mean((points >= low) & (points <= high))), 1)


def compared(
    options: Options,
    tasks: tuple[str, ...],
    ways: dict[Way, str],
    column: str,
    reference: Way | None = None,
    paper: Callable[[str, int, Way], dict[str, Any]] = lambda *_: {},
) -> Rows:
    """``rows`` and ``curves`` of several ways on the options' tasks, by default `tasks`; `column` names the ways.

    `paper` gives the paper's columns of a task, number of shots and way; for `reference` see `row_of`.
    """
    shots = options.shots or 16
    cases = [(task, shots, way) for task in options.tasks or tasks for way in ways]
    outcomes = trials(cases, options)
    rows = [
        {"task": case[0], "k": shots, column: ways[case[2]]} | paper(*case) | row_of(outcomes, *case, reference)
        for case in cases
    ]
    return {"rows": rows, "curves": curves_of(outcomes, ways)}


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

    def paper(task: str, shots: int, way: Way) -> dict[str, Any]:
        _, small, large = _DISTRIBUTIONS[way]
        return {"paper, SST-2": {16: small, 256: large}.get(shots) if task == "sst-2" else None}

    names = {way: name for way, (name, *_) in _DISTRIBUTIONS.items()}
    return {
        "title": "PeZO, table 3: held-out sentences right (%) by distribution of the perturbation",
        **compared(options, ("sst-2", "trec"), names, "perturbation", MEZO, paper),
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
    """Table 4: PeZO's two strategies against MeZO."""

    def paper(task: str, shots: int, way: Way) -> dict[str, Any]:
        papers = _PAPER_4.get((task, shots), (None,) * len(_METHODS))
        return {"paper": dict(zip(_METHODS, papers, strict=True))[way]}

    table = compared(options, ("sst-2", "sst-5", "trec"), _METHODS, "method", MEZO, paper)
    after = {name: [row["after"] for row in table["rows"] if row["method"] == name] for name in _METHODS.values()}
    return {
        "title": "PeZO, table 4: held-out sentences right (%)",
        **table,
        "notes": [
            "on average " + ", ".join(f"{name} {np.mean(values):.2f}" for name, values in after.items()),
            "paper: RoBERTa-large, 5 seeds",
            *STAND_IN,
            "curve inside %: points of the mean loss curve within the least and the largest of MeZO's seeds",
        ],
    }
