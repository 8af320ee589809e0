"""Import rules between houses, areas, packages and files, and size limits."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = {
    "golden": set(),
    "hw": {"golden"},
    "boards": {"hw", "golden"},
    "sim": {"boards", "hw", "golden"},
    "mutation": {"sim", "boards", "hw", "golden"},
    "scripts": {"mutation", "sim", "boards", "hw", "golden"},
}
"""Allowed imports between houses. The simulator may import boards: the simulated core runs the host driver."""

BASE = {"block", "cache", "errors", "files", "fixed", "memories", "packets", "settings"}
"""Golden modules open to every area: a block's contract, settings as text, numbers, errors, cache, files."""
MODELS = {"models", "datasets"}
AREAS = {
    "golden": {
        "memories": set(),
        "models": set(),
        "datasets": {"models"},
        "rng": set(),
        "axi": set(),
        "nf4": {"rng"},
        "nn": {"rng", "axi", "models"},
        "lora": {"rng", "nf4", "axi", "nn", "models"},
        "zo": {"rng", "nf4", "axi", "nn", "models"},
        "transformer": {"models"},
        "importers": {"models", "transformer"},
        "stream": {"rng", "axi", "nf4", "nn", "transformer", "zo"},
        "cores": {"rng", "nf4", "nn", "lora", "zo", "axi", "models", "transformer", "stream"},
        "train": {"rng", "nf4", "nn", "lora", "zo", "transformer", "importers", "stream", *MODELS},
    },
    "hw": {
        "primitives": set(),
        "rng": {"primitives"},
        "nf4": {"primitives"},
        "axi": {"primitives"},
        "nn": {"primitives", "axi"},
        "lora": {"primitives", "rng", "nf4", "axi", "nn"},
        "zo": {"primitives", "rng", "nf4", "axi", "nn"},
        "stream": {"primitives", "nf4", "axi", "zo"},
        "cores": {"primitives", "rng", "nf4", "axi", "nn", "lora", "zo", "stream"},
    },
}
"""Allowed imports between areas of a house, in addition to modules outside areas."""
TRAIN = {
    "adapters": set(),
    "sparse": set(),
    "zo": {"sparse"},
    "text": {"zo", "sparse"},
    "federated": {"adapters", "zo", "sparse", "text"},
    "tuned": {"adapters", "zo"},
}
"""Allowed imports between packages of golden/train."""

CORES = {path.name for path in (ROOT / "golden" / "cores").iterdir() if (path / f"{path.name}.py").exists()}
"""Packages of cores; a shared trainer package has no spec of its own name."""
NAMES_A_CORE = {
    "golden/registry.py",  # the one line that makes it known
    "golden/axi/axi_registers.py",  # the value of a setting: whose register map the block has by default
    "golden/train/adapters/methods.py",  # the method of the same name
}
"""Files outside core packages that name a core."""

LONGEST_FILE = 500
LONGEST_FUNCTION = 65
REASON = "onger than most"
"""Text in the docstring of an overlong function; docstrings do not count as lines."""
WIDEST_FOLDER = 18


def module_of(path):
    """Import name of a file without ``fabtune.`` and ``__init__``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path):
    """Package that relative imports of a file start from."""
    return list(path.relative_to(ROOT).parts[:-1])


FILES = {module_of(path): path for house in HOUSES for path in sorted((ROOT / house).rglob("*.py"))}


@cache
def tree_of(path):
    """Syntax tree of a file, cached."""
    return ast.parse(path.read_text())


@cache
def imports(path):
    """Project modules imported by a file: (module, imported at import time)."""
    return [*imports_in(path, tree_of(path))]


def imports_in(path, tree):
    """Generator behind `imports`."""
    at_once = set(ast.walk(ast.Module(body=[*top_level(tree.body)], type_ignores=[])))
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package_of(path)[: len(package_of(path)) - node.level + 1]
        target = ".".join([*base, *([node.module] if node.module else [])])
        for name in node.names:
            found = f"{target}.{name.name}" if f"{target}.{name.name}" in FILES else target
            if found in FILES:
                yield found, node in at_once


def top_level(body):
    """Statements that run at import, functions excluded."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ClassDef):
            yield from top_level(node.body)
        else:
            yield node


