"""Verify a block's RTL against its golden model, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..golden.block import Spec, Words
from ..hw.verilog import emit
from .bench.plan import bench_plan
from .captures.compare import CaptureComparison
from .phase import Phase
from .scenario import scenario
from .simulator import simulate


@dataclass(frozen=True)
class Verdict:
    """Result of a verification: cycles of all bench tests, compared and differing numbers, messages.

    `failures` come from the bench: a hang, a broken handshake, a wrong latency. `differences` are the first mismatches.
    """

    cycles: int
    compared: int
    mismatches: int
    simulator: str
    failures: tuple[str, ...] = ()
    differences: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """True if something was compared, without differences and failures."""
        return not self.mismatches and not self.failures and self.compared > 0


def verify(
    spec: Spec,
    simulator: str = "verilator",
    words: int = 1000,
    seed: int = 0,
    rtl: Spec | None = None,
    waves: Path | None = None,
    power_up: int | None = None,
) -> Verdict:
    """Run a block's bench and compare.

    Parameters
    ----------
    simulator : "verilator" or "icarus"
    words : int
        Approximate words of each phase.
    seed : int
        Seed of stimulus and stalls.
    rtl : Spec, optional
        Different parameters for the RTL, to prove that the bench detects the difference.
    waves : Path, optional
        Waveform file, ``.fst`` or ``.vcd``.
    power_up : int, optional
        See `simulate`.
    """
    phases = scenario(spec, np.random.default_rng(seed), words)
    return verify_phases(spec, phases, simulator, seed, rtl, waves, power_up)


def verify_phases(
    spec: Spec,
    phases: list[Phase],
    simulator: str = "verilator",
    seed: int = 0,
    rtl: Spec | None = None,
    waves: Path | None = None,
    power_up: int | None = None,
) -> Verdict:
    """Run a block's bench with given phases, for instance with real data; see `verify`."""
    emitted = emit(rtl or spec)
    run = simulate(emitted, bench_plan(spec, emitted, phases, seed), simulator, waves, power_up=power_up)
    comparison = CaptureComparison()
    streams = spec.streams()
    for test, seen in run.tests.items():
        for number, (phase, result) in enumerate(zip(phases, seen["phases"], strict=True)):
            for name, expected in phase.expected.items():
                columns = list(zip(*result["outputs"].get(name, []), strict=True))
                got: Words = {}
                if name in streams:
                    for wire, column in zip(emitted.ports[name].wires, columns, strict=False):
                        got |= streams[name].unpack(column, wire.fields, wire.align)
                else:
                    got = {key: np.array(column)[:, None] for key, column in zip(expected, columns, strict=False)}
                comparison.add(f"{test}, phase {number}: {name}", expected, got)
    return Verdict(
        cycles=sum(test["cycles"] for test in run.tests.values()),
        compared=comparison.compared,
        mismatches=comparison.mismatches,
        simulator=simulator,
        failures=run.failures,
        differences=tuple(comparison.differences),
    )
