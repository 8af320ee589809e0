"""Exercise of a core for campaigns of faults: jobs, commands and inputs near every limit, hostile buses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ..compiled.device import SimulatedDevice
from .hostile import LIMIT, Trial, calm_run, run_trial
from .jobs import Jobs, edge_jobs, long_jobs, random_jobs, short_jobs
from .order_lists import order_findings
from .refusals import refusal_findings
from .register_words import register_findings
from .wrong_inputs import input_findings

Check = tuple[str, Callable[[], Iterable[str]]]
"""What it is, and what finds differences from golden."""

TRIALS = 80
"""Hostile buses."""
RANDOM_JOBS = 64
"""Jobs with random settings: late, for faults that only rare values show."""
_SLACK = 10_000
"""Cycles by which a command of a core with a fault may be longer than twice that of the core: then it hangs."""


class Exercise(ABC):
    """Behaviour of a core without a fault, with which `difference` compares it with a fault.

    Parameters
    ----------
    program : Path
        The core, from `build.build`, with faults.
    spec : CoreSpec
        Its parameters.
    seed : int
        Seed of jobs, commands and buses.
    jobs : dict of str to ShortJob

    Raises
    ------
    UserError
        If the core without a fault is wrong.
    """

    def __init__(self, program: Path, spec: CoreSpec, seed: int, jobs: Jobs) -> None:
        self._program, self._spec, self._seed = program, spec, seed
        self.jobs = jobs
        self.calm = {name: calm_run(program, job) for name, job in jobs.items()}
        found = [finding for _, findings in self._checks(0) for finding in findings()]
        if found:
            raise UserError(f"{spec.name} without a fault: {found[0]}")

    def difference(self, mutant: int) -> tuple[str, str] | None:
        """Find the first difference that a fault makes: what saw it, and its words; None where there is none.

        Parameters
        ----------
        mutant : int
            Number of the fault.
        """
        for what, differs in self._comparisons(mutant):
            try:
                found = differs()
            except UserError as problem:
                found = str(problem)
            if found:
                return what, found
        return None

    @abstractmethod
    def _comparisons(self, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        """List what is compared, in this order."""

    @abstractmethod
    def _checks(self, mutant: int) -> tuple[Check, ...]:
        """List what is compared with golden and has no job."""

    def _first_findings(self, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        for what, findings in self._checks(mutant):
            yield what, lambda findings=findings: next(iter(findings()), "")  # type: ignore[misc]

    def _job(self, name: str, mutant: int) -> str:
        job, calm = self.jobs[name], self.calm[name]
        device = SimulatedDevice(self._program, limit=2 * calm.cycles + _SLACK, mutant=mutant)
        driver = job.driver(device)
        job.load(driver)
        wrong = job.differences(driver, device)
        if wrong:
            return f"{name}: {', '.join(wrong)}"
        shown = device.results[-1]["updates"]
        if shown != calm.updates:
            return f"{name}: the monitor shows {shown} beats, not {calm.updates}"
        found = device.simulated, device.values
        return "" if found == (calm.simulated, calm.values) else f"{name}: {found[0]} cycles, not {calm.simulated}"


class QuickExercise(Exercise):
    """What takes seconds: jobs that reach every part, and commands near the limits."""

    def __init__(self, program: Path, spec: CoreSpec, seed: int) -> None:
        super().__init__(program, spec, seed, short_jobs(spec, seed))

    def _comparisons(self, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        # the shortest job first: most faults are seen by any
        for name in sorted(self.jobs, key=lambda name: self.calm[name].cycles):
            yield "job", lambda name=name: self._job(name, mutant)  # type: ignore[misc]
        yield from self._first_findings(mutant)

    def _checks(self, mutant: int) -> tuple[Check, ...]:
        program, spec = self._program, self._spec
        return (
            ("registers", lambda: register_findings(program, spec, self._seed, mutant)),
            ("order list", lambda: order_findings(program, spec, mutant)),
            ("wrong input", lambda: input_findings(program, spec, mutant)),
        )


class LongExercise(Exercise):
    """What takes minutes: all refusals, jobs at edges, hostile buses, random jobs and long ones.

    Parameters
    ----------
    quick : QuickExercise
        Its jobs are those on hostile buses.
    """

    def __init__(self, program: Path, spec: CoreSpec, seed: int, quick: QuickExercise) -> None:
        self._quick = quick
        self._kinds = {
            "edge job": edge_jobs(spec, seed),
            "random job": random_jobs(spec, seed, RANDOM_JOBS),
            "long job": long_jobs(spec, seed),
        }
        super().__init__(
            program, spec, seed, {name: job for jobs in self._kinds.values() for name, job in jobs.items()}
        )
        self._trials: list[Trial] = []
        for number in range(TRIALS):
            trial = self._trial(number)
            if trial.findings:
                raise UserError(f"{spec.name} without a fault, hostile bus {trial.seed}: {trial.findings[0]}")
            self._trials.append(trial)

    def _comparisons(self, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        yield from self._first_findings(mutant)
        yield from self._own_jobs("edge job", mutant)
        for number in range(TRIALS):
            yield "hostile bus", lambda number=number: self._bus(number, mutant)  # type: ignore[misc]
        yield from self._own_jobs("random job", mutant)
        yield from self._own_jobs("long job", mutant)

    def _own_jobs(self, kind: str, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        for name in self._kinds[kind]:
            yield kind, lambda name=name: self._job(name, mutant)  # type: ignore[misc]

    def _checks(self, mutant: int) -> tuple[Check, ...]:
        return (("refusals", lambda: refusal_findings(self._program, self._spec, self._seed, mutant)),)

    def _bus(self, number: int, mutant: int) -> str:
        trial, right = self._trial(number, mutant), self._trials[number]
        if trial.findings:
            return f"{number}: {trial.findings[0]}"
        return "" if trial == right else f"{number}: {trial.ended} after {trial.cycles} cycles, not {right.cycles}"

    def _trial(self, number: int, mutant: int = 0) -> Trial:
        name = list(self._quick.jobs)[number % len(self._quick.jobs)]
        job, calm = self._quick.jobs[name], self._quick.calm[name]
        limit = 2 * self._trials[number].cycles + _SLACK if mutant else LIMIT
        return run_trial(self._program, job, calm, self._seed + number, None, limit, mutant)
