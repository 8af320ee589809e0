"""Zeroth-order fine-tuning of a transformer on samples, such as images in patches, in the hardware's integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...datasets.dataset import Samples, Task
from ...stream.frozen_base import BaseKind, frozen_base
from ...stream.transformer_model import TransformerModel
from ...transformer.float_model import run_float
from ...transformer.sample_model import SampleTransformer
from ..conversion import Converter
from .finetune import ZoSettings
from .transformer_tuning import COMPARED, LabelledInputs, TransformerTuning, base_error


class SampleTuning(TransformerTuning):
    """Fine-tuning run of all parameters of a transformer on samples; as `FineTuning` in use.

    Parameters
    ----------
    samples : SampleTransformer
        Pre-trained; all its tensors have names.
    task : Task
    settings : ZoSettings
    base : "nf4" or "18-bit"
        Frozen matrices.

    Raises
    ------
    UserError
        If the settings do not fit together, or samples or tensors do not fit the network.
    """

    def __init__(self, samples: SampleTransformer, task: Task, settings: ZoSettings, base: BaseKind = "nf4") -> None:
        self.samples, self.task = samples, task
        self.frozen = frozen_base(samples.network, samples.parameters, base)
        times = len(settings.source().spec.base)  # type: ignore[attr-defined]
        model = TransformerModel(self.frozen.transformer, self.frozen.integers, times=times)
        tune, test = (self._inputs(some) for some in (task.tune, task.test))
        super().__init__(model, tune, test, settings, samples.tensor_names, base=base)

    def _inputs(self, some: Samples) -> LabelledInputs:
        return LabelledInputs(self.samples.rows(Converter().samples(some)), some.labels.astype(np.int64))

    def facts(self) -> dict[str, Any]:
        """Errors of the base, and what was clipped, by their keys in ``--json``."""
        some = self.task.tune[:COMPARED]
        rows, network = self.samples.rows(some.values()), self.samples.network
        exact = run_float(
            network, self.samples.parameters, rows.reshape(-1, network.features), (self.samples.tokens,) * len(some)
        )[-1]
        places = {self.names[name]: count for name, count in self.frozen.clipped.items()} | self.job.saturated_places
        return {
            "base": self.base,
            **base_error(self.model, self.tune.inputs[:COMPARED], some.labels, exact),
            "errors": {self.names[name]: round(error, 6) for name, error in self.frozen.errors.items()},
            "saturated": places,
        }
