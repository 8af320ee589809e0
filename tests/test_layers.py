"""The arrows between the houses run one way: scripts -> sim -> boards -> hw -> golden."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "golden": set(),
    "hw": {"golden"},
    "sim": {"boards", "hw", "golden"},
    "boards": {"hw", "golden"},
    "scripts": {"boards", "sim", "hw", "golden"},
}


@pytest.mark.parametrize("house", MAY_IMPORT)
def test_a_house_imports_only_what_lies_below(house):
    for path in sorted((ROOT / house).rglob("*.py")):
        levels_to_the_root = len(path.relative_to(ROOT).parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == levels_to_the_root and node.module:
                assert node.module.split(".")[0] in MAY_IMPORT[house], f"{path.name} imports {node.module}"
            elif isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                assert not any(name.startswith("fabtune") for name in names), f"{path.name} imports absolutely"


def test_files_are_small():
    for house in MAY_IMPORT:
        for path in (ROOT / house).rglob("*.py"):
            assert len(path.read_text().splitlines()) <= 500, path
