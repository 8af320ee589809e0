"""`fabtune compare`: how much of a capture agrees, and the first difference."""

import json

import numpy as np
import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build


def test_compare_says_how_much_agrees_and_where_not(fabtune, tmp_path):
    spec = build(BLOCKS["urng"])
    numbers = spec.words_at(np.arange(20))
    np.savez(tmp_path / "good.npz", **{"o.number": numbers})
    numbers[7, 3] ^= 1
    np.savez(tmp_path / "bad.npz", **{"o.number": numbers})
    status, out, _ = fabtune("compare", "urng", "good.npz", "--json")
    assert status == 0
    assert json.loads(out)["agreed"] == json.loads(out)["compared"] == 620
    status, out, _ = fabtune("compare", "urng", "bad.npz")
    assert status == 1
    assert "619 of 620 numbers agree" in out
    assert "lane 3, word 7" in out


MISTAKES = {
    "compare urng nofile.csv": "no file 'nofile.csv'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)
