"""Progress of work of known length: bars on a terminal, plain lines in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from .heartbeat import shown_by


class Bars(Progress):
    """Progress bars on a terminal; in a log lines such as ``pre-train digits: 3 of 10, 12 s``, see `heartbeat`.

    Bars vanish after an error, so that the error's line stands alone, and with ``transient`` in any case. Otherwise
    they stay; a log gets a line for each. ``first`` are columns before the usual columns.
    """

    def __init__(self, console: Console, *first: ProgressColumn, transient: bool = False) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        super().__init__(*first, *columns, console=console, transient=transient, disable=not console.is_terminal)
        self._shown = ExitStack()

    def __enter__(self) -> Bars:
        super().__enter__()
        self._shown.enter_context(shown_by(self.line))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._shown.close()
        self.live.transient |= kind is not None
        super().__exit__(kind, *rest)
        if self.disable and not self.live.transient:
            for task in filter(attrgetter("visible"), self.tasks):
                self.console.print(_line(task), markup=False, highlight=False, soft_wrap=True)

    def line(self) -> str:
        """Running bars as a line of a log; empty on a terminal."""
        return "; ".join(_line(task) for task in self.tasks if self.disable and task.visible and not task.finished)


def _line(task: Task) -> str:
    counted = "" if task.total is None else f"{task.completed:.0f} of {task.total:.0f}, "
    return f"{task.description}: {counted}{task.finished_time or task.elapsed or 0:.0f} s"


def advance(progress: Progress, bar: TaskID, name: str) -> Callable[[float, float], None]:
    """Function that advances a bar by 1 and shows a loss and a fraction correct after the bar's name."""

    def step(loss: float, accuracy: float) -> None:
        progress.update(bar, advance=1, description=f"{name}, loss {loss:.3f}, {100 * accuracy:.1f}% right")

    return step


@contextmanager
def core_bar(progress: Progress, name: str = "the core") -> Iterator[Callable[[str], None]]:
    """Context with a bar for the simulation of a core; yields a function that shows the present stage after the bar's
    name.
    """
    bar = progress.add_task(name, total=None)
    yield lambda stage: progress.update(bar, description=f"{name}: {stage}")
    progress.update(bar, total=1, completed=1, description=name)
