"""Federated client on the zeroth-order core, which makes a message's bytes from the core's records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.train.conversion import Converter
from ....golden.train.federated.client import ClientTask
from ....golden.train.federated.configuration import FederatedConfig
from ....golden.train.federated.federated_model import Totals
from ....golden.train.federated.message import Message
from ....golden.train.zo.integer import eps_shift_of, loss_of
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.scalars import Scalars
from ....golden.zo.step_settings import StepSettings
from .job import ZerothOrderTrainer


class CoreClient:
    """Client with steps on a core; see `golden.train.federated.client.FederatedClient`.

    The core rounds coefficients to the scalars of the message, so deltas and message match. The server's sum is loaded
    as deltas.

    Parameters
    ----------
    trainer : ZerothOrderTrainer
        Trainer on a core that has the config's order, and memory for the config's cut.
    frozen : sequence of StageIntegers
        Pre-trained weights and biases, Q4.12.
    config : FederatedConfig
        With an order.
    samples : Samples
        The client's samples, whose number is the client's weight in the average.

    Attributes
    ----------
    losses : list of float
        Mean loss of each step of the last round.
    evaluations : list of int
        Samples evaluated so far by the first and by the second part.

    Raises
    ------
    UserError
        If core, config and samples do not fit together.
    """

    def __init__(
        self, trainer: ZerothOrderTrainer, frozen: Sequence[StageIntegers], config: FederatedConfig, samples: Samples
    ) -> None:
        spec, split, order = trainer.spec, config.split, config.order
        if order is None or (order.lanes, order.columns) != (spec.lanes, spec.columns):
            raise UserError(f"a core of {spec.lanes} x {spec.columns} in a federation whose order is {order}")
        if config.source.spec != spec.source:
            raise UserError("the core's generator is not the federation's")
        batch = min(config.batch, len(samples))
        spec.check_split(split, batch)
        settings = StepSettings(eps_shift=eps_shift_of(config.eps), split=split, scalars=True, loss=spec.loss)
        rates, self._settings = settings.with_rates([config.rate], [batch], PerturbationTable(spec.source))
        self._rate = rates[0]
        self._inputs: NDArray[np.integer] = (
            samples.inputs.astype(np.uint8) if spec.byte_inputs else Converter().samples(samples)
        )
        self.config, self.samples, self.trainer = config, samples, trainer
        # converts deltas to the sums of both parts, and back
        self._network = NetworkModel(spec.mapping, frozen)
        self._sums = ZerothOrderJob(self._network, spec.source, self._settings)
        self.losses: list[float] = []
        self.evaluations = [0, 0]
        trainer.load(frozen)

    def synchronise(self, total: Totals) -> None:
        """Set the weights to the server's: the sums since the start become the core's deltas."""
        parts = [part.numpy().astype(np.int64) for part in total]
        self._sums.total = np.stack(parts) if self.config.split.cut else parts[1]
        self.trainer.load_deltas(self._sums.rows)

    def integers(self) -> Tensor:
        """Read the weights from the core: (count,) of int32."""
        rows = self.trainer.deltas()
        weights = []
        for part in self._network.parts(self.config.split.cut):
            spread = rows[part.rows][:, np.arange(part.mapping.width) % rows.shape[1]]
            weights.append(((part.frozen << 16) + spread).reshape(-1))
        return torch.from_numpy(np.concatenate(weights).astype(np.int32))

    def train(self, task: ClientTask) -> Message:
        """Run a round's steps on the core with one command; return the message for the server.

        A clipped coefficient is a `UserError`, as deltas and message would differ.
        """
        config, split, labels = self.config, self.config.split, self.samples.labels.astype(np.int64)
        batches = list(config.batches(task.round, task.client, len(labels)))
        steps = [StepOrder(indices, labels[indices], self._rate) for indices in batches]
        position = task.position % self.trainer.spec.source.period
        trained = self.trainer.train(self._inputs, steps, self._settings, position)
        if clipped := trained.finished.counts["coefficients_clipped"]:
            raise UserError(f"the core clipped {clipped} coefficients: lower the rate")
        slopes = split.steps(trained.slopes)
        self.losses = [float(np.mean([loss_of(slope) for slope in step])) for step in slopes]
        evaluated = 2 * sum(len(indices) for indices in batches)
        self.evaluations[0] += evaluated * split.first * (split.cut > 0)
        self.evaluations[1] += evaluated * split.slopes
        scalars = tuple(Scalars.of([slope.coefficient for slope in step]) for step in slopes)
        share = len(self.samples)
        return Message(task.round, task.client, task.position, share, config.first, config.second, scalars)
