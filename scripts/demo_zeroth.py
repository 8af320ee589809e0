"""The demo's first part: zeroth order on drifted digits, and its weights through the simulated hardware."""

from __future__ import annotations

from dataclasses import dataclass

from rich.progress import Progress

from ..golden.fixed import Integers
from ..golden.rng.pezo import PezoSpec
from ..golden.settings import build
from ..golden.train.zo.digits_job import DigitsJob, prepare
from ..golden.zo.tile import TileSpec
from ..golden.zo.tile_job import TileStep, fine_tune
from ..sim.phase import Phase
from ..sim.verify import Verdict, verify, verify_phases

STEPS = 4000
RATE = 0.01
STEPS_THROUGH_RTL = 12
"""Steps of the fine-tuning, the first ones, whose weights go through the simulated hardware."""
POINT_EVERY = 20
"""Steps between two points of the curve."""
WORDS = 1000
"""Numbers that each generator gives in its own bench."""
PRESETS = ("pool", "otf8", "otf14")
"""Presets of `PezoSpec` that are emitted, estimated and plotted."""
VERIFIED = ("pool", "otf8")
"""Presets that are verified here: to compile the 16,384 factors of the third takes as long as both together."""


@dataclass(frozen=True)
class ZerothOrderRun:
    """Zeroth-order fine-tuning of a network on drifted digits.

    Parameters
    ----------
    job : DigitsJob
        The network before, and the samples.
    tile : TileSpec
        Hardware that the weights go through.
    history : list of (int, float, float)
        Step, loss and fraction of held-out samples right.
    first : list of TileStep
        The first steps.
    weights : array of int
        Tuned, Q4.12.
    """

    job: DigitsJob
    tile: TileSpec
    history: list[tuple[int, float, float]]
    first: list[TileStep]
    weights: Integers

    @property
    def accuracies(self) -> tuple[float, float, float]:
        """Fractions right: upright digits before, drifted ones before and after."""
        return self.job.accuracy_undrifted, self.history[0][2], self.job.accuracy(self.weights, self.job.test)


def generators() -> dict[str, PezoSpec]:
    """Build the spec of each of `PRESETS`."""
    specs = {name: build(PezoSpec, [], name) for name in PRESETS}
    return {name: spec for name, spec in specs.items() if isinstance(spec, PezoSpec)}


def tune_zeroth_order(progress: Progress) -> ZerothOrderRun:
    """Train a network on upright digits and fine-tune it on drifted ones, in integers."""
    bar = progress.add_task("zeroth order in the model", total=STEPS)
    job, tile = prepare(), TileSpec()
    weights = job.weights.copy()
    history, first = [(0, job.loss(weights, job.tune), job.accuracy(weights, job.test))], []
    for number, step in enumerate(fine_tune(weights, lambda w: job.loss(w, job.tune), tile, STEPS, RATE), 1):
        if number <= STEPS_THROUGH_RTL:
            first.append(step)
        if number % POINT_EVERY == 0:
            history.append((number, step.loss, job.accuracy(weights, job.test)))
            progress.update(bar, completed=number)
    return ZerothOrderRun(job, tile, history, first, weights)


def verify_zeroth_order(tuned: ZerothOrderRun, simulator: str, progress: Progress) -> dict[str, Verdict]:
    """Send the first steps' weights through the whole tile, and verify two generators by themselves.

    Returns
    -------
    dict of str to Verdict
        By what was verified.
    """
    bar = progress.add_task("weights through the RTL", total=1 + len(VERIFIED))
    tile = tuned.tile
    phases: list[Phase] = []
    for step in tuned.first:
        for given in tile.passes(step.weights):
            expected = tile.perturbed(given["i"], step.position)
            phases.append(Phase(given, {"o": expected}, reset=not phases))
    verdicts = {f"tile, {len(tuned.first)} steps of the network's weights": verify_phases(tile, phases, simulator)}
    progress.advance(bar)
    specs = generators()
    for name in VERIFIED:
        verdicts[f"pezo, {name}"] = verify(specs[name], simulator, words=WORDS)
        progress.advance(bar)
    return verdicts
