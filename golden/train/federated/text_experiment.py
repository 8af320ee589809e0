"""Federations of a transformer on sentences: zeroth order in the hardware's integers, and LoRA in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import UserError
from ...fixed import Integers
from ...stream.transformer_model import TransformerModel
from ...stream.words import TensorName
from ...transformer.blocks import Normalisation, Transformer
from ...transformer.layers import products
from ...zo.deltas import DELTA
from ..sparse import sensitive, squared_gradients
from ..sparse.masks import count_of
from ..text.classifier import TextClassifier
from ..text.label_words import Sentence
from ..text.lora import add_lora, lora_parameters
from ..text.objective import TextObjective
from ..text.sentence_model import SentenceModel
from ..text.tasks import Texts, TextTask
from ..zo.transformer_tuning import places_of
from .configuration import FederatedConfig, FederatedRates
from .cost_model import saved
from .experiment import BASELINE_QUERIES, FederatedExperiment, Figures, RoundProgress, Run, figures
from .fedavg import FirstOrder, fedavg
from .federation import FederationResult, Transport
from .job_model import JobModel

_FLOAT = 4
LORA = FirstOrder(
    loss=lambda module, texts: module.loss(module.batch(texts)),
    evaluated=lambda module, texts: _evaluated(module, texts),
    optimiser=lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate),
)
"""AdamW on the adapters of a `TextClassifier`."""


@dataclass(frozen=True, kw_only=True)
class TextExperiment(FederatedExperiment):
    """Federations on a transformer, see `FederatedExperiment`; a stage is the operation after the cut.

    `integers` is the sentence model in the hardware's integers, `classifier` makes the same model in float, for LoRA.
    """

    sentences: SentenceModel
    integers: TransformerModel
    classifier: Callable[[], TextClassifier] | None = None

    @property
    def name(self) -> str:
        return self.sentences.network.name

    @cached_property
    def _work(self) -> Integers:
        """Mean operations of the tuning sentences, by operation of the network."""
        return mean_work(self.sentences, [sentence for samples in self.owned for sentence in _texts(samples).sentences])

    def flops(self, stage: int) -> tuple[int, int]:
        """Operations of the mean tuning sentence through both parts."""
        return int(self._work[:stage].sum()), int(self._work[stage:].sum())

    def model(self, config: FederatedConfig, stage: int) -> JobModel:
        """Copy of the start, cut at an operation."""
        return JobModel(self.integers, stage, config, lambda texts: self.sentences.tokens(texts.sentences))

    def facts(self, config: FederatedConfig, stage: int) -> Figures:
        """Bytes of a client's deltas, and the cut's saving predicted by the formula of docs/federated.md."""
        width = config.source.spec.width
        rows = sum(len(part.rows) for part in self.integers.parts(stage))
        facts: Figures = {"delta_bytes": rows * width * DELTA.width // 8}
        if stage:
            parameters = tuned_parameters(self.integers, stage)
            facts["predicted_saving"] = round(saved(parameters, self.flops(stage), config.second), 4)
        return facts

    def baselines(self, rates: FederatedRates, transport: Transport | None) -> dict[str, Run]:
        """Plain federated zeroth order, several perturbations without a cut (DeComFL), and LoRA in float."""
        several = partial(self.fedzo, BASELINE_QUERIES * rates.plain, transport, BASELINE_QUERIES)
        runs: dict[str, Run] = {"FedZO": partial(self.fedzo, rates.plain, transport), "DeComFL": several}
        if self.classifier is not None:
            runs["FedAvg, LoRA"] = partial(self.lora, rates.fedavg)
        return runs

    def lora(self, rate: float, progress: RoundProgress | None = None) -> tuple[FederationResult, Figures]:
        """Run FedAvg with FedSPZO's steps, where clients train and upload adapters of rank 4, in float."""
        assert self.classifier is not None
        config, module = replace(self.config, rate=rate), self.classifier()
        add_lora(module, seed=config.seed)
        result = fedavg(module, config, self.owned, self.test, progress, LORA)
        return result, figures(result, config, self.flops(0))

    @property
    def lora_upload_bytes(self) -> int:
        """Bytes of a client's upload in a round of LoRA."""
        return _FLOAT * lora_parameters(self.sentences.network)


