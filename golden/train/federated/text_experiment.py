"""Federations of a transformer on sentences, in the hardware's integers, and LoRA in float beside them."""

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
    """Federations on a transformer, see `FederatedExperiment`; a stage is the operation before which it is cut.

    Parameters
    ----------
    sentences : SentenceModel
    integers : TransformerModel
        What it becomes for the hardware.
    classifier : callable, optional
        Makes the same model in float, where LoRA is to run.
    """

    sentences: SentenceModel
    integers: TransformerModel
    classifier: Callable[[], TextClassifier] | None = None

    @property
    def name(self) -> str:
        """Name of the transformer."""
        return self.sentences.network.name

    @cached_property
    def _work(self) -> Integers:
        """Mean operations of the tuning sentences, by operation."""
        return mean_work(self.sentences, [one for some in self.owned for one in _texts(some).sentences])

    def flops(self, stage: int) -> tuple[int, int]:
        """Operations of the mean tuning sentence through both parts."""
        return int(self._work[:stage].sum()), int(self._work[stage:].sum())

    def model(self, config: FederatedConfig, stage: int) -> JobModel:
        """Make a copy of the start, cut at an operation."""
        return JobModel(self.integers, stage, config, lambda texts: self.sentences.tokens(texts.sentences))

    def facts(self, config: FederatedConfig, stage: int) -> Figures:
        """Bytes of a client's deltas, and what the formula of docs/federated.md expects of the cut."""
        width = config.source.spec.width
        rows = sum(len(part.rows) for part in self.integers.parts(stage))
        found: Figures = {"delta_bytes": rows * width * DELTA.width // 8}
        if stage:
            parameters = tuned_parameters(self.integers, stage)
            found["predicted_saving"] = round(saved(parameters, self.flops(stage), config.second), 4)
        return found

    def baselines(self, rates: FederatedRates, transport: Transport | None) -> dict[str, Run]:
        """Plain federated zeroth order, several perturbations without a cut (DeComFL), and LoRA in float."""
        several = partial(self.fedzo, BASELINE_QUERIES * rates.plain, transport, BASELINE_QUERIES)
        found: dict[str, Run] = {"FedZO": partial(self.fedzo, rates.plain, transport), "DeComFL": several}
        if self.classifier is not None:
            found["FedAvg, LoRA"] = partial(self.lora, rates.fedavg)
        return found

    def lora(self, rate: float, progress: RoundProgress | None = None) -> tuple[FederationResult, Figures]:
        """Run FedAvg with FedSPZO's steps, in which clients train and upload adapters of rank 4, in float."""
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
    """Mean operations of sentences, by operation of the network; a multiply-accumulate is two.

    Those of linear layers and attention, and of a norm two multiplications a value: its square, and its factor.
    """
    network, lengths = sentences.network, tuple(map(int, (sentences.tokens(texts) >= 0).sum(axis=1)))
    found = np.array(products(network, lengths))
    for number, operation in enumerate(network.operations):
        if isinstance(operation, Normalisation):
            features, pooled = network.shapes[number]
            found[number] = 2 * features * (len(lengths) if pooled else sum(lengths))
    mean: Integers = np.rint(2 * found / len(lengths)).astype(np.int64)
    return mean


def tuned_parameters(model: TransformerModel, cut: int) -> tuple[int, int]:
    """Parameters of both parts that are perturbed."""
    sizes = {name: int(np.prod(shape)) for name, shape in model.order.shapes.items()}
    first = sum(size for (number, _), size in sizes.items() if number < cut)
    return first, sum(sizes.values()) - first


def best_cut(model: TransformerModel, work: Integers, second: int) -> int:
    """Operation before which a cut should save most, see `cost_model.saving`; of equal ones the last.

    Raises
    ------
    UserError
        If the network is not cut anywhere.
    """
    network, found = model.transformer.network, []
    for cut in network.cuts:
        parameters = tuned_parameters(model, cut)
        if min(parameters):
            expected = saved(parameters, (int(work[:cut].sum()), int(work[cut:].sum())), second)
            found.append((expected, cut))
    if not found:
        raise UserError(f"{network.name}: no cut has tuned parameters on both sides")
    return max(found)[1]


def cut_named(network: Transformer, name: str) -> int:
    """Number of an operation, by its name or that of the layer that begins with it.

    Raises
    ------
    UserError
        If there is none, or the network is not cut there.
    """
    for number, title in enumerate(network.titles):
        if title == name or title.startswith(f"{name}."):
            network.crossing(number)
            return number
    places = ", ".join(network.titles[cut] for cut in network.cuts[-4:])
    raise UserError(f"cut = {name!r}: {network.name} has no operation of that name; it can be cut before {places}, ...")


def sensitive_places(
    classifier: TextClassifier, task: TextTask, share: float, generic: Path | None, names: Mapping[TensorName, str]
) -> dict[TensorName, Integers]:
    """Places of the weights that generic text is most sensitive to, which all clients tune alone (Meerkat).

    The choice is the server's: it reads no client's sentences.

    Parameters
    ----------
    classifier : TextClassifier
    task : TextTask
    share : float
        Of each linear layer's weights.
    generic : Path, optional
        See `TextObjective`.
    names : mapping of (int, str) to str
        See `places_of`.

    Raises
    ------
    UserError
        If there is no generic text, or the share is none.
    """
    count_of(1, share)  # refuses a share before gradients are computed
    if generic is None:
        raise UserError("--sensitive needs generic text, which no client owns: give --generic FILE or --data-dir")
    classifier.freeze_words()
    losses = TextObjective(classifier, task, generic).losses("generic")
    scores = squared_gradients(classifier, losses)
    # no generic text depends on the head: it stays as it is
    return places_of(sensitive({name: one for name, one in scores.items() if one.any()}, share), names)


def _texts(samples: Any) -> Texts:
    assert isinstance(samples, Texts)
    return samples


def _evaluated(module: TextClassifier, texts: Texts) -> tuple[float, float]:
    """Mean cross entropy and accuracy on sentences."""
    with torch.no_grad():
        return float(module.loss(module.batch(texts))), module.accuracy(texts)
