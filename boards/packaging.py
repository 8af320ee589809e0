"""A core as a folder that a board's tools take: the IP, scripts, drivers, and a README that says what to do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence

from ..golden.cores.shell import CoreSpec
from ..golden.errors import UserError
from ..hw.verilog import Emitted, emit
from .board import Board
from .vivado.ip import catalogue_files, vivado_files
from .vivado.ipxact import vlnv
from .vivado.project import period_ns

Files = dict[str, str]
"""Text by file name, with folders."""


def core_package(spec: CoreSpec, board: Board, targets: Sequence[str] = (), mhz: float = 200.0) -> Files:
    """Make all files of a core for a board.

    Parameters
    ----------
    spec : CoreSpec
    board : Board
    targets : sequence of str
        Which of `TARGETS`; none: all.
    mhz : float
        Clock that the scripts ask for.

    Returns
    -------
    dict of str to str
        Text by file name, the same on every machine.

    Raises
    ------
    UserError
        For an unknown target, or a frequency that is none.
    """
    if unknown := [name for name in targets if name not in TARGETS]:
        raise UserError(f"there is no {unknown[0]!r} to package for: choose one of {', '.join(TARGETS)}")
    period_ns(mhz)  # refuses a clock that is none
    emitted = emit(spec, device=board.fabric)
    settings = {"block": spec.name, "parameters": dataclasses.asdict(spec), "board": board.name}
    files = catalogue_files(spec, emitted)
    files |= {f"registers/{name}": text for name, text in spec.documents().items()}
    files["spec.json"] = json.dumps(settings, indent=2) + "\n"
    chosen = tuple(name for name in TARGETS if name in targets or not targets)
    for name in chosen:
        files |= TARGETS[name].files(spec, emitted, board, mhz)
    return {"README.md": _readme(spec, board, chosen, files)} | files


@dataclasses.dataclass(frozen=True)
class Target:
    """A tool or system that a package is for.

    Parameters
    ----------
    files : callable
        Function of spec, top module, board and frequency that makes the files.
    steps : str
        What a user does with them.
    """

    files: Callable[[CoreSpec, Emitted, Board, float], Files]
    steps: str


TARGETS = {
    "vivado": Target(
        vivado_files,
        """\
Vivado 2023.2 or later, with the board's files:

    vivado -mode batch -source vivado/system.tcl                     # the project, with the core in a block design
    vivado -mode batch -source vivado/system.tcl -tclargs build      # and out/: bitstream, .hwh, .xsa

For a design of your own add `ip/` to the IP repositories. `vivado/synth_ooc.tcl` synthesises the core by itself;
`vivado/package_ip.tcl` has Vivado make the IP anew.""",
    ),
}
"""What a package can be for, by name."""


def _readme(spec: CoreSpec, board: Board, targets: Sequence[str], files: Files) -> str:
    """Write the page of the folder."""
    folders = {name.partition("/")[0] for name in files if "/" in name}
    meanings = {
        "ip": f"the IP `{vlnv(spec)}`: IP-XACT description, Verilog, its page in Vivado",
        "registers": "the registers as a table, as SystemRDL and as a C header",
        "vivado": "scripts and constraints for Vivado",
    }
    lines = [f"# {spec.name} for the {board.name}", "", f"{spec.summary[0].upper()}{spec.summary[1:]}.", ""]
    lines += [f"Signature 0x{spec.signature:08X}; its parameters are in `spec.json`.", ""]
    lines += ["| folder | |", "|---|---|"]
    lines += [f"| `{name}/` | {meaning} |" for name, meaning in meanings.items() if name in folders]
    for name in targets:
        lines += ["", f"## {name}", "", TARGETS[name].steps]
    return "\n".join([*lines, ""])
