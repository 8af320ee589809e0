"""Sweep journals: each point once, with several and killed processes; samplers; other files."""

import json
import signal
import subprocess
import sys
from collections import Counter

import pytest

from fabtune.boards.sweep.study import Study
from fabtune.golden.errors import UserError

WORKER = """
import sys
from pathlib import Path
from fabtune.boards.sweep.space import read
from fabtune.boards.sweep.study import Study
study, done = Study(read(Path(sys.argv[1])), Path(sys.argv[2])), []
while (values := study.claim()) is not None:
    print(sorted(values.items()), flush=True)
    if sys.stdin.readline():
        study.tell((1.0, values["settings.leap"]))
"""
"""Claims points, prints each, and finishes it on a line of standard input."""


@pytest.fixture
def worker(tmp_path):
    """Start a process that claims points of a journal."""
    running = []

    def begin():
        program = [sys.executable, "-c", WORKER, str(tmp_path / "space.toml"), str(tmp_path / "journal.log")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(program, **pipes))
        return running[-1]

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def evaluate(study, count=None):
    """Finish some or all points; a leap of 3 is infeasible."""
    found = []
    while (count is None or len(found) < count) and (values := study.claim()) is not None:
        bits, leap = values["settings.bits"], values["settings.leap"]
        study.tell((bits / leap, leap), "three" if leap == 3 else "")
        found.append(values)
    return found


def test_a_grid_is_every_point_once(space_of, tmp_path):
    space = space_of()
    study = Study(space, tmp_path / "journal.log")
    assert evaluate(study) == list(space.grid())
    points = study.points()
    assert [one.reason for one in points] == ["", "", "three"] * 2
    assert [one.objectives for one in points if not one.reason] == [(8, 1), (4, 2), (10, 1), (5, 2)]
    assert [one.objectives for one in study.front()] == [(4, 2), (8, 1)]


def test_a_sweep_goes_on_where_it_was(space_of, tmp_path):
    space, journal = space_of(), tmp_path / "journal.log"
    first = evaluate(Study(space, journal), 2)
    second = Study(space, journal)
    assert first + evaluate(second) == list(space.grid())
    assert len(second.points()) == 6


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_samplers_draw_the_same_however_often_they_are_stopped(space_of, tmp_path, sampler):
    swept = "\nbits = [8, 10]\nleap = { from = 1, to = 3 }\nn = { from = 3, to = 59, step = 2, log = false }\n"
    space = space_of(sampler=f'"{sampler}"', trials="25", sweep__settings=swept)
    whole = evaluate(Study(space, tmp_path / "whole.log"))
    parts = [one for _ in range(5) for one in evaluate(Study(space, tmp_path / "parts.log"), 5)]
    assert whole == parts
    assert len(whole) == 25
    assert len({one["settings.n"] for one in whole}) > 8


def test_more_trials_go_on(space_of, tmp_path):
    for trials in ("2", "5"):
        study = Study(space_of(sampler='"random"', trials=trials), tmp_path / "journal.log")
        evaluate(study)
    assert len(study.points()) == 5


def test_a_point_whose_process_was_killed_is_run_again(space_of, tmp_path, worker):
    space = space_of()
    killed = worker()
    claimed = killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    study = Study(space, tmp_path / "journal.log")
    found = evaluate(study)
    assert str(sorted(found[0].items())) == claimed.strip()
    assert Counter(map(str, found)) == Counter(map(str, space.grid()))
    assert len(study.points()) == 6


def test_processes_share_the_points_of_a_journal(space_of, worker):
    space = space_of()
    one, other = worker(), worker()
    held = one.stdout.readline()
    # the other process takes all unclaimed points, and ends
    out, _ = other.communicate("\n" * 9, timeout=100)
    rest, _ = one.communicate("\n" * 9, timeout=100)
    assert rest == ""
    every = [str(sorted(values.items())) for values in space.grid()]
    assert sorted([held.strip(), *out.splitlines()]) == sorted(every)


def test_another_space_is_refused(space_of, tmp_path):
    evaluate(Study(space_of(), tmp_path / "journal.log"))
    with pytest.raises(UserError, match=r"journal.log is the journal of another space"):
        Study(space_of(board='"kv260"'), tmp_path / "journal.log")


@pytest.mark.parametrize("data", [b"precious", b"precious\nlines\n", b"\x00\xff" * 50, b'{"op_code":0\n'])
def test_another_file_is_refused_and_kept(space_of, tmp_path, data):
    (tmp_path / "journal.log").write_bytes(data)
    with pytest.raises(UserError, match="is no journal of a sweep"):
        Study(space_of(), tmp_path / "journal.log")
    assert (tmp_path / "journal.log").read_bytes() == data
    assert not (tmp_path / "journal.log.lock").exists()


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_line_that_was_not_written_to_its_end_is_dropped(space_of, tmp_path, cut):
    space, journal = space_of(), tmp_path / "journal.log"
    evaluate(Study(space, journal), 3)
    journal.write_bytes(journal.read_bytes()[:-cut])
    study = Study(space, journal)
    evaluate(study)
    done = Counter(json.dumps(one.values) for one in study.points())
    assert done == Counter(map(json.dumps, space.grid()))


def test_a_journal_that_is_damaged_inside_is_refused(space_of, tmp_path):
    journal = tmp_path / "journal.log"
    evaluate(Study(space_of(), journal), 3)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], b"???\n", *lines[4:]]))
    with pytest.raises(UserError, match="is damaged"):
        Study(space_of(), journal)
