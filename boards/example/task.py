"""Task of an example: a network with trained weights, samples to tune on and held-out samples, and settings."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.dataset import Samples
from ...golden.errors import UserError
from ...golden.fixed import Q8_16, Integers, q8_16_of_bytes
from ...golden.nn.arithmetic.forward import StageIntegers
from ...golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from .job import ExampleData

MOST_MEMORY = 1 << 28
"""Largest memory of a job in bytes: more is seldom free in one piece on a board."""
MOST_SAMPLES, MOST_CLASSES = 1 << 24, 1 << 8
"""Largest numbers of samples and of classes that entries of an order list can address."""


@dataclass(frozen=True, eq=False)
class ExampleTask:
    """Network and samples of a core's example, self-test and memory images.

    Parameters
    ----------
    name : str
        Origin of the samples, for messages.
    network : str
        Name of the network, for defaults of the tuning.
    frozen : list of StageIntegers
        Weights and biases of all stages in Q4.12, batch norm folded.
    tune, test : Samples
        Samples to tune on, and held-out samples.
    epochs, steps, batch : int, optional
        Number of epochs or steps, and samples of a batch; by default as in `fabtune tune`.
    rate : float, optional
        Learning rate of the mean loss of a batch.
    seed : int
        Seed of initial adapters or position, and of the order of the samples.
    drawn : bool
        The network was drawn for digits, see `digits`, and is not the user's.
    """

    name: str
    network: str
    frozen: list[StageIntegers]
    tune: Samples
    test: Samples
    epochs: int | None = None
    steps: int | None = None
    batch: int | None = None
    rate: float | None = None
    seed: int = 0
    drawn: bool = False

    def check(self, spec: NetworkCoreSpec) -> None:
        """Refuse autoencoders, unreadable samples, and more than a schedule can address."""
        if spec.loss == "mse":
            raise UserError(f"{self.name}: an autoencoder has no accuracy: a package's jobs are those of classifiers")
        if spec.described.classes > MOST_CLASSES:
            raise UserError(f"{spec.described.classes} classes: a label of an order list has 8 bits")
        for what, samples in (("tune on", self.tune), ("test", self.test)):
            if len(samples) > MOST_SAMPLES:
                raise UserError(f"{self.name}: {len(samples)} samples to {what}: at most {MOST_SAMPLES}")
            as_read(samples[:1], spec.byte_inputs)

    def data(self, spec: NetworkCoreSpec) -> ExampleData:
        """Describe the task for an example."""
        return ExampleData(self.name, self.digest, len(self.test), spec.described.classes, self.drawn)

    @property
    def digest(self) -> str:
        """SHA-256 of all inputs of the job's bytes besides the core."""
        found = hashlib.sha256(repr((self.epochs, self.steps, self.batch, self.rate, self.seed)).encode())
        stages = [array for stage in self.frozen for array in (stage.weight, stage.bias)]
        for array in (*stages, *(part for some in (self.tune, self.test) for part in (some.inputs, some.labels))):
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


def start_of(
    spec: NetworkCoreSpec, count: int, rng: np.random.Generator, task: ExampleTask | None
) -> tuple[list[StageIntegers], NDArray[np.integer], Integers, Integers]:
    """Take a task's weights and at most `count` of the task's samples to tune on; without a task, draw both.

    Returns
    -------
    list of StageIntegers
    array of int, (n, *input_shape)
        Samples in the core's format.
    array of int64, (n, *input_shape)
        The same in Q8.16.
    array of int64, (n,)
        Labels.
    """
    if task:
        some = task.tune[:count]
        return task.frozen, as_read(some, spec.byte_inputs), values_of(some), some.labels
    network = spec.described
    frozen = random_parameters(network, rng)
    return frozen, *random_samples(network, spec.byte_inputs, count, rng, spec.labels)


def values_of(samples: Samples) -> Integers:
    """Convert samples to Q8.16, half to even, saturating; a byte p is p / 255."""
    return q8_16_of_bytes(samples.inputs) if samples.inputs.dtype == np.uint8 else Q8_16.from_float(samples.inputs)


def as_read(samples: Samples, byte_inputs: bool) -> Integers:
    """Samples in the core's format, bytes or Q8.16; a `UserError` for floats if the core takes bytes."""
    if not byte_inputs:
        return values_of(samples)
    if samples.inputs.dtype != np.uint8:
        raise UserError("the samples are floats, and the core reads bytes: --set byte_inputs=false")
    return samples.inputs.astype(np.int64)


def correct(logits: Integers, labels: Integers) -> int:
    """Count samples whose largest logit is their label's; of equal logits the first is the largest."""
    return int(np.count_nonzero(logits.argmax(axis=1) == labels))


def only(task: ExampleTask, core: str, wanted: str, other: str) -> None:
    """Refuse the option ``other`` for the length of the tuning if it was given; the message names ``wanted``."""
    if (given := getattr(task, other)) is not None:
        raise UserError(f"--{other} {given}: {core} counts {wanted}: give --{wanted}")
