"""Files for Vivado, as pure functions of strings.

Scripts find files in their folder, so any working directory works. No script names an IP version: Vivado takes the
installed version.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ...golden.errors import UserError
from ..board import Board, board
from . import tcl


def flow(
    emitted_top: str,
    clock_port: str,
    is_core: bool,
    board_name: str,
    mhz: float,
    verilog_name: str,
) -> dict[str, str]:
    """Vivado's files for a top module, text by name: ``synth_ooc.tcl``, ``project.tcl`` and constraints.

    The constraints are ``<top>_ooc.xdc`` and ``<board>.xdc``. A core (``is_core``) has AXI4-Stream ports and goes into
    a block design. ``verilog_name`` is a file in the same folder. A `UserError` for a name that Vivado or Tcl does not
    take.
    """
    for name in (emitted_top, clock_port, verilog_name):
        # Tcl has the names between braces, and Vivado reads some as patterns
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise UserError(f"{name!r} is no name for Vivado: letters, digits, '_', '.' and '-' only, and no folders")
    target = board(board_name)
    synthesis = synthesis_files(emitted_top, clock_port, target, mhz, verilog_name)
    script, timing, pins = synthesis
    files = {"constraints": timing, "pins": pins, "sources": verilog_name}
    project = design_settings(emitted_top, target, mhz, core=str(int(is_core))) | files
    return {script: synthesis[script], "project.tcl": tcl.script("project", project, ["set_board"]), **synthesis}


def synthesis_files(top: str, clock: str, target: Board, mhz: float, verilog: str) -> dict[str, str]:
    """Out-of-context synthesis of a top module: script, its clock constraint, and the board's constraints."""
    timing = f"{top}_ooc.xdc"
    settings = {"top": top, "part": target.part, "clock": clock, "constraints": timing, "sources": verilog}
    return {
        "synth_ooc.tcl": tcl.script("synth_ooc", settings),
        timing: ooc_xdc(clock, mhz),
        f"{target.name}.xdc": board_xdc(target),
    }


def design_settings(top: str, target: Board, mhz: float, **kind: str) -> dict[str, str]:
    """Settings of the script that makes a board's project; some depend on the kind of the top module."""
    return {
        "top": top,
        "part": target.part,
        "board": target.name,
        "board_part": target.board_part,
        "board_connections": target.board_connections,
        **kind,
        "pll": target.processor_clock.pll,
        "mhz": f"{float(mhz):.6f}".rstrip("0").rstrip("."),
    }


def period_ns(mhz: float) -> str:
    """Period in ns with Vivado's three decimals, rounded down so that timing is not relaxed.

    A `UserError` if the frequency is not in 1 to 1000 MHz.
    """
    if not 1 <= mhz <= 1000:
        raise UserError(f"{mhz} MHz is not a clock for this fabric: give 1 to 1000")
    # exact decimals: 74.25 and 0.1 as written
    picoseconds = int(Fraction(10**6) / Fraction(str(mhz)))
    return f"{picoseconds // 1000}.{picoseconds % 1000:03d}"


def ooc_xdc(clock_port: str, mhz: float) -> str:
    """Clock constraint of a block synthesised out of context."""
    return (
        "# used out of context only: in a design the clock comes from outside the block\n"
        f"create_clock -name {clock_port} -period {period_ns(mhz)} [get_ports {{{clock_port}}}]\n"
    )


def board_xdc(target: Board) -> str:
    """Constraints of a board: oscillators and user pins.

    Ports have the names of `Board.clocks`, with ``_p`` and ``_n``, and of `Board.pins`.
    """
    lines = [
        f"# {target.name}, {target.part}",
        "# For a top module with ports of these names; delete the lines of those it does not have.",
        "",
    ]
    if not target.clocks:
        lines += [
            "# No oscillator reaches the programmable logic: take the clock from the processor, pl_clk0.",
            "",
        ]
    for clock in target.clocks:
        lines += [f"# {clock.mhz:g} MHz"]
        for side, pin in (("p", clock.p), ("n", clock.n)):
            lines += [_pin(pin, clock.standard, f"{clock.name}_{side}")]
        lines += [
            f"create_clock -name {clock.name} -period {period_ns(clock.mhz)} [get_ports {{{clock.name}_p}}]",
            "",
        ]
    for group in target.pins:
        lines += [f"# {group.name}{': ' * bool(group.note)}{group.note}"]
        for index, pin in enumerate(group.pins):
            port = group.name if len(group.pins) == 1 else f"{group.name}[{index}]"
            lines += [_pin(pin, group.standard, port)]
        lines += [""]
    return "\n".join(lines)


def _pin(pin: str, standard: str, port: str) -> str:
    return f"set_property -dict {{PACKAGE_PIN {pin} IOSTANDARD {standard}}} [get_ports {{{port}}}]"
