"""`fabtune emit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ....boards.board import DEFAULT_BOARD, DEFAULT_MHZ
from ....golden.errors import UserError
from ...display import show_files
from ...options import NAME_HELP, PATH, SectionedCommand, as_json, block, option, refuse_options, section, spec_of


@click.command(cls=SectionedCommand, short_help="Write a block's Verilog, memories and constraints.")
@section("Block", block())
@section(
    "Board",
    option(
        "--board",
        metavar="zcu102|kv260",
        help=f"Add its constraints and Vivado scripts; without it the kinds of memory are those of {DEFAULT_BOARD}.",
    ),
    option("--mhz", type=float, default=DEFAULT_MHZ, show_default=True, help="Clock frequency to synthesise for."),
)
@section(
    "Output",
    option("--output", "-o", type=PATH, help="Folder to write, by default build/BLOCK."),
    option("--name", metavar="SUFFIX", help=NAME_HELP),
    option("--top", metavar="NAME", help="Name of the top module, instead of CORE_SUFFIX; default: the block's."),
    option("--force", is_flag=True, help="Replace the folder's files of the same names."),
    as_json,
)
def command(
    board: str | None,
    mhz: float,
    output: Path | None,
    name: str | None,
    top: str | None,
    force: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Write a block's Verilog and memory contents, and for a board its constraints and Vivado scripts."""
    if board is None:
        refuse_options(["mhz"], "no --board")
    if top is not None and name is not None:
        raise UserError("--top is the whole name and --name the end of one: give one of them")
    from ....boards.identity import design_name
    from ....boards.vivado.package import package
    from ...outputs import OutputFolder

    spec = spec_of(**chosen)
    known = None if chosen["settings"] or chosen["model"] else chosen["preset"]
    folder = OutputFolder(output or Path("build") / spec.name, force, default=output is None)
    folder.refuse(["spec.json"])  # before seconds of work; other files once their names are known
    written = folder.write(package(spec, board, top or design_name(spec, name, known), mhz))
    show_files(folder.path, written, as_json)
