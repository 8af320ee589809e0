"""A block as a folder of files: Verilog, memory contents, and Vivado's files for a board."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...golden.block import Spec
from ...golden.errors import UserError
from ...hw.verilog import emit
from ..board import DEFAULT_BOARD, DEFAULT_MHZ
from ..board import board as board_of
from .project import flow


def package(spec: Spec, board: str | None = None, top: str | None = None, mhz: float = DEFAULT_MHZ) -> dict[str, str]:
    """Text by file name of all files of a block.

    Parameters
    ----------
    spec : Spec
    board : str, optional
        Board for which the Verilog selects kinds of memory, by default `DEFAULT_BOARD`. A named board also adds
        constraints, an out-of-context synthesis script and a project script.
    top : str, optional
        Name of the top module, by default the block's.
    mhz : float
        Requested clock; for a core with streams a rate of the board's processor clock.

    Returns
    -------
    dict of str to str
        A memory's ``.mem`` holds a hexadecimal word per line, as ``$readmemh`` reads; the Verilog contains the same
        contents and does not need the file.
    """
    if board and spec.core:
        mhz = board_of(board).processor_clock.rate(mhz)
    emitted = emit(spec, top, board_of(board or DEFAULT_BOARD).fabric)
    verilog = f"{emitted.top}.v"
    files = {verilog: emitted.verilog}
    for name, (words, width) in spec.roms().items():
        digits = -(-width // 4)
        files[f"{emitted.top}_{name}.mem"] = "".join(f"{int(word):0{digits}x}\n" for word in words)
    files |= spec.documents()
    settings = {"block": spec.name, "parameters": dataclasses.asdict(spec)}
    files["spec.json"] = json.dumps(settings, indent=2) + "\n"
    if board:
        files |= flow(emitted.top, emitted.clock, spec.core, board, mhz, verilog)
    return files


def write(files: Mapping[str, str | bytes], folder: Path, force: bool = False) -> list[str]:
    """Write all files into a folder, or none at all; returns the names.

    A `UserError` if a file exists, unless ``force``; files of other names stay.
    """
    refuse_existing(files, folder, force)
    missing = next((part for part in reversed([folder, *folder.parents]) if not part.exists()), None)
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".fabtune-"))
    try:
        for name, content in files.items():
            (scratch / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        for name in files:
            os.replace(scratch / name, folder / name)
    except BaseException:
        if missing:
            shutil.rmtree(missing, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return list(files)


def refuse_existing(names: Iterable[str], folder: Path, force: bool) -> None:
    """Refuse to replace a file without ``--force``."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, not a folder: choose another with --output")
    for name in names:
        if (folder / name).exists() and not force:
            raise UserError(f"{folder / name} exists: choose another folder with --output, or --force to replace it")
