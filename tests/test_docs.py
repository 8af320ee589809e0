"""Pages: links, a page per block, and the example block of `docs/adding-a-block.md`, built from its text."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fabtune.golden.description import describe
from fabtune.golden.registry import BLOCKS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding-a-block.md"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
ROOMS = ("golden", "hw", "sim", "boards", "mutation", "scripts")


def missing(page):
    """Broken relative links of a page, outside code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$|`[^`\n]*`", "", text, flags=re.MULTILINE)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    return [target for target in local if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert missing(page) == []


def test_a_dead_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "[page](page.md#part) [out](https://example.org) [dead](gone.md)\n\n    [code](x)\n\n[late](gone)\n"
    )
    assert missing(page) == ["gone.md", "gone"]


@pytest.mark.parametrize("name", BLOCKS)
def test_one_name_four_rooms(name):
    area = BLOCKS[name].area()
    room = BLOCKS[name].__module__.partition(".golden.")[2].rpartition(".")[0].replace(".", "/")
    page = (ROOT / "docs" / "blocks" / area / f"{name}.md").read_text()
    for file in (f"golden/{room}/{name}.py", f"hw/{room}/{name}.py", f"sim/{room}/tb_{name}.py"):
        assert (ROOT / file).exists()
        assert f"(../../../{file})" in page
    assert f"\n    fabtune list {name}\n" in page


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_and_ports_have_a_meaning(name):
    block = describe(BLOCKS[name]())
    assert [path for path, parameter in block["parameters"].items() if not parameter["meaning"]] == []
    assert [port for port, about in block["ports"].items() if not about["meaning"]] == []


def fenced(text):
    """Files in code fences, by the preceding name."""
    found = re.findall(r"^`([\w/]+\.\w+)`\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package with the page's block, and an environment in which `fabtune` is this copy."""
    root = tmp_path_factory.mktemp("copy")
    package = root / "fabtune"
    for room in ROOMS:
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "__init__.py", package)
    for name, text in fenced(PAGE.read_text()).items():
        path = package / name
        assert not path.exists(), f"{name} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    registry = package / "golden" / "registry.py"
    text, count = re.subn(r",?\s*\)\s*\n\}", ", ReluSpec)\n}", registry.read_text())
    assert count == 1, "the registry's tuple is not where the page says"
    registry.write_text(text.replace("\nfrom .nn.softmax ", "\nfrom .nn.relu import ReluSpec\nfrom .nn.softmax ", 1))
    return root, os.environ | {"PYTHONPATH": str(root)}


def python(extended, *arguments):
    root, env = extended
    done = subprocess.run([sys.executable, *arguments], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fabtune(extended, *arguments):
    return python(extended, "-c", "from fabtune.scripts.cli import main; main()", *arguments)


def test_the_copy_is_what_is_imported(extended):
    found = Path(python(extended, "-c", "import fabtune.golden.nn.relu as relu; print(relu.__file__)").strip())
    assert found == extended[0] / "fabtune" / "golden" / "nn" / "relu.py"


def test_the_added_block_is_listed(extended):
    assert json.loads(fabtune(extended, "list", "--json"))["relu"]["parameters"] == {"lanes": 1}


def test_the_added_block_verifies(extended, fast_simulator):
    arguments = ("--set", "lanes=4", "--simulator", fast_simulator, "--json")
    verdict = json.loads(fabtune(extended, "verify", "relu", *arguments))
    assert (verdict["mismatches"], verdict["failures"], verdict["differences"]) == (0, [], [])
    # 4 tests of 2 jobs of 1000 words of 4 lanes
    assert verdict["compared"] == 4 * 2 * 1000 * 4
    # words and pauses do not depend on the simulator, nor do cycles
    assert f"{verdict['compared']} numbers compared in {verdict['cycles']} cycles, 0 differ" in PAGE.read_text()


def test_the_added_block_costs_what_its_page_says(extended):
    resources = json.loads(fabtune(extended, "estimate", "relu", "--json"))["resources"]
    page = (extended[0] / "fabtune" / "docs" / "blocks" / "nn" / "relu.md").read_text()
    assert f"{resources['lut']} LUT, {resources['ff']} FF." in page
    assert (resources["dsp"], resources["bram36"]) == (0, 0)


def test_the_added_block_is_emitted_for_a_board(extended):
    files = json.loads(fabtune(extended, "emit", "relu", "--board", "kv260", "--json"))["files"]
    assert "relu.v" in files


def test_the_added_blocks_own_test_passes(extended):
    test = extended[0] / "fabtune" / "tests" / "golden" / "nn" / "test_relu.py"
    assert "2 passed" in python(extended, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test))


def test_the_added_blocks_page_has_no_dead_link(extended):
    assert missing(extended[0] / "fabtune" / "docs" / "blocks" / "nn" / "relu.md") == []
