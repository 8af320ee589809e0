"""The points of a sweep in an Optuna journal: a file that several processes share, and from which a sweep goes on.

A trial that was running when its process ended is failed, and its values are a new trial; Optuna itself has no means to
notice that with a journal. Finished trials are never run again.
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
    """A finished point.

    Parameters
    ----------
    number : int
        Of the trial in the journal.
    values : dict of str to Value
        Of the parameters, by name.
    objectives : tuple of float
        In the order of the space; empty where the point is infeasible.
    reason : str
        Why it is; empty where it is not.
    """

    number: int
    values: dict[str, Value]
    objectives: tuple[float, ...]
    reason: str


class Study:
    """A sweep's journal, continued where it is there.

    Parameters
    ----------
    space : Space
    journal : Path

    Raises
    ------
    UserError
        If the file is no journal, or that of another space.
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
        """Begin the next trial, after `tell` of the last: values of the parameters; None where none is left."""
        with self._locks.claiming():
            begun = [*self._trials(*_DONE), *self._running()]
            if len(begun) >= self.space.total:
                return None
            if self.space.sampler == "grid" and not self._trials(TrialState.WAITING):
                known = [one.params for one in begun]
                self._study.enqueue_trial(next(values for values in self.space.grid() if values not in known))
            # one sampler for each trial: what is drawn does not depend on how often the sweep was stopped
            self._study.sampler = _sampler(self.space, len(self._study.get_trials(deepcopy=False)))
            self._trial = trial = self._study.ask()
            self._locks.take(trial.number)
            return {name: _suggest(trial, name, one) for name, one in self.space.parameters.items()}

    def _running(self) -> list[FrozenTrial]:
        """Trials that run; those whose process has ended are failed, and wait again."""
        found = []
        for trial in self._trials(TrialState.RUNNING):
            if not self._locks.take(trial.number):
                found.append(trial)
                continue
            self._study.tell(trial.number, state=TrialState.FAIL)
            self._locks.drop(trial.number)
            if trial.params.keys() == self.space.parameters.keys():
                self._study.enqueue_trial(trial.params)
        return found

    def tell(self, objectives: Sequence[float], reason: str = "") -> None:
        """Finish the trial of `claim` with its objectives, or as infeasible with a reason."""
        assert self._trial is not None, "a trial was claimed"
        if reason:
            self._trial.set_user_attr(_REASON, reason)
        # a trial that is pruned teaches the sampler; one that failed would not
        state = TrialState.PRUNED if reason else TrialState.COMPLETE
        self._study.tell(self._trial, None if reason else list(objectives), state)
        self._locks.drop(self._trial.number)
        self._trial = None

    def points(self) -> list[Evaluated]:
        """All finished points."""
        return [self._evaluated(trial) for trial in self._trials(*_DONE)]

    def front(self) -> list[Evaluated]:
        """Points that no other one dominates, sorted by their objectives; of equal points the first."""
        found: dict[tuple[Value, ...], Evaluated] = {}
        for trial in sorted(self._study.best_trials, key=lambda one: (one.values, one.number)):
            one = self._evaluated(trial)
            found.setdefault(tuple(one.values.values()), one)
        return list(found.values())

    def close(self) -> None:
        """Close the file of locks."""
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


def _suggest(trial: Trial, name: str, one: Parameter) -> Value:
    if isinstance(one, Choices):
        chosen: Any = trial.suggest_categorical(name, one.values)
        return chosen  # type: ignore[no-any-return]
    if isinstance(one.low, int) and isinstance(one.high, int):
        return trial.suggest_int(name, one.low, one.high, step=int(one.step or 1), log=one.log)
    return trial.suggest_float(name, one.low, one.high, step=one.step, log=one.log)


def _refuse_other_file(journal: Path) -> None:
    """Refuse a file that does not begin as a journal, before anything beside it is made."""
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
    """Cut off a last line that a process did not write to its end, which Optuna would refuse for ever."""
    if journal.exists() and (data := journal.read_bytes()) and not data.endswith(b"\n"):
        with journal.open("r+b") as stream:
            stream.truncate(data.rfind(b"\n") + 1)
