"""`fabtune cost`: parameters, operations and bytes of every method."""

import json

import pytest


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


MISTAKES = {
    "cost nosuch": "there is no network 'nosuch'",
    "cost --rank 0": "Invalid value for '--rank'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
