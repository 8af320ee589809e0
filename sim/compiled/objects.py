"""Stands in for ccache in Verilator's makefiles: keeps the objects of Verilator's own sources.

A small block's own code compiles in a second, the runtime that Verilator brings along in ten, and it is the same for
every design. Other sources are compiled as ever: cocotb's, for one, includes the design's header.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ...golden.cache import cached


def compile_once(command: list[str]) -> int:
    """Run a compiler, or take what it made before of the same.

    Parameters
    ----------
    command : list of str
        As a makefile has it: the compiler, its options, ``-o``, the object, the source.

    Returns
    -------
    int
        The compiler's exit status.
    """
    source = Path(command[-1])
    if source.parent != Path(os.environ["VERILATOR_ROOT"], "include") or "-o" not in command:
        return subprocess.run(command, check=False).returncode
    made = Path(command[command.index("-o") + 1])
    status = 0

    def compile_it(entry: Path) -> None:
        nonlocal status
        status = subprocess.run(command, check=False).returncode
        if status:
            raise _CompilerError
        shutil.copyfile(made, entry)

    try:
        entry = cached("objects", f"{source.stem}-{_key(command, source)}.o", compile_it)
    except _CompilerError:
        return status
    shutil.copyfile(entry, made)
    return 0


class _CompilerError(Exception):
    """The compiler failed; it has said why."""


def _key(command: list[str], source: Path) -> str:
    """Of the command, the source, all headers beside it, and the compiler, which is known by its size and its time."""
    compiler = Path(shutil.which(command[0]) or command[0]).resolve()
    digest = hashlib.sha256(repr((command, compiler, compiler.stat().st_size, compiler.stat().st_mtime_ns)).encode())
    for path in (source, *sorted(source.parent.rglob("*.h"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


if __name__ == "__main__":
    sys.exit(compile_once(sys.argv[1:]))
