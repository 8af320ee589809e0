"""Specs as settings and back."""

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build, settings_of

CASES = [(name, preset) for name, kind in BLOCKS.items() for preset in (None, *kind.presets)]


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_settings_give_the_spec_again(name, preset):
    spec = build(BLOCKS[name], [], preset)
    assert build(BLOCKS[name], settings_of(spec)) == spec
