"""Words that are no names of modules."""

import pytest

from fabtune.hw.reserved import keyword_of


@pytest.mark.parametrize(
    ("name", "language"),
    [("module", "Verilog"), ("logic", "Verilog"), ("Module", None), ("Entity", "VHDL"), ("urng", None)],
)
def test_keywords_are_told_by_their_language(name, language):
    assert keyword_of(name) == language
