"""Progress as lines of a log."""

import io

import pytest
from rich.console import Console

from fabtune.golden.errors import UserError
from fabtune.scripts.progress import Bars, advance, core_bar


@pytest.fixture
def log():
    return Console(file=io.StringIO(), width=20)


def test_bars_are_lines_of_a_log(log):
    with Bars(log) as bars:
        step = advance(bars, bars.add_task("pre-train digits", total=3), "pre-train digits")
        step(2.0, 0.5)
        with core_bar(bars, "zotrain") as begin:
            begin("compile")
            running = bars.line()
        step(1.0, 0.75)
        step(0.5, 1.0)
        assert log.file.getvalue() == ""
    assert running == "pre-train digits, loss 2.000, 50.0% right: 1 of 3, 0 s; zotrain: compile: 0 s"
    assert log.file.getvalue() == ("pre-train digits, loss 0.500, 100.0% right: 3 of 3, 0 s\nzotrain: 1 of 1, 0 s\n")


def test_an_error_leaves_no_line(log):
    def fail():
        with Bars(log) as bars:
            bars.add_task("work", total=1)
            raise UserError("wrong")

    with pytest.raises(UserError):
        fail()
    with Bars(log, transient=True) as bars:
        bars.add_task("work", total=1)
    assert log.file.getvalue() == ""


def test_a_terminal_has_bars_and_no_lines_beside_them():
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True)
    with Bars(terminal) as bars:
        bars.add_task("work", total=1, completed=1)
        assert bars.line() == ""
    assert "━" in terminal.file.getvalue()
