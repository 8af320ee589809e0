"""`fabtune tune`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ....golden.errors import UserError
from ....golden.train.adapters.methods import DEFAULT, METHODS
from ...display import show_result
from ...options import (
    EPOCHS,
    FILE,
    SEED,
    STEPS,
    CoreOption,
    SectionedCommand,
    as_json,
    option,
    refuse_options,
    refuse_other_methods,
    section,
    shots,
    start,
    transformer_options,
)

if TYPE_CHECKING:
    from ...tuning.tuning import Tuning

ADAPTERS = tuple(reversed(METHODS))
ZEROTH_ORDER = ("mezo", "pezo-pool", "pezo-otf", "sparse-zo")
SPARSE = ("sparse-zo",)
"""Methods by kind; the help text needs the names before any large import."""


@click.command(cls=SectionedCommand, short_help="Fine-tune a network, or a transformer on few sentences.")
@section(
    "Method, samples and network",
    option("--method", default=DEFAULT, show_default=True, metavar="NAME", help="One of those named below."),
    start,
)
@section(
    "Every method",
    option(
        "--engine",
        metavar="golden|float|rtl|golden-core",
        help="Integers, the default where there are any; float32; a core, or its model, behind the integers.",
    ),
    option("--batch", type=click.IntRange(1), help="Samples of a batch; by default 20, of a transformer 16."),
    option("--rate", type=float, help="Learning rate on the mean of a batch; by default one that suits."),
    option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers."),
)
@section(
    f"Gradients and adapters: {', '.join(ADAPTERS)}",
    option("--epochs", type=EPOCHS, help="Epochs of fine-tuning; by default the paper's."),
    option("--stop-at", type=float, metavar="LOSS", help="End with the first epoch whose mean loss is at most this."),
    option(
        "--validate",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="Share of the samples that is not learnt from: its loss is measured after each epoch, and decides an end.",
    ),
    option(
        "--patience",
        type=click.IntRange(0),
        default=0,
        metavar="EPOCHS",
        help="End when the loss has not fallen below its smallest in so many epochs; by default never.",
    ),
    option(
        "--schedule", default="constant", show_default=True, metavar="NAME", help="linear, cosine, step:EPOCHS:FACTOR."
    ),
    option("--rank", type=click.IntRange(1), default=4, show_default=True, help="Rank of the adapters."),
    option("--stochastic", is_flag=True, help="Round updates with random numbers of urng, not to nearest."),
    option("--pretrain-epochs", type=EPOCHS, help="Epochs of pre-training; by default the paper's."),
    option("--pretrain-rate", type=float, help="Learning rate of pre-training."),
    methods=ADAPTERS,
)
@section(
    f"Zeroth order: {', '.join(ZEROTH_ORDER)}",
    option("--steps", type=STEPS, help="Steps; by default a number that suits the model."),
    option("--eps", type=float, help="Length of a perturbation, by default 0.001; of a core 2**-10."),
    option("--queries", type=click.IntRange(1, 1 << 16), default=1, show_default=True, help="Perturbations of a step."),
    option("--generator", metavar="NAME", help="gaussian, rademacher, uniform, integers, or a preset of pezo."),
    option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of a preset of pezo."),
    option("--delta", type=FILE, help="File for the sum of all updates: 32 kB for any network, see fabtune delta."),
    methods=ZEROTH_ORDER,
)
@section(
    "A core: --engine rtl or golden-core, or all parameters by zeroth order in integers",
    option(
        "--core",
        cls=CoreOption,
        names=("TUNER", "TRANSFORMER_TUNER"),
        help="Preset of the core that runs the method, by default small.",
    ),
    option(
        "--cut",
        type=click.IntRange(0),
        help="Zeroth order: first stage, or operation, of the part with perturbations of its own.",
        methods=ZEROTH_ORDER,
    ),
    option(
        "--p1",
        type=click.IntRange(1),
        help="Perturbations of the first part, or without a cut of all, in a step.",
        methods=ZEROTH_ORDER,
    ),
    option(
        "--p2",
        type=click.IntRange(1),
        help="Perturbations of the second part for each of those.",
        methods=ZEROTH_ORDER,
    ),
)
@section(
    "Sensitive weights: sparse-zo",
    option("--mask", default="generic", show_default=True, metavar="generic|task|random", help="Weights to tune."),
    option("--fraction", type=float, default=0.001, show_default=True, help="Fraction of the weights to tune."),
    option("--generic", type=FILE, help="Text for the generic mask, by default tinyshakespeare in --data-dir."),
    methods=SPARSE,
)
@section(
    "Zeroth order on text: --data sst-2, sst-5, trec, rte, mnli or csv:FOLDER, --model FOLDER or FILE.gguf",
    shots,
    option("--precision", default="float32", show_default=True, metavar="float32|bfloat16", help="Of --engine float."),
    transformer_options,
    option("--cache", metavar="exact|nf4", help="What is kept below --from-layer, by default exact."),
    methods=ZEROTH_ORDER,
)
@section(
    "Output",
    option("--output", "-o", type=FILE, help="File for what was tuned, by default in build/runs/tune-NUMBER."),
    option("--plot", type=FILE, help="Loss and held-out accuracy: .png, .svg or .pdf."),
    option("--force", is_flag=True, help="Replace these files."),
    as_json,
)
def command(as_json: bool, **options: Any) -> None:
    """Fine-tune a network, or a transformer on a few sentences.

    With gradients and adapters, or with zeroth order and the hardware's perturbations; in float, in the hardware's
    integers, or in its RTL. An option without meaning for the method is refused.
    """
    from rich.console import Console

    from ...tuning.tuning import summary, tune

    kind = _kind_of(options["method"])
    refuse_other_methods(options["method"])
    for names, reason in kind.without_effect(options):
        refuse_options(names, reason)
    result = tune(kind(options), Console(stderr=True))
    if result["warning"]:
        click.echo(f"fabtune: warning: {result['warning']}", err=True)
    show_result(result, as_json, lambda: [summary(kind, result)])
    sys.exit(0 if result.get("bit_exact", True) else 1)


def _kind_of(method: str) -> type[Tuning]:
    from ...tuning.adapters import GradientTuning
    from ...tuning.zeroth_order import ZerothOrderTuning

    kinds: tuple[type[Tuning], ...] = GradientTuning, ZerothOrderTuning
    for kind in kinds:
        if method in kind.methods:
            return kind
    known = ", ".join(name for kind in kinds for name in kind.methods)
    raise UserError(f"there is no method {method!r}; there are: {known}")
