"""`fabtune cost`: parameters, operations and bytes of every method."""

import json

import pytest

from fabtune.golden.models.presets import NETWORKS
from fabtune.golden.models.text import text_of


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


MISTAKES = {
    "cost nosuch": "nosuch is neither file.py:build, file.onnx, one line, nor a preset: lenet5-mnist",
    "cost digits --model digits": "digits and --model digits both name the network: give one of them",
    "cost digits --weights any.pt": "--weights has no meaning with cost, which does not depend on them: leave it out",
    "cost --rank 0": "Invalid value for '--rank'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
