"""Exercise of a core for campaigns of faults: jobs, commands and inputs near every limit, hostile buses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from .hostile import LIMIT, CalmRun, Trial, calm_difference, calm_run, run_trial
from .jobs import edge_jobs, long_jobs, random_jobs, short_jobs
from .order_lists import order_findings
from .refusals import refusal_findings
from .register_words import register_findings
from .wrong_inputs import input_findings

TRIALS = 80
"""Hostile buses."""
RANDOM_JOBS = 64
"""Jobs with random settings: late, for faults that only rare values show."""
_SLACK = 10_000
"""Cycles by which a command of a core with a fault may be longer than twice that of the core: then it hangs."""


class Exercise:
    """Behaviour of a core without a fault, with which `difference` compares it with a fault.

    Parameters
    ----------
    program : Path
        The core, from `build.build`, with faults.
    spec : CoreSpec
        Its parameters.
    seed : int
        Seed of jobs, commands and buses.

    Raises
    ------
    UserError
        If the core without a fault is wrong.
    """

    def __init__(self, program: Path, spec: CoreSpec, seed: int) -> None:
        self._program, self._spec, self._seed = program, spec, seed
        self._jobs = short_jobs(spec, seed)
        self._edges = edge_jobs(spec, seed)
        self._last = {"random job": random_jobs(spec, seed, RANDOM_JOBS), "long job": long_jobs(spec, seed)}
        self._calm: dict[str, CalmRun] = {}
        for jobs in (self._jobs, self._edges, *self._last.values()):
            self._calm |= {name: calm_run(program, job) for name, job in jobs.items()}
        self._trials: list[Trial] = []
        for number in range(TRIALS):
            trial = self._trial(number)
            if trial.findings:
                raise UserError(f"{spec.name} without a fault, hostile bus {trial.seed}: {trial.findings[0]}")
            self._trials.append(trial)
        found = [finding for _, findings in (*self._checks(0), self._refusals(0)) for finding in findings()]
        if found:
            raise UserError(f"{spec.name} without a fault: {found[0]}")

    def difference(self, mutant: int, soon: bool) -> tuple[str, str] | None:
        """Find the first difference that a fault makes: what saw it, and its words; None where there is none.

        Parameters
        ----------
        mutant : int
            Number of the fault.
        soon : bool
            Do what takes seconds; else what takes minutes.
        """
        for what, differs in self._soon(mutant) if soon else self._late(mutant):
            try:
                found = differs()
            except UserError as problem:
                found = str(problem)
            if found:
                return what, found
        return None

    def _soon(self, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        # the shortest job first: most faults are seen by any
        for name, job in sorted(self._jobs.items(), key=lambda item: self._calm[item[0]].cycles):
            yield "job", lambda name=name, job=job: self._job(name, job, mutant)  # type: ignore[misc]
        for what, findings in self._checks(mutant):
            yield what, lambda findings=findings: next(iter(findings()), "")  # type: ignore[misc]

    def _late(self, mutant: int) -> Iterator[tuple[str, Callable[[], str]]]:
        what, findings = self._refusals(mutant)
        yield what, lambda: next(iter(findings()), "")
        for name, job in self._edges.items():
            yield "edge job", lambda name=name, job=job: self._job(name, job, mutant)  # type: ignore[misc]
        for number in range(TRIALS):
            yield "hostile bus", lambda number=number: self._bus(number, mutant)  # type: ignore[misc]
        for what, jobs in self._last.items():
            for name, job in jobs.items():
                yield what, lambda name=name, job=job: self._job(name, job, mutant)  # type: ignore[misc]

    def _checks(self, mutant: int) -> tuple[tuple[str, Callable[[], Iterable[str]]], ...]:
        """Checks that take seconds, with their findings."""
        program, spec = self._program, self._spec
        return (
            ("registers", lambda: register_findings(program, spec, self._seed, mutant)),
            ("order list", lambda: order_findings(program, spec, mutant)),
            ("wrong input", lambda: input_findings(program, spec, mutant)),
        )

    def _refusals(self, mutant: int) -> tuple[str, Callable[[], Iterable[str]]]:
        """Check that takes longer than the others together."""
        return "refusals", lambda: refusal_findings(self._program, self._spec, self._seed, mutant)

    def _job(self, name: str, job: Any, mutant: int) -> str:
        calm = self._calm[name]
        found = calm_difference(self._program, job, calm, 2 * calm.cycles + _SLACK, mutant)
        return f"{name}: {found}" if found else ""

    def _bus(self, number: int, mutant: int) -> str:
        trial, right = self._trial(number, mutant), self._trials[number]
        if trial.findings:
            return f"{number}: {trial.findings[0]}"
        return "" if trial == right else f"{number}: {trial.ended} after {trial.cycles} cycles, not {right.cycles}"

    def _trial(self, number: int, mutant: int = 0) -> Trial:
        name = list(self._jobs)[number % len(self._jobs)]
        job: Any = self._jobs[name]
        limit = 2 * self._trials[number].cycles + _SLACK if mutant else LIMIT
        return run_trial(self._program, job, self._calm[name], self._seed + number, None, limit, mutant)
