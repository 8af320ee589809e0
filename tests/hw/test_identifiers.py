"""Words that cannot be module names, and names already in use."""

import pytest

from fabtune.hw.identifiers import add_name, keyword_of


@pytest.mark.parametrize(
    ("name", "language"),
    [("module", "Verilog"), ("logic", "Verilog"), ("Module", None), ("Entity", "VHDL"), ("urng", None)],
)
def test_keywords_are_told_by_their_language(name, language):
    assert keyword_of(name) == language


def test_equal_names_are_numbered_from_one():
    assigned = {"a", "a_1"}
    assert [add_name(assigned, name) for name in ("b", "a", "a", "b")] == ["b", "a_2", "a_3", "b_1"]
