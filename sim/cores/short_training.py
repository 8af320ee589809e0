"""Short zeroth-order job of any core, with what golden makes of it: for hostile buses, power-up and faults."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np

from ..compiled.comparison import wrong_counts
from ..compiled.device import SimulatedDevice
from .zeroth_order_job import CoreJob, Host, Spec, same


class ShortZerothOrder(Generic[Spec, Host]):
    """Zeroth-order training in a few steps; implements `sim.trials.contract.ShortJob`.

    Parameters
    ----------
    spec : CoreSpec
        The core.
    job : CoreJob
        Network, samples, steps and deltas at the start.

    Attributes
    ----------
    counts : dict of str to int
        The core's counters at the end.
    """

    def __init__(self, spec: Spec, job: CoreJob[Spec, Host]) -> None:
        self.spec, self.job = spec, job
        golden, layout = job.golden(spec), job.layout(spec)
        self._start = golden.rows
        self._steps, images = [], []
        for step in job.run_golden(spec, golden):
            self._steps += step
            images.append(layout.deltas(golden.rows).image)
        self._images = np.stack(images)
        self.counts = job.counts(golden, len(job.steps))
        self._rows = golden.rows
        self._outputs = golden.logits(spec.values_of(job.inputs))

    def driver(self, device: SimulatedDevice) -> Host:
        """Make a host driver of the core."""
        return self.job.driver(self.spec, device)

    def load(self, driver: Host) -> None:
        """Load the network."""
        self.job.load_network(driver)

    def differences(self, driver: Host, device: SimulatedDevice) -> list[str]:
        """Run the job from its deltas, and list what differs from golden."""
        driver.load_deltas(self._start)
        before = device.simulated
        trained, traced = self.job.run_core(driver, device)
        slopes = trained.slopes
        right: dict[str, Any] = {
            "cycles": 0 < trained.finished.cycles < device.simulated - before,
            "deltas of a step": np.array_equal(traced, self._images),
            "records": len(slopes) == len(self._steps) and all(map(same, slopes, self._steps)),
            "counters": not wrong_counts(trained.whole, self.counts),
            "deltas": np.array_equal(driver.deltas(), self._rows),
            "outputs": np.array_equal(driver.logits(self.job.inputs), self._outputs),
        }
        return [name for name, one in right.items() if not one]
