"""`fabtune tune` on text in the hardware's integers: which job the options make, and what is said of its base."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ...golden.errors import UserError
from ...golden.train.sparse.masks import Mask
from ...golden.train.text.integer_tuning import Selection, SentenceTuning
from ...golden.train.text.objective import TextObjective
from ...golden.train.text.sentence_model import sentence_model
from ...golden.train.text.tasks import TextTask
from ...golden.train.zo.finetune import ZoSettings, mask_of
from ..options import given

IN_INTEGERS = ("base", "from_layer", "tuned", "cache")
"""Options of a transformer in integers."""


def refuse_other_engine(settings: ZoSettings) -> None:
    """Refuse options of the floats in integers, and those of the integers in floats.

    Raises
    ------
    UserError
        For the first that was given.
    """
    if settings.integers and (name := given(("precision",))):
        raise UserError(f"{name} belongs to --engine float: integers have formats of their own")
    if not settings.integers and (name := given(IN_INTEGERS)):
        raise UserError(f"{name} belongs to integers: --method pezo-otf, pezo-pool or sparse-zo, --engine golden")


def selection_of(options: Mapping[str, Any], settings: ZoSettings) -> Selection:
    """Make the choice of what is tuned.

    Raises
    ------
    UserError
        If options do not fit together.
    """
    if settings.sparse and (name := given(("from_layer", "tuned"))):
        raise UserError(f"{name} chooses tensors, and --method sparse-zo the weights with the largest gradients")
    if not options["from_layer"] and (name := given(("cache",))):
        raise UserError(f"{name} keeps what is below the first layer that is tuned: give --from-layer, 1 or above")
    chosen = {name: options[name] for name in IN_INTEGERS if options[name] is not None}
    return Selection(**chosen)


def sentence_job(
    options: Mapping[str, Any],
    task: TextTask,
    folder: Path,
    settings: ZoSettings,
    objective: Callable[[], TextObjective],
    masking: Callable[[int, int], object],
) -> SentenceTuning:
    """Prepare the job.

    Parameters
    ----------
    options : mapping
    task : TextTask
    folder : Path
        Of the model.
    settings : ZoSettings
    objective : callable
        Makes the model in floats, whose gradients choose sensitive weights.
    masking : callable
        See `FineTuning`.

    Raises
    ------
    UserError
        If the options do not fit together, or the folder has no such model.
    """
    selection = selection_of(options, settings)
    model = sentence_model(folder, task.prompts)
    mask: Mask | None = None
    if settings.sparse:
        with torch.enable_grad():
            mask = mask_of(objective(), settings, masking)
    return SentenceTuning(model, task, settings, selection, mask)


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Say how far the frozen base is from the floats, what of it is computed, and what did not fit."""
    errors = result["errors"]
    worst = max(errors, key=errors.__getitem__)
    yield (
        f"base {result['base']}: matrices up to {100 * errors[worst]:.2g} % off ({worst}), logits "
        f"{result['logits_error']:.2g}; loss before {result['loss_base']:.3f}, of the floats {result['loss_float']:.3f}"
    )
    if "cache" in result:
        yield (
            f"forward cache, {result['cache']}: {result['cache_bytes']:,} bytes; {100 * result['forward_work']:.1f} % "
            "of the products of a step from the second epoch on"
        )
    if result["saturated"]:
        yield "clipped: " + ", ".join(f"{count} of {place}" for place, count in result["saturated"].items())
    if result["cut_sentences"]:
        yield f"{result['cut_sentences']} sentences are longer than {result['most_tokens']} tokens, and were cut"
