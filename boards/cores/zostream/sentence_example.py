"""Example of `zostream` with a user's language model: steps on sentences, with inferences before and after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ....golden.axi.regions import Region
from ....golden.cores.zostream.golden_core import GoldenZostream
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.fixed import Integers
from ....golden.rng.perturbation import POSITIONS
from ....golden.stream.machine.images import StreamImages
from ....golden.train.text.integer_tuning import base_of
from ....golden.train.text.tasks import Texts
from ....golden.train.zo.methods import zo_defaults
from ....golden.train.zo.parameter_order import TileOrder
from ....golden.train.zo.transformer_tuning import delta_job
from ....golden.zo.coefficient import LARGEST_BATCH
from ...example.job import Example, ExampleData
from ...example.sentence_task import SentenceTask
from ...example.zeroth_order import zeroth_order_example
from .example import COUNTERS, PROGRAM

STEPS = 20
"""Few steps by default: golden computes each of a language model in a second or more."""
TESTED = 100
"""Most held-out sentences, the first."""
NOTES = Path(__file__).with_name("notes.md")
"""Commands, formats and errors, for the README of a package."""


def sentence_example(spec: ZostreamSpec, task: SentenceTask) -> Example:
    """Example of a core: the job of `fabtune tune` with the task's seed, steps, batch and rate.

    Held-out sentences beyond `TESTED`, and those for which the core lacks room, are left out.

    Raises
    ------
    UserError
        If the core cannot run the network, a sentence to tune on or a batch, or the delta is of another core.
    """
    if (task.batch or 0) > LARGEST_BATCH:
        raise UserError(f"--batch {task.batch}: a step of the core has at most {LARGEST_BATCH} samples")
    images, rows = network_of(spec, task)
    spec.check(images)
    defaults, layout = zo_defaults("transformer"), spec.layout(images.program)
    tune, lengths = _samples(images, task, task.tune)
    spec.check_lengths(images, lengths)
    test, lengths = _samples(images, task, task.test)
    test = test[np.flatnonzero(np.array(lengths) <= spec.longest(images))[:TESTED]]
    if not len(test):
        raise UserError(f"no held-out sentence has {spec.longest(images)} tokens or fewer: the core lacks the room")

    def regions(samples: Samples) -> list[Region]:
        found, lengths = images.model.rows_of(samples.inputs.astype(np.int64))
        kept = samples is tune and images.cached
        slots, *cache = layout.cache(lengths) if kept else (None,)
        return [*layout.samples(np.split(found, np.cumsum(lengths)[:-1]), slots), *cache]

    period = spec.generator.period
    example = zeroth_order_example(
        GoldenZostream(spec, [images]),
        layout,
        ExampleData(task.name, task.digest, len(test), images.model.label_count("cross_entropy"), drawn=False),
        tune,
        test,
        network=layout.network(images),
        numbers={"program_beats": images.program.image_beats},
        inference={"cached": 0},
        regions=regions,
        steps=task.steps or STEPS,
        batch=min(task.batch or defaults.batch, len(tune)),
        rate=task.rate or (defaults.sparse_rate if images.model.sensitive else defaults.rate),
        seed=task.seed,
        # the position of `fabtune tune`; a sequence longer than a register's range starts at 0
        position=int(np.random.default_rng([task.seed, 4]).integers(period)) if period <= POSITIONS else 0,
        rows=rows,
        counters=COUNTERS,
        program=PROGRAM,
    )
    how = example.how
    if left := len(task.test) - len(test):
        how += f"; {left} held-out sentences are left out, too long or too many"
    return replace(example, how=how, notes=NOTES.read_text(encoding="utf-8").rstrip("\n"))


def network_of(spec: ZostreamSpec, task: SentenceTask) -> tuple[StreamImages, Integers | None]:
    """Images of the task's network, cut before the tuned layers, and the rows of the delta's updates.

    Raises
    ------
    UserError
        If the network does not fit the core, or the delta is of another core.
    """
    sentences, selection, delta = task.model, task.selection, task.delta
    if delta is None:
        base, start = sentences.base(selection.base), selection.start(sentences.network)
        tuned = selection.tunes(sentences.network, ())
        model = sentences.on_base(base, tuned, {}, spec.times, spec.lanes, spec.columns)
        return StreamImages.of(model, base, spec.size, start), None
    base, order = base_of(sentences, delta), delta.order
    assert isinstance(order, TileOrder), "others have no base"
    if order.cut:
        raise UserError("the delta's run had perturbations of two parts (--cut), and a package's job has those of one")
    if (order.lanes, order.columns) != (spec.lanes, spec.columns):
        raise UserError(
            f"the delta is in tiles of {order.lanes} x {order.columns}, and this core's are {spec.lanes} x "
            f"{spec.columns}: tune with --core, or package the preset of these tiles"
        )
    if delta.source.spec != spec.generator:
        raise UserError("the delta's perturbations are of another generator than this core's")
    if {*order.places} - {*sentences.tensor_names.values()}:
        raise UserError(
            "the delta tunes sensitive weights of the head, which is no matrix in NF4, and the core merges them with "
            "NF4 alone: tune all weights, --method pezo-otf"
        )
    model, job = delta_job(sentences.on_base(base), delta, sentences.names)
    return StreamImages.of(model, base, spec.size), job.rows


def _samples(images: StreamImages, task: SentenceTask, texts: Texts) -> tuple[Samples, tuple[int, ...]]:
    """Tokens and labels of sentences, and the tokens of each."""
    tokens = task.model.tokens(texts.sentences)
    return Samples(tokens, texts.labels.astype(np.int64)), images.model.lengths(tokens)  # type: ignore[arg-type]
