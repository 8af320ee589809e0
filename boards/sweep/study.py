"""The points of a sweep in an Optuna journal: a file that processes share, and from which a stopped sweep continues.

If a process ends during a trial, this module marks the trial as failed and queues its values as a new trial: Optuna
cannot notice this with a journal. Finished trials never run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from ...golden.errors import UserError
from ...golden.files import parse_json
from .locks import Locks
from .space import Choices, Parameter, Space, Value

_NAME = "fabtune"
_SPACE, _REASON = "space", "infeasible"
_DONE = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True)
class Evaluated:
    """A finished point: number of the trial, values of the parameters by name, and objectives in the order of the
    space.

    An infeasible point has a ``reason`` and no objectives; for other points the reason is empty.
    """

    number: int
    values: dict[str, Value]
    objectives: tuple[float, ...]
    reason: str


class Study:
    """Journal of a sweep; an existing journal is continued.

    A `UserError` if the file is no journal, or a journal of another space.
    """

    def __init__(self, space: Space, journal: Path) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self._trial: Trial | None = None
        _refuse_other_file(journal)
        journal.parent.mkdir(parents=True, exist_ok=True)
        self._locks = Locks(journal)
        with self._locks.claiming():
            self._locks.acquire()
            _drop_torn_line(journal)
            self._locks.release()
            try:
                self._study = self._open(journal)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise UserError(f"{journal} is damaged, or no journal of Optuna's: choose another file") from error
            known = self._study.user_attrs.get(_SPACE)
            if known not in (None, space.digest):
                raise UserError(f"{journal} is the journal of another space or version: choose another file")
            if known is None:
                self._study.set_user_attr(_SPACE, space.digest)

    def _open(self, journal: Path) -> optuna.Study:
        storage = JournalStorage(JournalFileBackend(str(journal), self._locks))  # type: ignore[arg-type]
        return optuna.create_study(
            storage=storage, study_name=_NAME, directions=self.space.directions, load_if_exists=True
        )

    def claim(self) -> dict[str, Value] | None:
        """Begin the next trial, once `tell` ended the last: values of the parameters, or None if no trial remains."""
        with self._locks.claiming():
            begun = [*self._trials(*_DONE), *self._running()]
            if len(begun) >= self.space.total:
                return None
            if self.space.sampler == "grid" and not self._trials(TrialState.WAITING):
                known = [parameter.params for parameter in begun]
                self._study.enqueue_trial(next(values for values in self.space.grid() if values not in known))
            # a new sampler for each trial, so that draws do not depend on interruptions of the sweep
            self._study.sampler = _sampler(self.space, len(self._study.get_trials(deepcopy=False)))
            self._trial = trial = self._study.ask()
            self._locks.take(trial.number)
            return {name: _suggest(trial, name, parameter) for name, parameter in self.space.parameters.items()}

    def _running(self) -> list[FrozenTrial]:
        """Running trials; a trial whose process has ended is marked as failed and queued again."""
        running = []
        for trial in self._trials(TrialState.RUNNING):
            if not self._locks.take(trial.number):
                running.append(trial)
                continue
            self._study.tell(trial.number, state=TrialState.FAIL)
            self._locks.drop(trial.number)
            if trial.params.keys() == self.space.parameters.keys():
                self._study.enqueue_trial(trial.params)
        return running

    def tell(self, objectives: Sequence[float], reason: str = "") -> None:
        """Finish the trial of `claim` with its objectives, or as infeasible with a reason."""
        assert self._trial is not None, "a trial was claimed"
        if reason:
            self._trial.set_user_attr(_REASON, reason)
        # infeasible points are pruned trials: samplers learn from these, not from failed trials
        state = TrialState.PRUNED if reason else TrialState.COMPLETE
        self._study.tell(self._trial, None if reason else list(objectives), state)
        self._locks.drop(self._trial.number)
        self._trial = None

    def points(self) -> list[Evaluated]:
        return [self._evaluated(trial) for trial in self._trials(*_DONE)]

    def front(self) -> list[Evaluated]:
        """Pareto front, sorted by objectives; of points with equal values only the first."""
        front: dict[tuple[Value, ...], Evaluated] = {}
        for trial in sorted(self._study.best_trials, key=lambda trial: (trial.values, trial.number)):
            point = self._evaluated(trial)
            front.setdefault(tuple(point.values.values()), point)
        return list(front.values())

    def close(self) -> None:
        self._locks.close()

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=states)

    def _evaluated(self, trial: FrozenTrial) -> Evaluated:
        values = {name: trial.params[name] for name in self.space.parameters}
        objectives = tuple(trial.values) if trial.state == TrialState.COMPLETE else ()
        return Evaluated(trial.number, values, objectives, trial.user_attrs.get(_REASON, ""))


def _sampler(space: Space, number: int) -> optuna.samplers.BaseSampler:
    seed = (space.seed + 1_000_003 * number) % (1 << 31)
    return optuna.samplers.TPESampler(seed=seed) if space.sampler == "tpe" else optuna.samplers.RandomSampler(seed)


def _suggest(trial: Trial, name: str, parameter: Parameter) -> Value:
    if isinstance(parameter, Choices):
        chosen: Any = trial.suggest_categorical(name, parameter.values)
        return chosen  # type: ignore[no-any-return]
    if isinstance(parameter.low, int) and isinstance(parameter.high, int):
        return trial.suggest_int(name, parameter.low, parameter.high, step=int(parameter.step or 1), log=parameter.log)
    return trial.suggest_float(name, parameter.low, parameter.high, step=parameter.step, log=parameter.log)


def _refuse_other_file(journal: Path) -> None:
    """Refuse a file that does not begin like a journal, before any file is made."""
    if not journal.exists():
        return
    if not journal.is_file():
        raise UserError(f"{journal} is no file: choose another for the journal")
    with journal.open("rb") as stream:
        first = stream.readline(1 << 20)
    known = not first or first.startswith(b'{"op_code":')
    if known and first.endswith(b"\n"):
        known = False
        with suppress(ValueError):
            known = isinstance(parse_json(first), dict)
    if not known:
        raise UserError(f"{journal} is no journal of a sweep: choose another file")


def _drop_torn_line(journal: Path) -> None:
    """Cut off an incomplete last line, which Optuna would refuse for ever."""
    if journal.exists() and (data := journal.read_bytes()) and not data.endswith(b"\n"):
        with journal.open("r+b") as stream:
            stream.truncate(data.rfind(b"\n") + 1)
