"""Sweep spaces from text."""

import pytest

from fabtune.boards.sweep.space import read

BASE = {
    "block": '"urng"',
    "objectives": '["lut", "ff"]',
    "sweep.settings": "\nbits = [8, 10]\nleap = { from = 1, to = 3 }\n",
}


@pytest.fixture
def space_of(tmp_path):
    """Space `BASE` with changed or additional tables and keys."""

    def make(**changed):
        parts = {name.replace("__", "."): text for name, text in changed.items()}
        found = {name: text for name, text in (BASE | parts).items() if text is not None}
        keys = [f"{name} = {text}" for name, text in found.items() if not text.startswith("\n")]
        tables = [f"[{name}]{text}" for name, text in found.items() if text.startswith("\n")]
        (tmp_path / "space.toml").write_text("\n".join([*keys, *tables]))
        return read(tmp_path / "space.toml")

    return make
