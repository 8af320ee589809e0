"""Yosys in a child process: an error inside it would end ours."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..golden.errors import UserError

WIDEN = "widen"
"""Gives the operands of each operator one width, so that no reader of the Verilog has to extend one silently."""
ORDER = "order"
"""Puts the top module's ports into the order that follows."""


class YosysError(UserError):
    """Yosys's own first error, in one line.

    Attributes
    ----------
    log : str
        All that it said.
    """

    def __init__(self, log: str) -> None:
        said = [line for line in log.splitlines() if line.strip()]
        errors = [line for line in said if "ERROR:" in line or "ModuleNotFoundError" in line]
        first = (errors or said[-1:] or ["it stopped without saying why"])[0]
        if "ModuleNotFoundError" in first:
            first = "pyosys is not installed in this Python: pip install pyosys"
        super().__init__(first.replace("ERROR: ", "").replace("\\", "").strip())
        self.log = log


def run(commands: Iterable[str], folder: Path) -> None:
    """Run Yosys commands in order, in a folder; they read and write files there by themselves.

    Two commands are ours: `WIDEN` and `ORDER`.

    Raises
    ------
    YosysError
        If one of them fails.
    """
    script = folder / "commands.ys"
    script.write_text("\n".join(commands) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__, script.name],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise YosysError(done.stdout + done.stderr)


_WIDE_AS_RESULT = ("$add", "$sub", "$and", "$or", "$xor")
_WIDE_AS_OPERANDS = ("$lt", "$le", "$gt", "$ge", "$eq", "$ne")
_SHIFTS = ("$shr", "$shift")


def _widen(design: Any) -> None:
    from pyosys import libyosys as ys

    a, b, y, a_signed, b_signed = (ys.IdString(f"\\{name}") for name in ("A", "B", "Y", "A_SIGNED", "B_SIGNED"))
    left = 0  # wires by whose name Verilator knows that their upper bits are left over on purpose
    for module in design.modules_.values():
        for wire in list(module.wires_.values()):
            wire.is_signed = False
        for cell in list(module.cells_.values()):
            kind = cell.type.str()
            if kind == "$logic_not" and cell.getPort(a).size() > 1:
                cell.type = ys.IdString("$eq")
                cell.setPort(b, ys.SigSpec(ys.Const(0, cell.getPort(a).size())))
                cell.setParam(b_signed, cell.getParam(a_signed))
            elif kind in _WIDE_AS_RESULT:
                _extend(cell, (a, b), cell.getPort(y).size(), cell.getParam(a_signed).as_bool())
                # of one width the sign makes no difference any more
                cell.setParam(a_signed, ys.Const(0, 1))
                cell.setParam(b_signed, ys.Const(0, 1))
            elif kind in _WIDE_AS_OPERANDS:
                width = max(cell.getPort(a).size(), cell.getPort(b).size())
                _extend(cell, (a, b), width, cell.getParam(a_signed).as_bool())
            elif kind in _SHIFTS and cell.getPort(y).size() < cell.getPort(a).size():
                left += 1
                whole = module.addWire(ys.IdString(f"\\shifted_unused_{left}"), cell.getPort(a).size())
                part = cell.getPort(y)
                module.connect(part, ys.SigSpec(whole).extract(0, part.size()))
                cell.setPort(y, ys.SigSpec(whole))
            else:
                continue
            cell.fixup_parameters()


def _extend(cell: Any, ports: Iterable[Any], width: int, signed: bool) -> None:
    for port in ports:
        operand = cell.getPort(port)
        operand.extend_u0(width, signed)
        cell.setPort(port, operand)


def _order(design: Any, names: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    for place, name in enumerate(names, 1):
        top.wire(ys.IdString(f"\\{name}")).port_id = place
    top.fixup_ports()


def _main(script: str) -> None:
    from pyosys import libyosys as ys

    design = ys.Design()
    for line in Path(script).read_text().splitlines():
        if line == WIDEN:
            _widen(design)
        elif line.startswith(f"{ORDER} "):
            _order(design, line.split()[1:])
        else:
            ys.run_pass(line, design)


if __name__ == "__main__":
    _main(sys.argv[1])
