"""`fabtune evaluate` on sentences: accuracy of a language model, before or after tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from ...golden.errors import UserError
from ...golden.train.text.classifier import default_folder
from ...golden.train.text.tasks import SHOTS, Texts, TextTask, is_text, text_task
from ...golden.train.text.tuned_sentences import SentenceRun, TunedSentences
from ..progress import Bars
from .evaluate import EvaluateRequest, described, refuse_logits, save_logits
from .saved_run import refuse_of_layers
from .sentences import worded

_AT_ONCE = 32
ENGINES = ("golden", "float")


def of_sentences(request: EvaluateRequest) -> SentenceRun | bool:
    """The run on sentences that a request names; True for a model on sentences without a run, else False."""
    run = request.saved.sentences()
    if run is not None:
        return run
    return request.saved.run is None and request.data is not None and is_text(request.data)


def run(request: EvaluateRequest, saved: SentenceRun | None, console: Console) -> dict[str, Any]:
    """Classify the held-out sentences; results as by `evaluate.run`, with ``logits`` and ``labels``.

    Engine "float" computes the same parameters in floats, and adds golden's accuracy and the difference of both.

    Raises
    ------
    UserError
        If the engine cannot classify sentences, or run, model and sentences do not fit together.
    """
    if request.engine not in (None, *ENGINES):
        raise UserError(
            f"--engine {request.engine} classifies no sentences, {', '.join(ENGINES)} do: tune --engine rtl compares "
            "a run with the core"
        )
    if request.core:
        raise UserError("--core has no meaning without --engine rtl: leave it out")
    refuse_of_layers()
    refuse_logits(request)
    task = _task(request, saved)
    tuned = _tuned(request, saved, task)
    classes = len(tuned.sentences.prompts)
    if classes != task.classes:
        raise UserError(f"the head has {classes} classes, {task.name} has {task.classes}")
    texts = task.test[np.arange(min(request.first or len(task.test), len(task.test)))]
    engine = request.engine or "golden"
    logits = _logits(tuned, texts, engine == "float", console)
    facts = {}
    if engine == "float":
        golden = _logits(tuned, texts, False, console)
        facts = {
            "golden_accuracy": float(np.mean(golden.argmax(axis=1) == texts.labels)),
            "taken_otherwise": int(np.count_nonzero(golden.argmax(axis=1) != logits.argmax(axis=1))),
            "logit_difference": float(np.abs(golden - logits).max()),
        }
    save_logits(request, logits, texts.labels)
    return {
        **described(logits, texts.labels, classes),
        **facts,
        "network": tuned.sentences.network.name,
        "run": str(saved.path) if saved else None,
        "method": saved.metadata.get("method") if saved else None,
        "data": request.data or (saved.metadata.get("data") if saved else None),
        "engine": engine,
    }


def _task(request: EvaluateRequest, saved: SentenceRun | None) -> TextTask:
    metadata = saved.metadata if saved else {}
    data = request.data or metadata.get("data")
    if not data:
        raise UserError("name the sentences with --data csv:FOLDER, sst-2 or another text task")
    if not is_text(data):
        raise UserError(f"--data {data} has no sentences: give csv:FOLDER, sst-2 or another text task")
    seed = request.seed if request.seed is not None else int(metadata.get("seed", "0"))
    return text_task(data, request.data_dir, int(metadata.get("shots", SHOTS)), seed)


def _tuned(request: EvaluateRequest, saved: SentenceRun | None, task: TextTask) -> TunedSentences:
    if saved is not None:
        return saved.tuned(request.saved.folder(saved))
    folder = Path(request.saved.model) if request.saved.model else default_folder()
    return TunedSentences.untuned(worded(folder, task, None, sparse=False).calibrated(task.tune.sentences))


def _logits(tuned: TunedSentences, texts: Texts, in_floats: bool, console: Console) -> Any:
    """Logits of all sentences, with a bar."""
    torch.set_num_threads(2)
    compute = tuned.float_logits if in_floats else tuned.logits
    parts = []
    with Bars(console) as progress:
        bar = progress.add_task("classify", total=len(texts))
        for first in range(0, len(texts), _AT_ONCE):
            parts.append(compute(texts.sentences[first : first + _AT_ONCE]))
            progress.update(bar, advance=len(parts[-1]))
    return np.concatenate(parts)
