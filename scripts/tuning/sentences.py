"""`fabtune tune` on text in the hardware's integers: the job from the options, and lines on the frozen base."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ...golden.errors import UserError
from ...golden.train.sparse.masks import Mask
from ...golden.train.text.integer_tuning import SentenceTuning
from ...golden.train.text.objective import TextObjective
from ...golden.train.text.sentence_model import SentenceModel, read_model, with_prompts, with_words
from ...golden.train.text.tasks import TextTask
from ...golden.train.zo.finetune import ZoSettings, mask_of
from ...golden.train.zo.transformer_tuning import Selection
from ..options import given

IN_INTEGERS = ("base", "from_layer", "tuned", "cache", "prompt")
"""Options of a transformer in integers."""
PROMPTS = ("label-words", "sentences")
GGUF = ".gguf"


def refuse_other_engine(options: Mapping[str, Any], settings: ZoSettings) -> None:
    """Refuse options and files of the float engine in integers, and of the integer engines in float.

    Raises
    ------
    UserError
        For the first such option.
    """
    if not (settings.integers and not settings.sparse) and Path(options["model"] or "").suffix == GGUF:
        raise UserError(
            f"--model {options['model']} is read in integers: --method pezo-otf or pezo-pool, --engine golden"
        )
    if settings.integers and (name := given(("precision",))):
        raise UserError(f"{name} belongs to --engine float: integers have formats of their own")
    refuse_in_floats(settings)


def refuse_in_floats(settings: ZoSettings) -> None:
    """Refuse options of the integer engines in float.

    Raises
    ------
    UserError
        For the first such option.
    """
    if not settings.integers and (name := given(IN_INTEGERS)):
        raise UserError(f"{name} belongs to integers: --method pezo-otf, pezo-pool or sparse-zo, --engine golden")


def selection_of(options: Mapping[str, Any], settings: ZoSettings) -> Selection:
    """Choice of the tuned tensors from the options.

    Raises
    ------
    UserError
        If options do not fit together.
    """
    if settings.sparse and (name := given(("from_layer", "tuned"))):
        raise UserError(f"{name} chooses tensors, and --method sparse-zo the weights with the largest gradients")
    if not options["from_layer"] and (name := given(("cache",))):
        raise UserError(f"{name} keeps what is below the first layer that is tuned: give --from-layer, 1 or above")
    chosen = {name: options[name] for name in IN_INTEGERS if name != "prompt" and options[name] is not None}
    return Selection(**chosen)


def worded(path: Path, task: TextTask, prompt: str | None, sparse: bool) -> SentenceModel:
    """Model of `read_model` with a head of label words or of prompts.

    `prompt` is "label-words" or "sentences"; by default label words, if model and task have them. `sparse` tuning needs
    prompts, as gradients of a classifier by prompts choose the sensitive weights.

    Raises
    ------
    UserError
        If the choice is unknown, or does not fit model, method or task.
    """
    if prompt not in (None, *PROMPTS):
        raise UserError(f"--prompt {prompt} is not one of {', '.join(PROMPTS)}")
    no_words = UserError(
        "sparse tuning chooses weights by a classifier's gradients, which takes no label words: give --prompt sentences"
    )
    if prompt == "label-words" and sparse:
        raise no_words
    if prompt == "label-words" and task.wording is None:
        raise UserError(f"{task.name} has no label words: write a file label-words.txt into its folder")
    model, tokenizer = read_model(path)
    wanted = prompt == "label-words" or (prompt is None and model.head is not None)
    if wanted and task.wording:
        if sparse:
            raise no_words
        return with_words(model, tokenizer, task.wording)
    return with_prompts(model, tokenizer, task.prompts)


def sentence_job(
    options: Mapping[str, Any],
    task: TextTask,
    path: Path,
    settings: ZoSettings,
    objective: Callable[[], TextObjective],
    array: tuple[int, int],
    masking: Callable[[int, int], object],
) -> SentenceTuning:
    """Fine-tuning job of a sentence classifier from a model's path, see `read_model`.

    `objective` makes the float model, whose gradients choose sensitive weights. `array` is lanes and columns of the
    core's array; for `masking` see `FineTuning`.

    Raises
    ------
    UserError
        If options do not fit together, or the model is missing.
    """
    selection = selection_of(options, settings)
    model = worded(path, task, options["prompt"], settings.sparse).calibrated(task.tune.sentences)
    mask: Mask | None = None
    if settings.sparse:
        with torch.enable_grad():
            mask = mask_of(objective(), settings, masking)
    return SentenceTuning(model, task, settings, selection, mask, *array)


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Lines on how far the frozen base is from the floats, on cached work, and on clipped or cut inputs."""
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
    if result.get("cut_sentences"):
        yield f"{result['cut_sentences']} sentences are longer than {result['most_tokens']} tokens, and were cut"