def sorts(graph):
    """A cycle of a graph as text, or ""."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join(error.args[1])
    return ""


@pytest.mark.parametrize("house", HOUSES)
def test_a_house_imports_only_what_lies_below(house):
    for module, path in FILES.items():
        if module.split(".")[0] == house:
            for target, _ in imports(path):
                assert target.split(".")[0] in {house, *HOUSES[house]}, f"{module} imports {target}"


def test_imports_inside_the_package_are_relative():
    for module, path in FILES.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                assert not any(name.split(".")[0] == "fabtune" for name in names), f"{module} imports absolutely"


@pytest.mark.parametrize("house", AREAS)
def test_an_area_imports_only_the_areas_below_it(house):
    for module, path in FILES.items():
        parts = module.split(".")
        if parts[0] != house or len(parts) < 2 or parts[1] not in AREAS[house]:
            continue
        for target, _ in imports(path):
            other = target.split(".")
            if other[0] == house and len(other) > 1 and other[1] != parts[1]:
                allowed = AREAS[house][parts[1]] | (BASE if house == "golden" else set())
                outside = house == "hw" and other[1] not in AREAS["hw"]
                assert other[1] in allowed or outside, f"{module} imports {target}"


def test_every_folder_of_golden_and_hw_is_an_area():
    for house, areas in AREAS.items():
        folders = {path.name for path in (ROOT / house).iterdir() if (path / "__init__.py").exists()}
        assert folders == set(areas)


def test_areas_stand_in_every_room():
    blocks = {"rng", "nf4", "nn", "lora", "zo", "axi", "cores"}
    for room in ("golden", "hw", "sim", "docs/blocks"):
        assert blocks <= {path.name for path in (ROOT / room).iterdir() if path.is_dir()}, room


def test_packages_of_train_import_only_what_lies_below():
    for module, path in FILES.items():
        parts = module.split(".")
        if parts[:2] == ["golden", "train"]:
            for target, _ in imports(path):
                other = target.split(".")
                if other[:2] == parts[:2] and len(other) > 3 and other[2] != parts[2]:
                    assert len(parts) > 3, f"{module} is shared and imports {target}"
                    assert other[2] in TRAIN[parts[2]], f"{module} imports {target}"


def test_no_file_imports_itself_through_others():
    graph = {module: {target for target, now in imports(path) if now} for module, path in FILES.items()}
    assert sorts(graph) == ""


def test_no_package_imports_itself_through_others():
    graph = {}
    for path in FILES.values():
        own = ".".join(package_of(path))
        for target, _ in imports(path):
            other = ".".join(package_of(FILES[target]))
            if not (own.startswith(other) or other.startswith(own)):  # a package and its contents count as one
                graph.setdefault(own, set()).add(other)
    assert sorts(graph) == ""


def core_of(module):
    """Core whose package contains a module, or ""."""
    parts = module.split(".")[1:]
    return parts[1] if parts[:1] == ["cores"] and len(parts) > 1 and parts[1] in CORES else ""


def test_no_file_outside_a_core_s_rooms_imports_from_one():
    for module, path in FILES.items():
        for target, _ in imports(path):
            if core_of(target) not in ("", core_of(module)):
                assert str(path.relative_to(ROOT)) in NAMES_A_CORE, f"{module} imports {target}"


@pytest.mark.parametrize("house", ["golden", "hw", "sim", "boards"])
def test_no_file_outside_a_core_s_rooms_names_it(house):
    words = re.compile(rf"`?\b({'|'.join(CORES)})(Spec)?\b", re.IGNORECASE)
    for path in sorted(file for kind in ("py", "c", "h", "cpp", "tcl") for file in (ROOT / house).rglob(f"*.{kind}")):
        place = path.relative_to(ROOT)
        if place.parts[1] != "cores" and str(place) not in NAMES_A_CORE:
            # InstantFT is also the name of a paper
            named = [found[0] for found in words.finditer(path.read_text()) if found[1] != "InstantFT"]
            assert not named, f"{place} names {named[0]}"


@pytest.mark.parametrize("house", [*HOUSES, "tests"])
def test_files_and_folders_stay_small(house):
    for path in (ROOT / house).rglob("*.py"):
        assert len(path.read_text().splitlines()) <= LONGEST_FILE, path
        assert len(list(path.parent.glob("*.py"))) <= WIDEST_FOLDER, path.parent


@pytest.mark.parametrize("house", HOUSES)
def test_a_long_function_gives_its_reason(house):
    for path in sorted((ROOT / house).rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                lines = node.end_lineno - node.lineno + 1 - len(text.splitlines())
                place = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                assert lines <= LONGEST_FUNCTION or REASON in text, f"{place} has {lines} lines"
