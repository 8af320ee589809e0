"""A core that measures slopes, of docs/composing-a-core.md: the array times a trainer that moves no deltas."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from amaranth.hdl import Module

from fabtune.boards.host.driver import Core
from fabtune.golden.cores.shell import CoreRegisters, Counter
from fabtune.golden.cores.zeroth_order.golden_core import GoldenZerothOrder
from fabtune.golden.cores.zotrain.golden_core import GoldenZotrain
from fabtune.golden.cores.zotrain.registers import CORE
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.fixed import Integers
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob, ZerothOrderStep
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.hw.cores.zeroth_order.sequencer import ZerothOrderSequencer
from fabtune.hw.cores.zeroth_order.zeroth_order_core import ZerothOrderCore
from fabtune.hw.cores.zotrain.array_passes import ArrayPasses

UPHILL = Counter("uphill", "slopes of the last command along which the loss rises")


@dataclass(frozen=True, kw_only=True)
class SlopeMeterSpec(ZotrainSpec):
    """Parameters of the core: those of the array that computes its passes."""

    name: ClassVar[str] = "slope_meter"
    summary: ClassVar[str] = "slopes of a network's loss along perturbations, behind AXI"
    registers: ClassVar[CoreRegisters] = replace(CORE, name="slope_meter", counters=(*CORE.counters, UPHILL))
    presets: ClassVar[dict[str, dict[str, object]]] = {"tiny": {}}

    network: str = "4 fc3"
    byte_inputs: bool = False
    lanes: int = 16
    columns: int = 2


class MeterJob(ZerothOrderJob):
    """Steps of the trainer in integers."""

    uphill = 0

    def move(self, coefficients: Sequence[int]) -> None:
        """Advance the position of the perturbations, and count negative coefficients: uphill slopes."""
        self.uphill += sum(coefficient < 0 for coefficient in coefficients)
        super().move([0 for _ in coefficients])


class GoldenMeter(GoldenZerothOrder):
    """Golden model of the trainer, for any engine."""

    job = MeterJob

    def counters(self, job: MeterJob) -> dict[str, int]:
        """Counters of a training command."""
        return super().counters(job) | {"uphill": job.uphill}


class MeterSequencer(ZerothOrderSequencer):
    """RTL of the trainer, for any engine."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        coefficient = self.slopes.o  # the rate times the slope, negated
        m.d.comb += self.control.counts.uphill.eq(coefficient.valid & (coefficient.payload < 0))
        m.d.comb += self.updates.coefficient.payload.eq(0)
        return m


class GoldenSlopeMeter(GoldenMeter, GoldenZotrain):
    """Golden model of the core."""


class SlopeMeter(ZerothOrderCore):
    """RTL of the core."""

    passes = ArrayPasses
    sequencer = MeterSequencer


GOLDEN = GoldenSlopeMeter


def measure(core: Core, spec: SlopeMeterSpec, samples: int = 3) -> tuple[list[ZerothOrderStep], int, Integers]:
    """Slopes of two steps of a random network, the number of slopes uphill, and the deltas afterwards."""
    rng = np.random.default_rng(3)
    frozen = random_parameters(spec.described, rng)
    inputs, _, labels = random_samples(spec.described, spec.byte_inputs, samples, rng, spec.labels)
    rates, settings = StepSettings(eps_shift=8).with_rates([0.02] * 2, [samples] * 2, PerturbationTable(spec.source))
    host = spec.part("boards", "job", "HOST")(core, spec)
    host.load(frozen)
    measured = host.train(inputs, [StepOrder(np.arange(samples), labels, rate) for rate in rates], settings, 9)
    return measured.slopes, measured.finished.counts["uphill"], host.deltas()
