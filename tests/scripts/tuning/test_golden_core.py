"""`fabtune tune --engine golden-core`: commands of the host driver tune on the golden core as the integers do."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.models.checkpoint import load_saved
from fabtune.sim.cores.zeroth_order_job import TrainingJob

TRAINING = ("tune", "--data", "digits", "--method", "pezo-otf", "--steps", 2)
JOBS = {"instantft": ("tune", "--data", "digits", "--epochs", 1), "zotrain": TRAINING}


@pytest.mark.parametrize("name", JOBS)
def test_a_core_tunes_as_the_integers(fabtune, name):
    status, out, _ = fabtune(*JOBS[name], "--engine", "golden-core", "--json")
    assert status == 0
    report = json.loads(out)
    assert (report["engine"], report["mismatches"], report["bit_exact"]) == ("golden-core", 0, True)
    assert report["commands"] == {"instantft": 5, "zotrain": 4}[name]


def test_files_of_both_engines_are_equal(fabtune, tmp_path):
    tensors, accuracies = {}, set()
    for engine in ("golden", "golden-core"):
        file = f"{engine}.safetensors"
        status, out, _ = fabtune(*TRAINING, "--engine", engine, "-o", file, "--json")
        assert status == 0
        accuracies.add(json.loads(out)["accuracy_after"])
        tensors[engine], _ = load_saved(tmp_path / file)
    assert len(accuracies) == 1
    ours, theirs = tensors.values()
    assert [*ours] == [*theirs]
    assert all(np.array_equal(ours[title], theirs[title]) for title in ours)


def test_a_core_that_tunes_otherwise_is_told(fabtune, monkeypatch):
    run = TrainingJob.run
    monkeypatch.setattr(TrainingJob, "run", lambda job, host: run(replace(job, position=job.position + 1), host))
    status, out, _ = fabtune(*TRAINING, "--engine", "golden-core")
    assert status == 1
    assert "the golden core took 4 commands of the host driver and tuned otherwise than the integers, 1 mismatch" in out


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("tune --method mezo --engine golden-core", "gaussian numbers are floats, which cannot be added to integers"),
        ("tune --method sparse-zo --engine golden-core", "--engine golden-core tunes all parameters"),
        ("tune --method lora-all --engine golden-core", "which the integer engine cannot"),
        (
            "evaluate --engine golden-core --data digits",
            "there is no engine 'golden-core'",
        ),
    ],
)
def test_other_jobs_are_refused(refused, asked, message):
    assert message in refused(asked)
