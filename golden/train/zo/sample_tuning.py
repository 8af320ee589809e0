"""Zeroth-order fine-tuning of a transformer on samples, such as images in patches, in the hardware's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.dataset import Samples, Task
from ...stream.calibration import activation_formats, largest_outputs
from ...stream.forward import IntegerTransformer, weight_formats
from ...stream.frozen_base import frozen_base
from ...stream.transformer_model import TransformerModel
from ...transformer.float_model import last_float
from ...transformer.sample_model import SampleTransformer
from ..conversion import Converter
from ..sparse.masks import Mask
from .finetune import ZoSettings
from .transformer_tuning import COMPARED, LabelledInputs, Selection, TransformerTuning, base_error, places_of


class SampleTuning(TransformerTuning):
    """Fine-tuning run of a transformer on samples in integers; used like `FineTuning`.

    `samples` is pre-trained. `mask` has sensitive weights by layer name of a `SampleModule`; all other weights are
    frozen. `lanes` and `columns` are the size of the core's array, whose tiles are the words of a perturbation.

    Raises
    ------
    UserError
        If the settings do not fit together, or samples or tensors do not fit the network.
    """

    def __init__(
        self,
        samples: SampleTransformer,
        task: Task,
        settings: ZoSettings,
        selection: Selection | None = None,
        mask: Mask | None = None,
        lanes: int = 32,
        columns: int = 16,
    ) -> None:
        self.samples, self.task = samples, task
        network, parameters, choice = samples.network, samples.parameters, selection or Selection()
        sensitive = {} if mask is None else places_of(mask, samples.tensor_names)
        tuned = choice.tunes(network, sensitive)
        compared = task.tune[:COMPARED]
        largest = largest_outputs(network, parameters, *self._rows(compared))
        unlimited = IntegerTransformer(network, weight_formats(parameters))
        activations = activation_formats(unlimited, largest)
        self.frozen = frozen_base(network, parameters, choice.base, sensitive=sensitive, activations=activations)
        times = len(settings.source().spec.base)  # type: ignore[attr-defined]
        model = TransformerModel(
            self.frozen.transformer,
            self.frozen.integers,
            tuned=tuned,
            sensitive=sensitive,
            times=times,
            lanes=lanes,
            columns=columns,
        )
        tune, test = (self._inputs(part) for part in (task.tune, task.test))
        super().__init__(model, tune, test, settings, samples.tensor_names, choice.cached(model), choice.base)

    def _rows(self, samples: Samples) -> tuple[NDArray[Any], tuple[int, ...]]:
        rows = self.samples.rows(samples.values())
        return rows.reshape(-1, rows.shape[2]), (self.samples.tokens,) * len(samples)

    def _inputs(self, samples: Samples) -> LabelledInputs:
        return LabelledInputs(self.samples.rows(Converter().samples(samples)), samples.labels.astype(np.int64))

    def facts(self) -> dict[str, Any]:
        """See `base_facts`."""
        compared = self.task.tune[:COMPARED]
        exact = last_float(self.samples.network, self.samples.parameters, *self._rows(compared))
        return self.base_facts(base_error(self.model, self.tune.inputs[:COMPARED], compared.labels, exact))