def mean_work(sentences: SentenceModel, texts: Sequence[Sentence]) -> Integers:
    """Mean operations of sentences, by operation of the network; a multiply-accumulate counts as two.

    Linear layers and attention count, and norms with two multiplications per value: the square and the factor.
    """
    network, lengths = sentences.network, tuple(map(int, (sentences.tokens(texts) >= 0).sum(axis=1)))
    counts = np.array(products(network, lengths))
    for number, operation in enumerate(network.operations):
        if isinstance(operation, Normalisation):
            features, pooled = network.shapes[number]
            counts[number] = 2 * features * (len(lengths) if pooled else sum(lengths))
    mean: Integers = np.rint(2 * counts / len(lengths)).astype(np.int64)
    return mean


def tuned_parameters(model: TransformerModel, cut: int) -> tuple[int, int]:
    """Number of perturbed parameters of both parts."""
    sizes = {name: int(np.prod(shape)) for name, shape in model.order.shapes.items()}
    first = sum(size for (number, _), size in sizes.items() if number < cut)
    return first, sum(sizes.values()) - first


def best_cut(model: TransformerModel, work: Integers, second: int) -> int:
    """Operation after the cut with the largest expected saving, see `cost_model.saving`; among equals the last.

    Raises
    ------
    UserError
        If no cut has tuned parameters on both sides.
    """
    network, candidates = model.transformer.network, []
    for cut in network.cuts:
        parameters = tuned_parameters(model, cut)
        if min(parameters):
            expected = saved(parameters, (int(work[:cut].sum()), int(work[cut:].sum())), second)
            candidates.append((expected, cut))
    if not candidates:
        raise UserError(f"{network.name}: no cut has tuned parameters on both sides")
    return max(candidates)[1]


def cut_named(network: Transformer, name: str) -> int:
    """Number of an operation, by name or by the name of the layer in which it is the first.

    Raises
    ------
    UserError
        If the name is unknown, or the network cannot be cut there.
    """
    for number, title in enumerate(network.titles):
        if title == name or title.startswith(f"{name}."):
            network.crossing(number)
            return number
    titles = ", ".join(network.titles[cut] for cut in network.cuts[-4:])
    raise UserError(f"cut = {name!r}: {network.name} has no operation of that name; it can be cut before {titles}, ...")


def sensitive_places(
    classifier: TextClassifier, task: TextTask, share: float, generic: Path | None, names: Mapping[TensorName, str]
) -> dict[TensorName, Integers]:
    """Indices of the weights with the largest sensitivity to generic text, the only tuned weights (Meerkat).

    The server chooses without reading any client's sentences. `share` is the share of each linear layer's weights; for
    `names` see `places_of`.

    Raises
    ------
    UserError
        If generic text is missing, or the share is out of range.
    """
    count_of(1, share)  # refuses a share before gradients are computed
    if generic is None:
        raise UserError("--sensitive needs generic text, which no client owns: give --generic FILE or --data-dir")
    classifier.freeze_words()
    losses = TextObjective(classifier, task, generic).losses("generic")
    scores = squared_gradients(classifier, losses)
    # generic text does not depend on the head: the head stays frozen
    return places_of(sensitive({name: score for name, score in scores.items() if score.any()}, share), names)


def _texts(samples: Any) -> Texts:
    assert isinstance(samples, Texts)
    return samples


def _evaluated(module: TextClassifier, texts: Texts) -> tuple[float, float]:
    with torch.no_grad():
        return float(module.loss(module.batch(texts))), module.accuracy(texts)
