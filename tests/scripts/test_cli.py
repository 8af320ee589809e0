"""The whole command line: help, list, imports, and one line for every mistake."""

import json
import shlex
import subprocess
import sys

import click
import pytest

from fabtune.golden.registry import BLOCKS, CORES
from fabtune.scripts.cli import SECTIONS, main

from ..small_cores import ADAPTERS, options

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
        f"emit instantft {shlex.join(options(ADAPTERS))}",
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


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["sklearn"] = None  # an import of either is an error
from fabtune.scripts.cli import main
main()
"""
WORDS = {
    "tune --rate 0": "rate = 0.0: a learning rate is above 0",
    "tune --engine rtl --core bogus": "there is no core 'bogus'; there are: instantft tiny, small, fast, chip, wide",
    "tune --data bogus": "there is no task 'bogus'; there are: digits, mnist",
    "package instantft --board bogus": "no board called 'bogus'",
}


@pytest.mark.parametrize("command", WORDS)
def test_a_wrong_word_is_refused_before_any_work(tmp_path, command):
    program = [sys.executable, "-c", WITHOUT_TORCH, *shlex.split(command)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert WORDS[command] in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_shows_every_command(fabtune):
    status, out, _ = fabtune("--help")
    assert status == 0
    for title, names in SECTIONS.items():
        assert f"{title}:" in out
        assert all(f"  {name}  " in out for name in names)


@pytest.mark.parametrize("group", ["", "delta"])
def test_no_summary_is_cut_or_wraps(fabtune, group):
    _, out, _ = fabtune(*group.split(), "--help")
    listed = out.partition("Commands:" if group else "Hardware blocks:")[2].splitlines()
    assert all(line.endswith((".", ":")) and not line.endswith("...") for line in listed if line)


def leaves(group, words=()):
    """Commands other than groups, as users write them."""
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
    "tunne": "No such command 'tunne'; did you mean tune?",
    "list bogus": "there is no block 'bogus'",
    "list --set n=3": "--set",
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


def test_list_describes_the_parameters_and_ports_of_one_block(fabtune):
    status, out, _ = fabtune("list", "mac", "--set", "lanes=16", "--json")
    mac = json.loads(out)
    assert status == 0
    assert mac["parameters"]["lanes"]["value"] == 16
    assert mac["ports"]["i"]["fields"]["x"]["format"] == "16 x Q8.16"
    status, out, _ = fabtune("list", "urng")
    assert status == 0
    assert "31 x Q1.7" in out
    assert "Width of a generator, 4 to 16" in out


@pytest.mark.parametrize(
    ("command", "cores"), [("tune", CORES), ("evaluate", ["instantft", "zotrain"]), ("federate", ["zotrain"])]
)
def test_the_help_of_core_lists_all_presets(fabtune, command, cores):
    text = " ".join(fabtune(command, "--help")[1].split())
    for name in CORES:
        listed = f"{name}: {', '.join(CORES[name].presets)}"
        assert (listed in text) == (name in cores)
