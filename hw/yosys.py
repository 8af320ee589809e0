"""Yosys in a child process: an error inside it would end ours."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..golden.errors import UserError

WIDEN = "widen"
"""Gives the operands of each operator one width, so that no reader of the Verilog has to extend one silently."""


def run(commands: list[str]) -> None:
    """Run Yosys commands in order; they read and write files by themselves.

    One command is ours: `WIDEN`.

    Raises
    ------
    UserError
        With Yosys's own first error line.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".ys") as script:
        script.write("\n".join(commands) + "\n")
        script.flush()
        done = subprocess.run(
            [sys.executable, "-m", __name__, script.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()
        errors = [line for line in said if "ERROR" in line] or said[-1:] or [f"exit status {done.returncode}"]
        raise UserError(f"Yosys: {errors[0].strip()}")


def quoted(path: Path) -> str:
    """A path as Yosys reads it."""
    return f'"{path}"'


_WIDE_AS_RESULT = ("$add", "$sub", "$and", "$or", "$xor")
_WIDE_AS_OPERANDS = ("$lt", "$le", "$gt", "$ge", "$eq", "$ne")


def _widen(design: Any) -> None:
    from pyosys import libyosys as ys

    a, b, y = (ys.IdString(f"\\{port}") for port in "ABY")
    for module in design.modules_.values():
        for cell in list(module.cells_.values()):
            kind = cell.type.str()
            if kind == "$logic_not" and cell.getPort(a).size() > 1:
                cell.type = ys.IdString("$eq")
                cell.setPort(b, ys.SigSpec(ys.Const(0, cell.getPort(a).size())))
                cell.setParam(ys.IdString("\\B_SIGNED"), cell.getParam(ys.IdString("\\A_SIGNED")))
            elif kind not in _WIDE_AS_RESULT + _WIDE_AS_OPERANDS:
                continue
            else:
                width = max(cell.getPort(a).size(), cell.getPort(b).size())
                if kind in _WIDE_AS_RESULT:
                    width = cell.getPort(y).size()
                signed = cell.getParam(ys.IdString("\\A_SIGNED")).as_bool()
                for port in (a, b):
                    operand = cell.getPort(port)
                    operand.extend_u0(width, signed)
                    cell.setPort(port, operand)
            cell.fixup_parameters()


def _main(script: str) -> None:
    from pyosys import libyosys as ys

    design = ys.Design()
    for line in Path(script).read_text().splitlines():
        if line == WIDEN:
            _widen(design)
        else:
            ys.run_pass(line, design)


if __name__ == "__main__":
    _main(sys.argv[1])
