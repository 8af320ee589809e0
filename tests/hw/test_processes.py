"""Programs end with all their child processes: at a time limit, and when the command is stopped."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fabtune.hw import processes

FOREVER = "sleep 1000 & echo $! > child; wait"


@pytest.fixture(autouse=True)
def _resume():
    yield
    processes.resume()


def ended(path):
    """Whether the process whose number a file holds has ended, or is a zombie."""
    try:
        return Path(f"/proc/{int(path.read_text())}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_what_a_program_prints(tmp_path):
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    done = processes.run([sys.executable, "-c", code], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert processes.run([sys.executable, "-c", code], merged=True).stdout == "out\nerr\n"


def test_a_time_limit_ends_what_the_program_started(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(["sh", "-c", FOREVER], tmp_path, seconds=0.5)
    assert ended(tmp_path / "child")


def test_a_stop_reaches_the_programs_of_other_threads_and_those_that_are_not_begun(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(processes.run, ["sh", "-c", FOREVER], tmp_path)
        while not ((tmp_path / "child").exists() and (tmp_path / "child").read_text()):
            assert not waiting.done()
        with pytest.raises(KeyboardInterrupt):
            processes.stop(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            waiting.result()
    assert ended(tmp_path / "child")
    with pytest.raises(KeyboardInterrupt):
        processes.run(["true"])
    processes.resume()
    assert processes.run(["true"]).returncode == 0


def test_a_program_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        processes.run(["/nowhere/program"])


def test_a_stop_waits_for_the_end_of_what_must_not_be_interrupted():
    reached = []
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117, PT012
        with processes.uninterrupted():
            with processes.uninterrupted():
                processes.stop(KeyboardInterrupt())
            reached.append("the end")
    assert reached == ["the end"]
    with pytest.raises(KeyboardInterrupt):
        processes.stop(KeyboardInterrupt())
