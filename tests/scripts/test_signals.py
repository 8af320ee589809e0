"""Commands interrupted at any moment: one line, no leftover processes, complete files or none, a valid cache."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in Linux' /proc")

# background commands ignore SIGINT, commands under nohup SIGHUP, and so do their children
STARTED = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "from fabtune.scripts.entry import main; main()"
)
LINES = {
    signal.SIGINT: "fabtune: interrupted\n",
    signal.SIGTERM: "fabtune: terminated\n",
    signal.SIGHUP: "fabtune: ended, as its terminal was closed\n",
}


@pytest.fixture
def cache(tmp_path_factory):
    """An empty cache."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(tmp_path, cache):
    """Start a command in a separate session with a separate cache."""
    running = []

    def begin(*arguments):
        program = [sys.executable, "-c", STARTED, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        own = {"cwd": tmp_path, "env": os.environ | {"FABTUNE_CACHE": str(cache)}, "start_new_session": True}
        running.append(subprocess.Popen(program, **own, **pipes))
        return running[-1]

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def others_of(process):
    """Other processes of a session, without zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # ended meanwhile
        if int(session) == process.pid != int(folder.name) and state != "Z":
            found.append((folder / "cmdline").read_text())
    return found


def until(condition):
    """Wait for a condition, for some minutes at most."""
    for _ in range(4000):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("the condition does not come")


def catches(process, number):
    """True if a process handles a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGHUP, signal.SIGKILL))]
)
def test_trials_end_with_their_command(start, tmp_path, number):
    process = start("table", "fedspzo", "--processes", "2", "--seeds", "9")
    until(lambda: sum("spawn_main" in one for one in others_of(process)) == 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert out == ""
    if number in LINES:
        kept = "; 0 of 117 trials, which are kept: the same command goes on\n"
        assert (process.returncode, said(err)) == (128 + number, LINES[number].rstrip() + kept)
    until(lambda: not others_of(process))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_fine_tuning_that_is_stopped_leaves_no_file(start, cache, tmp_path, number):
    process = start("tune", "--method", "mezo", "--steps", "1000000", "-o", "tuned.safetensors", "--plot", "a.png")
    until(lambda: catches(process, signal.SIGTERM) and list(cache.glob("pretrained/*.safetensors")))
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert (process.returncode, out, said(err)) == (128 + number, "", LINES[number])
    assert list(tmp_path.iterdir()) == []


EARLY = """
import atexit, os, signal, sys

def stop(*_):
    os.kill(os.getpid(), signal.SIGINT)

class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == {module!r}:
            stop()

sys.meta_path.insert(0, Finder)
if {module!r} == "exit":
    atexit.register(stop)
"""


@pytest.mark.parametrize("module", ["fabtune.scripts.cli", "click", "fabtune.scripts.heartbeat", "exit"])
def test_a_command_that_is_stopped_as_it_starts_or_ends_prints_no_traceback(module):
    program = [sys.executable, "-c", EARLY.format(module=module) + STARTED, "emit", "--help"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    ended = (-signal.SIGINT, "") if module == "exit" else (130, LINES[signal.SIGINT])
    assert (done.returncode, done.stderr) == ended


UNUSED = """
import sys
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring
from fabtune.scripts import cli, entry

def command(**_):
    Fragment.get(Module(), None)  # after a first elaboration Amaranth warns about unused components
    wiring.Component({})
    sys.exit(3)

cli.main = command
entry.main()
"""


def test_components_that_were_not_elaborated_are_not_told():
    done = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")


SPACE = """
block = "urng"
objectives = ["lut"]
[settings]
n = 3
[sweep.settings]
bits = [5, 6, 7, 8]
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [*LINES, signal.SIGKILL])
def test_a_sweep_goes_on_after_any_stop(start, tmp_path, number):
    (tmp_path / "space.toml").write_text(SPACE)
    journal = tmp_path / "build" / "sweep" / "space" / "journal.log"
    command = ("sweep", "space.toml", "--processes", "2", "--json")
    process = start(*command)
    # a point is done while others run
    until(lambda: journal.exists() and journal.read_text().count('"state":1') > 0)
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert out == ""
    if number in LINES:
        assert process.returncode == 128 + number
        assert re.fullmatch(
            re.escape(LINES[number].rstrip()) + r"; \d of 4 points are in \S+: the .* goes on\n", said(err)
        )
    until(lambda: not others_of(process))
    assert {path.name for path in journal.parent.iterdir()} == {"journal.log", "journal.log.lock"}
    done = journal.read_text().count('"state":1')
    process = start(*command)
    out, err = process.communicate(timeout=200)
    assert (process.returncode, said(err), json.loads(out)["points"]) == (0, "", 4)
    assert journal.read_text().count('"state":1') == 4 > done
    assert len(journal.with_name("points.csv").read_text().splitlines()) == 5


RUNS = {
    "emit": ("emit pezo --board kv260 -o out --force", 3),
    "estimate": ("estimate urng", 5),
    "verify": ("verify urng --words 50 --waves w.vcd --force", 20),
    "tune": ("tune --epochs 3 -o out.safetensors --plot a.png --force", 8),
    "tune, zeroth order": ("tune --method pezo-otf --steps 200 -o out.safetensors --delta a.delta --force", 8),
    "tune, RTL": ("tune --engine rtl --epochs 1 -o out.safetensors --force", 60),
    "prove": ("prove urng", 10),
    "mutate": ("mutate urng --faults 4 --words 50 -o a.jsonl", 30),
    "table": ("table fedspzo --processes 2 --seeds 2", 20),
    "demo": ("demo -o out --force", 60),
}
"""Commands and their approximate seconds."""
STOPS = 12
"""Interruptions per command in the slow tests."""
OLD = dict.fromkeys(("w.vcd", "out.safetensors", "a.png", "a.delta", "out/spec.json", "out/report.html"), b"old")


def contents(folder):
    """Bytes of all files by path; waveforms without their date."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data.partition(b"$timescale")[2] or data for name, data in found.items()}


SIGN_OF_LIFE = re.compile(r"[^\n]*[ ,]\d+ s\n")


def said(err):
    """Output of a command without progress lines, which appear after some seconds."""
    return "".join(line for line in err.splitlines(keepends=True) if not SIGN_OF_LIFE.fullmatch(line))


def stop_at(process, number, delay):
    """Signal a command some seconds after it becomes interruptible; False if it has ended before."""
    until(lambda: process.poll() is not None or catches(process, signal.SIGTERM))
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    out, err = process.communicate(timeout=200)
    # after printing its result a command may be killed by the signal itself
    if process.returncode in (0, 1) or (process.returncode == -number and out and json.loads(out)):
        return False
    assert process.returncode == 128 + number
    assert said(err).startswith(LINES[number].rstrip())
    assert said(err).count("\n") == 1
    assert out == ""
    return True


def check_stops(run, stops, start, cache, tmp_path, scratch):
    line, seconds = RUNS[run]
    rng = random.Random(run)
    for name, data in OLD.items():
        if name.partition("/")[0] in line.split():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
    before, seen = contents(tmp_path), []
    for stop in range(stops):
        process = start(*line.split(), "--json")
        stopped = stop_at(process, list(LINES)[stop % len(LINES)], rng.uniform(0, seconds))
        until(lambda process=process: not others_of(process))
        assert [path for path in scratch.iterdir() if "torchinductor" not in path.name] == []
        assert list(cache.rglob(".making-*")) == []
        seen.append(contents(tmp_path))
        if not stopped and run != "mutate":
            for path in before:
                (tmp_path / path).write_bytes(before[path])
    if run != "table":  # takes minutes
        process = start(*line.split(), "--json")
        _, err = process.communicate(timeout=400)
        assert process.returncode in (0, 1), err
        assert said(err) == ""
    after = contents(tmp_path)
    for files in seen:
        assert files.keys() <= after.keys()
        for name, data in files.items():
            # the record of a campaign grows
            assert data in (before.get(name), after[name]) or (name == "a.jsonl" and after[name].startswith(data)), name


@pytest.fixture
def scratch(tmp_path_factory, monkeypatch):
    """Folder for temporary files."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.mark.parametrize("run", ["emit", pytest.param("estimate", marks=pytest.mark.slow)])
def test_a_stop_leaves_nothing_half_done(run, start, cache, tmp_path, scratch):
    check_stops(run, 2, start, cache, tmp_path, scratch)


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_stops_at_many_moments(run, start, cache, tmp_path, scratch):
    check_stops(run, STOPS, start, cache, tmp_path, scratch)
