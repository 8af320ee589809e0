"""Cache of object files of Verilator's own sources: a small ccache for its makefiles.

A small block compiles in a second, Verilator's runtime in ten, but the runtime is equal for all designs. All other
sources are compiled each time: cocotb's, for example, include the design's header.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from ...golden.cache import cached


def compile_once(command: list[str]) -> int:
    """Run a compiler, or copy the object from an earlier run with the same input; return the exit status.

    Parameters
    ----------
    command : list of str
        Compiler, options, ``-o``, object, source.
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
    """The compiler failed, and has already printed the reason."""


def _key(command: list[str], source: Path) -> str:
    """Digest of command, source, all headers beside it, and the compiler's path, size and time."""
    compiler = Path(shutil.which(command[0]) or command[0]).resolve()
    digest = hashlib.sha256(repr((command, compiler, compiler.stat().st_size, compiler.stat().st_mtime_ns)).encode())
    for path in (source, *sorted(source.parent.rglob("*.h"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves no half entry in the cache
    sys.exit(compile_once(sys.argv[1:]))
