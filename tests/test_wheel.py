"""A wheel works outside the checkout: built, unpacked into a separate environment, and used there."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = ("golden", "hw", "sim", "boards", "mutation", "scripts")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = listed.stdout.split("\0")[:-1]
    if listed.returncode:
        pytest.skip("the sources are not a git checkout")
    for name in names:
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)],
        check=True, capture_output=True,
    )  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made


def test_it_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fabtune"}
    assert "fabtune/scripts/demo/report.html.j2" in names
    assert "fabtune/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert not any("tests/" in name or "docs/" in name for name in names)
    packages = {path.parent.relative_to(ROOT) for house in HOUSES for path in (ROOT / house).rglob("__init__.py")}
    assert [str(path) for path in sorted(packages) if f"fabtune/{path}/__init__.py" not in names] == []
    programs = {path.relative_to(ROOT) for path in (ROOT / "boards").rglob("*.c")}
    assert [str(path) for path in sorted(programs) if f"fabtune/{path}" not in names] == []


def test_it_works_in_a_clean_environment(wheel, tmp_path):
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    (packages,) = (environment / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    # dependencies of this environment, without this checkout
    mine = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(mine) + "\n")

    def run(*arguments):
        done = subprocess.run(
            [python, "-c", "from fabtune.scripts.cli import main; main()", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    where = subprocess.run(
        [python, "-c", "import fabtune; print(fabtune.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(environment)
    assert "urng" in run("list", "--json")
    assert run("emit", "urng", "--json")["files"] == ["urng.v", "spec.json"]
    assert run("verify", "urng", "--set", "n=3", "--words", "20", "--json")["mismatches"] == 0
    assert run("estimate", "urng", "--json")["resources"]["ff"] == 249
