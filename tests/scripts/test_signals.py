"""Commands that are stopped: one line, a shell's exit status, no process and no file left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STARTED = "from fabtune.scripts.cli import main; main(prog_name='fabtune')"
LINES = {signal.SIGINT: "fabtune: interrupted\n", signal.SIGTERM: "fabtune: terminated\n"}


@pytest.fixture
def start(tmp_path):
    """Start a command in a session of its own."""
    running = []

    def begin(*arguments):
        program = [sys.executable, "-c", STARTED, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(program, cwd=tmp_path, start_new_session=True, **pipes))
        return running[-1]

    yield begin
    for one in running:
        one.kill()


def others_of(process):
    """Processes of a session beside its first, without those that ended and that nobody has waited for."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # ended in the meantime
        if int(session) == process.pid != int(folder.name) and state != "Z":
            found.append((folder / "cmdline").read_text())
    return found


def until(condition, seconds=60):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in Linux' /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_trials_end_with_their_command(start, tmp_path, number):
    process = start("table", "fedspzo", "--processes", "2", "--seeds", "9")
    until(lambda: sum("spawn_main" in one for one in others_of(process)) == 2)
    time.sleep(3 if number == signal.SIGKILL else 0.5)  # a process that has not begun yet cannot see that others end
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == ""
    if number in LINES:
        assert (process.returncode, err) == (128 + number, LINES[number])
    until(lambda: not others_of(process))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", LINES)
def test_a_fine_tuning_that_is_stopped_leaves_no_file(start, tmp_path, number):
    process = start("tune", "--method", "mezo", "--steps", "1000000", "-o", "tuned.safetensors", "--plot", "a.png")
    time.sleep(5)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", LINES[number])
    assert list(tmp_path.iterdir()) == []
