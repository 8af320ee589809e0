"""The user's language model and sentences as the task of a core's example and memory images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...boards.example.sentence_task import SentenceTask
from ...golden.block import Spec
from ...golden.errors import UserError
from ...golden.settings import build
from ...golden.train.text.classifier import default_folder
from ...golden.train.text.integer_tuning import prompts_of, wording_of
from ...golden.train.text.sentence_model import SentenceModel, sentence_model
from ...golden.train.text.tasks import TEXT_TASKS, TextTask, is_text, text_task
from ...golden.train.zo.delta_file import Delta
from ...golden.train.zo.transformer_tuning import Selection
from ..imports.transformer import is_language_model
from ..options import given, kind_of, refuse_options
from ..tuning.saved_run import refuse_of_layers
from ..tuning.sentences import worded

_OF_RUN = ("prompt", "base", "from_layer", "tuned")
"""Options that a run's delta names."""
CSV = "csv:"


def takes_sentences(kind: type[Spec]) -> bool:
    """Whether a block runs transformers on sentences."""
    return kind.part("boards", "sentence_example", "sentence_example") is not None


def spec_and_sentences(options: Mapping[str, Any]) -> tuple[Spec, SentenceTask]:
    """Spec of a core that runs transformers, and the task of its jobs.

    ``options`` are those of `scripts.packaging.own_task`; `takes_sentences` must hold for the core.

    Raises
    ------
    UserError
        If options do not go together, the model or a file is missing, or the model has no head for the task.
    """
    block, data = options["block"], options["data"]
    if "prompt" not in options:
        raise UserError(f"the self-test of {block} is random, whatever its package was made of: leave --data out")
    spec = build(kind_of(block), options["settings"], options["preset"])
    if not data or not is_text(data):
        asked = f"--data {data}" if data else f"--model {options['model']} without --data"
        raise UserError(f"{asked}: {block} tunes on sentences, those of {', '.join(TEXT_TASKS)}")
    refuse_of_layers()
    if name := given(("epochs",)):
        raise UserError(f"{name} {options['epochs']}: {block} counts steps: give --steps")
    path = Path(options["model"]) if options["model"] else default_folder()
    if not is_language_model(path):
        what = "has no tokenizer for sentences" if path.is_file() or ":" in str(path) else "is missing"
        raise UserError(f"--model {path} {what}: {block} takes a FOLDER saved by transformers, or FILE.gguf")
    delta = None
    if options["delta"]:
        refuse_options(_OF_RUN, "--delta, which names its own")
        delta = Delta.load(options["delta"])
    chosen = {name: options[name] for name in ("base", "tuned", "from_layer") if options[name] is not None}
    selection = Selection(**chosen)
    task = text_task(data, options["data_dir"], options["shots"], options["seed"])
    model = _model(path, task, options["prompt"], delta).calibrated(task.tune.sentences)
    # a package does not show the user's folders
    public_name = f"{CSV}{Path(data.removeprefix(CSV)).resolve().name}" if data.startswith(CSV) else data
    how = {name: options[name] for name in ("steps", "batch", "rate", "seed")}
    return spec, SentenceTask(
        name=public_name, model=model, tune=task.tune, test=task.test, selection=selection, delta=delta, **how
    )


def _model(path: Path, task: TextTask, prompt: str | None, delta: Delta | None) -> SentenceModel:
    """Model with the task's head, or with the head of the run that wrote the delta."""
    if delta is None:
        return worded(path, task, prompt, sparse=False)
    model = sentence_model(path, prompts_of(delta), wording_of(delta))
    if len(model.prompts) != task.classes:
        raise UserError(f"the delta's head has {len(model.prompts)} classes, {task.name} has {task.classes}")
    return model
