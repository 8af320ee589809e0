"""Fault campaign of a core: jobs, commands and inputs near every limit, fault-injecting buses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ..compiled.playing import ShortJob
from .contract import trials_of
from .endings import ending_findings
from .hostile import LIMIT, CalmRun, Trial, calm_difference, calm_run, run_trial
from .jobs import Jobs, edge_jobs, long_jobs, random_jobs, short_jobs
from .refusals import refusal_findings
from .register_words import register_findings

TRIALS = 80
"""Number of fault-injecting buses."""
RANDOM_JOBS = 64
"""Number of jobs with random settings; these run late, for faults that only rare values show."""
_SLACK = 10_000
"""A command of a faulty core hangs if it takes this many cycles more than twice the correct core's."""


@dataclass(frozen=True)
class FaultComparison:
    """A test that compares a faulty core with the correct core.

    Parameters
    ----------
    kind : str
        Kind of test.
    differs : callable
        Describes the difference for a fault's number; empty without a difference.
    """

    kind: str
    differs: Callable[[int], str]

    def difference(self, mutant: int) -> str:
        """Describe the difference or error that a fault causes; empty without a difference."""
        try:
            return self.differs(mutant)
        except UserError as problem:
            return str(problem)


class Exercise:
    """Comparisons of a faulty core with the correct core, which must pass each comparison first.

    Parameters
    ----------
    program : Path
        Core with faults, from `build.build`.
    spec : CoreSpec
    seed : int
        Seed of jobs, commands and buses.

    Raises
    ------
    UserError
        In `quick` and `long`, if the core without a fault fails.
    """

    def __init__(self, program: Path, spec: CoreSpec, seed: int) -> None:
        self._program, self._spec, self._seed = program, spec, seed
        self._jobs = short_jobs(spec, seed)
        self._calm = {name: calm_run(program, job) for name, job in self._jobs.items()}

    def quick(self) -> Iterator[FaultComparison]:
        """Short comparisons, of seconds: jobs covering every part, and commands near limits."""
        program, spec, seed = self._program, self._spec, self._seed
        # the shortest job first: any job shows most faults
        for name in sorted(self._jobs, key=lambda name: self._calm[name].cycles):
            yield FaultComparison("job", partial(self._job, name, self._jobs[name], self._calm[name]))
        yield self._checked("registers", lambda mutant: register_findings(program, spec, seed, mutant))
        trials = trials_of(spec)
        yield self._checked("order list", lambda mutant: ending_findings(program, spec, trials.entries(spec), mutant))
        if wrong := [*trials.wrong_inputs(spec)]:
            yield self._checked("wrong input", lambda mutant: ending_findings(program, spec, wrong, mutant))

    def long(self) -> Iterator[FaultComparison]:
        """Long comparisons, of minutes: all refusals, edge jobs, fault-injecting buses, random and long jobs."""
        program, spec, seed = self._program, self._spec, self._seed
        yield self._checked("refusals", lambda mutant: refusal_findings(program, spec, seed, mutant))
        yield from self._further("edge job", edge_jobs(spec, seed))
        for number in range(TRIALS):
            right = self._trial(number)
            if right.findings:
                raise UserError(f"{spec.name} without a fault, hostile bus {right.seed}: {right.findings[0]}")
            yield FaultComparison("hostile bus", partial(self._bus, number, right))
        yield from self._further("random job", random_jobs(spec, seed, RANDOM_JOBS))
        yield from self._further("long job", long_jobs(spec, seed))

    def _checked(self, kind: str, findings: Callable[[int], Iterable[str]]) -> FaultComparison:
        """Make a comparison with golden, which the correct core must pass."""
        for found in findings(0):
            raise UserError(f"{self._spec.name} without a fault: {found}")
        return FaultComparison(kind, lambda mutant: next(iter(findings(mutant)), ""))

    def _further(self, kind: str, jobs: Jobs) -> Iterator[FaultComparison]:
        for name, job in jobs.items():
            yield FaultComparison(kind, partial(self._job, name, job, calm_run(self._program, job)))

    def _job(self, name: str, job: ShortJob, calm: CalmRun, mutant: int) -> str:
        found = calm_difference(self._program, job, calm, 2 * calm.cycles + _SLACK, mutant)
        return f"{name}: {found}" if found else ""

    def _bus(self, number: int, right: Trial, mutant: int) -> str:
        trial = self._trial(number, mutant, 2 * right.cycles + _SLACK)
        if trial.findings:
            return f"{number}: {trial.findings[0]}"
        return "" if trial == right else f"{number}: {trial.ended} after {trial.cycles} cycles, not {right.cycles}"

    def _trial(self, number: int, mutant: int = 0, limit: int = LIMIT) -> Trial:
        name = list(self._jobs)[number % len(self._jobs)]
        return run_trial(self._program, self._jobs[name], self._calm[name], self._seed + number, None, limit, mutant)
