"""`fabtune which`: cores, presets and boards for a network, as `import` and `cost` have them."""

import json
from pathlib import Path

import pytest

from fabtune.boards.board import BOARDS
from fabtune.scripts.imports.network import refusals
from fabtune.scripts.imports.which import first_line


def which(fabtune, *arguments):
    status, out, err = fabtune("which", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def by_name(result):
    return {(core["core"], core["preset"]): core for core in result["cores"]}


def test_a_network_of_layers_as_import_has_it(fabtune):
    result = which(fabtune, "digits")
    imported = json.loads(fabtune("import", "digits", "--json")[1])
    assert result["first"] == imported["which"]
    assert result["first"] == (
        "which core: instantft tiny, small, fast, chip, wide (1,016 parameters of low-rank adapters, with gradients); "
        "zotrain tiny, small, fast (all 4,538 parameters, by zeroth order)"
    )
    assert [{**core, "milliseconds": 0} for core in result["cores"] if not core["refusal"]] == [
        {**core, "milliseconds": 0} for core in imported["cores"] if not core["refusal"]
    ]
    tiny = by_name(result)["zotrain", "tiny"]
    assert (tiny["cycles"], tiny["parameter_bytes"], tiny["milliseconds"]) == (198, 9424, 0.001056)
    assert [reason.partition(":")[0] for reason in result["reasons"]] == ["not on zotrain large", "not on zostream"]


def test_a_transformer_as_cost_has_it(fabtune):
    result = which(fabtune, "--model", "vit-digits")
    cost = json.loads(fabtune("cost", "vit-digits", "--json")[1])
    assert [core["refusal"] for core in result["cores"]] == [core["refusal"] for core in cost["presets"]]
    assert [core.get("cycles") for core in result["cores"]] == [core.get("cycles") for core in cost["presets"]]
    assert result["first"] == "which core: zostream tiny, small (all 69,130 parameters, by zeroth order)"
    assert "heads of 16 features" in result["reasons"][0]
    assert result["reasons"][-1] == "not on instantft, zotrain: for a network of layers"


def test_a_description(fabtune):
    result = which(fabtune, "64 fc8 relu fc10")
    assert result["kind"] == "network of layers"
    assert by_name(result)["zotrain", "tiny"]["tunes"] == "all 610 parameters, by zeroth order"


def test_the_readmes_figures_are_those_of_the_command(fabtune):
    readme = " ".join((Path(__file__).parents[3] / "README.md").read_text().split())
    small = by_name(which(fabtune, "minilm"))["zostream", "small"]
    time, size = f"{small['milliseconds']:.0f} ms", f"{small['parameter_bytes'] / 1e6:.1f} MB"
    assert f"through MiniLM takes about {time} on `zostream small`, with {size} of parameters in DRAM" in readme


def test_presets_that_fit_on_no_board_are_left_out():
    lacks = {name: f"does not fit on the {name}" for name in BOARDS}
    one = {"core": "a", "preset": "small", "refusal": "", "tunes": "all", "lacks": {}}
    cores = [one, {**one, "preset": "fast", "lacks": lacks}, {"core": "b", "preset": "tiny", "refusal": "too deep"}]
    assert first_line(cores) == "which core: a small (all)"
    assert first_line(cores[1:]) == "which core: none"
    assert [*refusals(cores)] == ["not on b tiny: too deep", *(f"a fast {text}" for text in lacks.values())]


@pytest.mark.parametrize(
    ("mistake", "reason"),
    [
        ("which", "name the network: fabtune which"),
        ("which digits --model digits", "both name the network"),
        ("which digits --input 64", "--input has no meaning with the preset digits"),
        ("which minilm --input 64", "--input has no meaning with the transformer minilm"),
        ("which nothing", "nothing is neither"),
        ("which vit-digit", "did you mean vit-digits?"),
    ],
)
def test_a_mistake_is_one_line(refused, mistake, reason):
    assert reason in refused(mistake)
