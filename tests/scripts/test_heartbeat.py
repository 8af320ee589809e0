"""Signs of life of silent commands."""

import io
import os
import pty
import subprocess
import sys

import pytest

from fabtune.scripts import heartbeat as module
from fabtune.scripts.heartbeat import doing, heartbeat, keeping, shown_by

SILENT = """
import time
from fabtune.scripts import heartbeat
heartbeat.FIRST, heartbeat.EVERY, heartbeat._TICK = 0.05, 0.1, 0.02
with heartbeat.heartbeat("fabtune"):
    time.sleep(0.3)
    heartbeat.doing("estimate urng")
    time.sleep(0.3)
    print("the result")
"""


class Clock:
    """Time that advances two seconds per `wait`."""

    def __init__(self, states):
        self.now, self.states = 0.0, iter(states)

    def monotonic(self):
        return self.now

    def wait(self, _):
        self.now += 2
        change = next(self.states, None)
        if change:
            change()
        return change is None


def lines_of(monkeypatch, states, terminal=False):
    """Heartbeat output with an event every second second."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    clock = Clock(states)
    monkeypatch.setattr(module, "time", clock)
    beat = module.Heartbeat("fabtune", stream)
    beat._ended.wait = clock.wait
    monkeypatch.setattr(module, "_heartbeat", beat)
    beat.run()
    return stream.getvalue()


def nothing():
    pass


def test_a_log_gets_a_line_after_five_seconds_and_then_every_ten(monkeypatch):
    states = [nothing, lambda: doing("verify urng"), *[nothing] * 11]
    assert lines_of(monkeypatch, states) == "verify urng, 6 s\nverify urng, 16 s\nverify urng, 26 s\n"


def test_what_others_write_to_a_log_is_a_sign_of_life_too(monkeypatch):
    told = [nothing, lambda: module._heartbeat.clear(), *[nothing] * 5]
    assert lines_of(monkeypatch, told) == "fabtune, 14 s\n"


def test_bars_give_the_line_and_on_a_terminal_none(monkeypatch):
    with monkeypatch.context() as patch:

        def show():
            module._heartbeat.shown = lambda: "pre-train digits: 3 of 10, 12 s"

        assert lines_of(patch, [show, nothing, nothing]) == "pre-train digits: 3 of 10, 12 s\n"

    def hide():
        module._heartbeat.shown = lambda: ""

    assert lines_of(monkeypatch, [hide, nothing, nothing], terminal=True) == ""


def test_a_text_that_cannot_be_made_is_none(monkeypatch):
    def broken():
        module._heartbeat.shown = lambda: 1 / 0

    assert lines_of(monkeypatch, [broken, nothing, nothing, nothing]) == ""


def test_a_terminal_has_one_line_that_is_erased_before_others_write(monkeypatch):
    ahead, erase = module._ERASE, lambda: module._heartbeat.clear()
    written = lines_of(monkeypatch, [nothing, nothing, erase], terminal=True)
    assert written == f"{ahead}fabtune, 2 s{ahead}fabtune, 4 s{ahead}{ahead}fabtune, 6 s"


def test_output_of_a_command_is_whole_beside_the_heartbeat():
    piped = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, check=True)
    assert piped.stdout == "the result\n"
    first, *_, last = piped.stderr.splitlines()
    assert first.startswith("fabtune, ")
    assert last.startswith("estimate urng, ")


def test_a_terminal_shows_only_the_result_in_the_end():
    own, other = pty.openpty()
    subprocess.run([sys.executable, "-c", SILENT], stdin=other, stdout=other, stderr=other, check=True)
    os.close(other)
    shown = os.read(own, 1 << 16).decode()
    os.close(own)
    assert "estimate urng, " in shown
    assert shown.rpartition(module._ERASE)[2] == "the result\r\n"


def test_without_a_heartbeat_nothing_is_shown(capsys):
    doing("nothing")
    with shown_by(lambda: "nothing"):
        pass
    assert capsys.readouterr() == ("", "")


def test_the_streams_are_as_before_in_the_end():
    streams = sys.stdout, sys.stderr
    with heartbeat("fabtune"):
        assert sys.stdout is not streams[0]
    assert (sys.stdout, sys.stderr) == streams


def test_a_signal_says_what_is_kept():
    with pytest.raises(KeyboardInterrupt) as caught, keeping(lambda: "all of it"):
        raise KeyboardInterrupt
    assert caught.value.__notes__ == ["all of it"]
