"""The command line as a whole: help, list, imports, one line for every mistake, and commands that are stopped."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.scripts.cli import SECTIONS, main

COMMANDS = [name for names in SECTIONS.values() for name in names]
SLOW = ("torch", "matplotlib", "sklearn", "scipy")
LOADED = """
import sys
from fabtune.scripts.cli import main
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
found = [name for name in {slow} if name in sys.modules]
assert not found, found
"""


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "tune --help",
        "list",
        "list --json",
        "emit urng",
        "emit instantft --preset tiny --set columns=2 --set rank=2 --set 'network=64 fc10'",
        "estimate urng",
    ],
)
def test_what_needs_no_training_imports_nothing_for_it(tmp_path, arguments):
    program = [sys.executable, "-c", LOADED.format(slow=SLOW), *shlex.split(arguments)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_imports_neither_blocks_nor_numpy(tmp_path):
    program = [sys.executable, "-c", LOADED.format(slow=("numpy", "amaranth", "rich")), "--help"]
    assert subprocess.run(program, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_help_shows_every_command(fabtune):
    status, out, _ = fabtune("--help")
    assert status == 0
    for title, names in SECTIONS.items():
        assert f"{title}:" in out
        assert all(f"  {name}  " in out for name in names)


def leaves(group, words=()):
    """Commands that are no groups, as the user writes them."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield from leaves(command, (*words, name)) if isinstance(command, click.Group) else [" ".join((*words, name))]


@pytest.mark.parametrize("command", list(leaves(main)))
def test_every_command_explains_itself(fabtune, command):
    status, out, _ = fabtune(*command.split(), "--help")
    assert status == 0
    assert f"Usage: main {command}" in out
    assert "--json" in out


def test_no_command_shows_the_help(fabtune):
    assert fabtune()[0] == 2


MISTAKES = {
    "bogus": "No such command 'bogus'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)


def test_list_names_every_block_with_its_parameters(fabtune):
    status, out, _ = fabtune("list", "--json")
    listing = json.loads(out)
    assert status == 0
    assert list(listing) == list(BLOCKS)
    assert listing["pezo"]["parameters"]["scale.urng.bits"] == 8
    assert set(listing["pezo"]["presets"]) == {"pool", "otf8", "otf14"}
    status, out, _ = fabtune("list")
    assert status == 0
    assert all(name in out for name in BLOCKS)


# a shell's background command ignores SIGINT, and so do all that it starts
STARTED = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from fabtune.scripts.cli import main; main(prog_name='fabtune')"
)
LINES = {signal.SIGINT: "fabtune: interrupted\n", signal.SIGTERM: "fabtune: terminated\n"}


@pytest.fixture
def cache(tmp_path_factory):
    """An empty cache."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(tmp_path, cache):
    """Start a command in a session and with a cache of its own."""
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


def until(condition):
    """Wait for a condition, at most some minutes."""
    for _ in range(4000):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("the condition does not come")


def catches(process, number):
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in Linux' /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_trials_end_with_their_command(start, tmp_path, number):
    process = start("table", "fedspzo", "--processes", "2", "--seeds", "9")
    until(lambda: sum("spawn_main" in one for one in others_of(process)) == 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert out == ""
    if number in LINES:
        assert (process.returncode, err) == (128 + number, LINES[number])
    until(lambda: not others_of(process))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", LINES)
def test_a_fine_tuning_that_is_stopped_leaves_no_file(start, cache, tmp_path, number):
    process = start("tune", "--method", "mezo", "--steps", "1000000", "-o", "tuned.safetensors", "--plot", "a.png")
    until(lambda: catches(process, signal.SIGTERM) and list(cache.glob("pretrained/*.safetensors")))
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert (process.returncode, out, err) == (128 + number, "", LINES[number])
    assert list(tmp_path.iterdir()) == []
