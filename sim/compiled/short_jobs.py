"""Short random jobs on both cores, with what golden makes of them: for trials of a core on a hostile bus."""

from __future__ import annotations

import numpy as np

from ...boards.host.driver import Core
from ...boards.host.job import FineTuner
from ...boards.host.zeroth_order import ZerothOrderTrainer
from ...golden.cores.instantft import InstantftSpec
from ...golden.cores.instantft_registers import CORE as TUNING_CORE
from ...golden.cores.zotrain import ZotrainSpec
from ...golden.cores.zotrain_registers import CORE as TRAINING_CORE
from ...golden.fixed import Integers
from ...golden.lora.adapters import Adapters
from ...golden.lora.images import adapters_image
from ...golden.models.network import Network
from ...golden.zo.memory_layout import StepOrder
from ...golden.zo.split import WHOLE, Split
from ..cores.random_network import random_parameters
from .comparison import values_of
from .device import SimulatedDevice
from .job import TuningJob
from .zeroth_order_job import TrainingJob, counts_of, same, wrong_counts

RATE, BATCH = 20_000, 4
SHIFT, ZEROTH_ORDER_RATE = 24, 40_000
"""Rates that change the parameters a lot in few steps, without clipping most of them."""


class ShortTuning:
    """Fine-tuning of adapters in two epochs, with logits.

    Parameters
    ----------
    spec : InstantftSpec
        The core; its batches have room for 4 samples.
    seed : int
        Seed of network, adapters, samples and order.
    samples : int
        How many.
    raw : bool
        The cache holds Q8.16.
    """

    def __init__(self, spec: InstantftSpec, seed: int, samples: int = 7, raw: bool = False) -> None:
        rng = np.random.default_rng(seed)
        network, shape = spec.described, spec.mapping.shape
        flat = np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64).clip(-32768, 32767)
        orders = [rng.permutation(samples) for _ in range(2)]
        self.spec = spec
        self.job = TuningJob(
            random_parameters(network, rng),
            Adapters(shape, flat),
            _samples(network, spec.byte_inputs, samples, rng),
            rng.integers(0, network.classes, samples),
            [[order[at : at + BATCH] for at in range(0, samples, BATCH)] for order in orders],
            RATE,
            raw,
        )
        self._golden = self.job.golden(spec)
        batches, self._images = [], []
        for batch in self.job.run_golden(spec, self._golden):
            batches.append(batch.logits)
            self._images.append(adapters_image(spec.mapping, self._golden.adapters))
        self._logits = np.concatenate(batches)
        self._outputs = self._golden.logits(values_of(spec, self.job.inputs))

    def driver(self, device: SimulatedDevice) -> FineTuner:
        """Make a host driver of the core."""
        core = Core(TUNING_CORE, device, device, device.interrupt)
        return FineTuner(core, self.spec, len(self.job.inputs), self.job.raw)

    def load(self, driver: FineTuner) -> None:
        """Load the frozen network."""
        driver.load(self.job.frozen)

    def differences(self, driver: FineTuner, device: SimulatedDevice) -> list[str]:
        """Run the job from its adapters, and list what differs from golden."""
        driver.load_adapters(self.job.adapters)
        tuned, traced = self.job.tune(driver, device, logits=True)
        counts = tuned.finished.counts
        right = {
            "adapters of a batch": np.array_equal(traced, np.stack(self._images)),
            "logits": np.array_equal(np.asarray(tuned.logits), self._logits),
            "batches": counts["batches"] == len(self._images),
            "saturations": counts["saturations"] == self._golden.saturations,
            "adapters": np.array_equal(driver.adapters().flat, self._golden.adapters.flat),
            "outputs": np.array_equal(driver.logits(self.job.inputs), self._outputs),
        }
        return [name for name, one in right.items() if not one]


class ShortTraining:
    """Zeroth-order training in three steps.

    Parameters
    ----------
    spec : ZotrainSpec
        The core.
    seed : int
        Seed of network, samples, order, position and deltas.
    samples : int
        How many.
    split : Split
        Perturbations of a step.
    """

    def __init__(self, spec: ZotrainSpec, seed: int, samples: int = 6, split: Split = WHOLE) -> None:
        rng = np.random.default_rng(seed)
        network = spec.described
        labels = rng.integers(0, network.classes, samples)
        drawn = [rng.integers(0, samples, size) for size in (BATCH, 1, BATCH - 1)]
        self.spec = spec
        self.job = TrainingJob(
            random_parameters(network, rng),
            _samples(network, spec.byte_inputs, samples, rng),
            [StepOrder(one, labels[one], ZEROTH_ORDER_RATE + number) for number, one in enumerate(drawn)],
            SHIFT,
            position=int(rng.integers(1000)),
            split=split,
        )
        self._start = self.job.golden(spec).rows
        golden = self.job.golden(spec)
        self._steps, images = [], []
        for step in self.job.run_golden(spec, golden):
            self._steps += step
            images.append(spec.layout.deltas(golden.rows).image)
        self._images = np.stack(images)
        self._counts = counts_of(golden, len(self.job.steps))
        self._rows = golden.rows
        self._outputs = golden.logits(values_of(spec, self.job.inputs))

    def driver(self, device: SimulatedDevice) -> ZerothOrderTrainer:
        """Make a host driver of the core."""
        return ZerothOrderTrainer(Core(TRAINING_CORE, device, device, device.interrupt), self.spec)

    def load(self, driver: ZerothOrderTrainer) -> None:
        """Load the pre-trained network."""
        driver.load(self.job.frozen)

    def differences(self, driver: ZerothOrderTrainer, device: SimulatedDevice) -> list[str]:
        """Run the job from its deltas, and list what differs from golden."""
        driver.load_deltas(self._start)
        trained, traced = self.job.train(driver, device)
        slopes = trained.slopes
        right = {
            "deltas of a step": np.array_equal(traced, self._images),
            "records": len(slopes) == len(self._steps) and all(map(same, slopes, self._steps)),
            "counters": not wrong_counts(trained.finished, self._counts),
            "deltas": np.array_equal(driver.deltas(), self._rows),
            "outputs": np.array_equal(driver.logits(self.job.inputs), self._outputs),
        }
        return [name for name, one in right.items() if not one]


def _samples(network: Network, byte_inputs: bool, samples: int, rng: np.random.Generator) -> Integers:
    shape = (samples, *network.input_shape)
    return rng.integers(0, 256, shape) if byte_inputs else rng.integers(-90_000, 90_000, shape)
