"""A run on sentences from `tune` to `evaluate`, `export` and plain `transformers`, from a user's view."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "your-language-model.md"
TUNE = ("tune", "--method", "pezo-otf", "--data", "csv:.", "--steps", 12, "--json", "--force")
BOTH = ("-o", "run.safetensors", "--delta", "d.safetensors")

pytestmark = pytest.mark.usefixtures("sentences")


def recipes():
    """Python code of the page, for prompts and for label words."""
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def accuracy_of(code, folder):
    """Accuracy by the page's code in a folder of a user's sentences."""
    names = {}
    exec(code.replace("TUNED", str(folder)), names)
    rows = [line.split(",", 1) for line in (folder.parent / "test.csv").read_text().splitlines()]
    return np.mean([names["label_of"](text.strip('"')) == int(label) for label, text in rows])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prompts", "label-words"])
def test_there_and_back(fabtune, tmp_path, tiny_transformer, tiny_decoder, kind):
    folder, code = (tiny_transformer, recipes()[0]) if kind == "prompts" else (tiny_decoder, recipes()[1])
    if kind == "label-words":
        (tmp_path / "label-words.txt").write_text("{0} It was\n bad\n great\n")
    status, out, err = fabtune(*TUNE, *BOTH, "--model", folder, "--rate", "3e-3")
    assert status == 0, err
    tuned = json.loads(out)
    assert tuned["accuracy_after"] != tuned["accuracy_before"]
    status, out, err = fabtune("evaluate", "run.safetensors", "--json", "--logits", "l.npz")
    assert status == 0, err
    found = json.loads(out)
    assert (found["accuracy"], found["data"], found["engine"]) == (tuned["accuracy_after"], "csv:.", "golden")
    with np.load("l.npz") as arrays:
        assert np.mean(arrays["logits"].argmax(axis=1) == arrays["labels"]) == found["accuracy"]
    of_delta = ("evaluate", "d.safetensors", "--model", folder, "--data", "csv:.", "--json", "--engine", "float")
    in_floats = json.loads(fabtune(*of_delta)[1])
    assert in_floats["golden_accuracy"] == in_floats["accuracy"] == found["accuracy"]
    assert in_floats["confusion"] == found["confusion"]
    before = json.loads(fabtune("evaluate", "--model", folder, "--data", "csv:.", "--json")[1])
    assert before["accuracy"] == tuned["accuracy_before"]
    assert fabtune("export", "run.safetensors", "--to", "transformers", "-o", "TUNED")[0] == 0
    status, out, err = fabtune("delta", "apply", "d.safetensors", "--model", folder, "-o", "AGAIN")
    assert (status, out) == (0, "AGAIN\n"), err
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "TUNED" / name).read_bytes() == (tmp_path / "AGAIN" / name).read_bytes()
    assert accuracy_of(code, tmp_path / "TUNED") == found["accuracy"]
    card = (tmp_path / "TUNED" / "README.md").read_text()
    assert f"{100 * tuned['accuracy_after']:.1f} % after" in card
    assert code.replace("TUNED", ".") in card


@pytest.mark.slow
def test_sensitive_weights(fabtune, tmp_path, tiny_transformer):
    status, out, err = fabtune(
        *("tune", "--method", "sparse-zo", "--data", "csv:.", "--steps", 8, "--rate", "0.1", "--mask", "task"),
        *("--fraction", "0.05", "--json", *BOTH, "--model", tiny_transformer),
    )
    assert status == 0, err
    expected = json.loads(out)["accuracy_after"]
    runs = (("run.safetensors",), ("d.safetensors", "--model", tiny_transformer, "--data", "csv:."))
    assert [json.loads(fabtune("evaluate", *run, "--json")[1])["accuracy"] for run in runs] == [expected] * 2
    assert fabtune("export", "run.safetensors", "--to", "transformers", "-o", "TUNED")[0] == 0
    assert accuracy_of(recipes()[0], tmp_path / "TUNED") == expected


MISTAKES = {
    "evaluate run.safetensors --engine rtl": "--engine rtl classifies no sentences",
    "evaluate run.safetensors --scale 2": "--scale belongs to a network of layers",
    "evaluate run.safetensors --data digits": "--data digits has no sentences",
    "evaluate run.safetensors --logits l.txt": "a file of --logits ends in .npz",
    "evaluate run.safetensors --logits old.npz": "old.npz exists",
    "evaluate d.safetensors --data csv:.": "give it with --model",
    "evaluate run.safetensors --model gone": "gone",
    "export run.safetensors --to npz -o x.npz": "take --to transformers",
    "export run.safetensors --to onnx -o x.pt": "ends in .onnx",
    "export run.safetensors --to gguf -o x.gguf": "is no GGUF file",
    "export run.safetensors --to transformers -o data": "data exists",
    "export run.safetensors --to transformers -o data --force": "is not replaced",
    "export gone --to transformers -o x": "there is no run gone",
    "delta apply run.safetensors --model . -o x": "run.safetensors is no delta of a text task",
    "delta apply d.safetensors --model d.safetensors -o x": "is no folder of transformers",
}


def test_mistakes_are_one_line_and_leave_nothing(fabtune, refused, tmp_path, tiny_transformer):
    assert fabtune(*TUNE, "--steps", 1, *BOTH, "--model", tiny_transformer)[0] == 0
    (tmp_path / "old.npz").write_text("")
    for command, message in MISTAKES.items():
        assert message in refused(command), command
