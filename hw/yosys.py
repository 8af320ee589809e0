"""Run Yosys in a child process, because an error inside it ends the process; and passes that Yosys lacks."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..golden import processes
from ..golden.errors import UserError

WIDEN = "widen"
"""Pass: give the operands of each operator one width, so that no reader of the Verilog extends one implicitly."""
ORDER = "order"
"""Pass: put the top module's ports into the order of the names that follow."""
SIGN_PRODUCTS = "sign_products"
"""Pass: give each signed product a signed wire of its own: slang objects to one that is assigned to an unsigned wire.

The operands keep their widths, which are those of a DSP.
"""
OPEN_MEMORIES = "open_memories"
"""Pass: take the memories out of the top module, each a ``$mem_v2`` with asynchronous reads.

What it gives becomes an input, and what it is given outputs: addresses, and what is written, where it is.
"""
UNUSED_INPUTS = "unused_inputs"
"""Pass: connect the bits of the top module's inputs that nothing reads to a wire called ``unused``.

Such bits pad a lane, or are an address within a word or an identifier. Verilator does not warn of a wire of that name.
"""


class YosysError(UserError):
    """First error of Yosys, in one line.

    Attributes
    ----------
    log : str
        Complete output.
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
    """Run Yosys commands in order.

    Parameters
    ----------
    commands : iterable of str
        Commands of Yosys, and passes of this module: constants that stand above.
    folder : Path
        Working directory, in which the commands read and write files.

    Raises
    ------
    YosysError
        If one of them fails.
    """
    script = folder / "commands.ys"
    script.write_text("\n".join(commands) + "\n", encoding="utf-8")
    # its own scratch folders go with the folder, even where it is ended
    env = os.environ | {"TMPDIR": str(folder.resolve())}
    done = processes.run([sys.executable, "-P", "-m", __name__, script.name], folder, env)
    if done.returncode:
        raise YosysError(done.stdout + done.stderr)


_WIDE_AS_RESULT = ("$add", "$sub", "$and", "$or", "$xor")
_WIDE_AS_OPERANDS = ("$lt", "$le", "$gt", "$ge", "$eq", "$ne")
_SHIFTS = ("$shr", "$shift")


def _widen(design: Any) -> None:
    from pyosys import libyosys as ys

    a, b, y, a_signed, b_signed = (ys.IdString(f"\\{name}") for name in ("A", "B", "Y", "A_SIGNED", "B_SIGNED"))
    shifts = 0
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
                shifts += 1
                # Verilator does not warn of the upper bits of a wire of this name
                _result_on(module, cell, f"shifted_unused_{shifts}", cell.getPort(a).size())
            else:
                continue
            cell.fixup_parameters()


def _extend(cell: Any, ports: Iterable[Any], width: int, signed: bool) -> None:
    for port in ports:
        operand = cell.getPort(port)
        operand.extend_u0(width, signed)
        cell.setPort(port, operand)


def _result_on(module: Any, cell: Any, name: str, width: int) -> Any:
    """Give a cell's result a new wire of that name and width, whose lower bits drive what the result drove before."""
    from pyosys import libyosys as ys

    y, wire = ys.IdString("\\Y"), module.addWire(ys.IdString(f"\\{name}"), width)
    before, after = cell.getPort(y), ys.SigSpec(wire)
    # in two parts: a part of a signed wire is unsigned, the whole is not
    for first, size in ((0, 1), (1, before.size() - 1)):
        module.connect(before.extract(first, size), after.extract(first, size))
    cell.setPort(y, after)
    return wire


def _sign_products(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    count = 0
    for module in design.modules_.values():
        for cell in list(module.cells_.values()):
            if cell.type.str() == "$mul" and cell.getParam(ys.IdString("\\A_SIGNED")).as_bool():
                count += 1
                _result_on(module, cell, f"product_{count}", cell.getPort(ys.IdString("\\Y")).size()).is_signed = True


def _order(design: Any, names: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    for place, name in enumerate(names, 1):
        top.wire(ys.IdString(f"\\{name}")).port_id = place
    top.fixup_ports()


def _bits(signal: Any) -> list[tuple[str, int]]:
    """Name of the wire and offset of each bit that is no constant."""
    return [(bit.wire.name.str(), bit.offset) for bit in signal.bits() if bit.is_wire()]


def _read_bits(module: Any) -> set[tuple[str, int]]:
    """Bits of wires that cells or connections read."""
    read = {bit for _, right in module.connections_ for bit in _bits(right)}
    for cell in module.cells_.values():
        for port, signal in cell.connections_.items():
            if not cell.output(port):
                read.update(_bits(signal))
    return read


def _unused_inputs(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    read = _read_bits(top)
    spare = ys.SigSpec(ys.Const(0, 1))
    inputs = [wire for wire in top.wires_.values() if wire.port_input]
    for wire in sorted(inputs, key=lambda wire: wire.port_id):
        for offset in range(wire.width):
            if (wire.name.str(), offset) not in read:
                spare.append(ys.SigSpec(wire).extract(offset, 1))
    if spare.size() > 1:
        top.addReduceAnd(ys.IdString("$unused"), spare, ys.SigSpec(top.addWire(ys.IdString("\\unused"), 1)))


def _open_memories(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    found = [cell for cell in top.cells_.values() if cell.type.str() == "$mem_v2"]
    for number, cell in enumerate(
        sorted(found, key=lambda cell: cell.getParam(ys.IdString("\\MEMID")).decode_string())
    ):

        def port(name: str, cell: Any = cell) -> Any:
            return cell.getPort(ys.IdString(f"\\{name}"))

        def new(name: str, width: int, number: int = number) -> Any:
            return top.addWire(ys.IdString(f"\\memory{number}_{name}"), width)

        width, address = (cell.getParam(ys.IdString(f"\\{name}")).as_int() for name in ("WIDTH", "ABITS"))
        enable, data, where = port("WR_EN"), port("WR_DATA"), port("WR_ADDR")
        written = ys.SigSpec()
        for one in range(where.size() // address):
            enables = enable.extract(one * width, width)
            any_enabled = top.ReduceOr(ys.IdString(f"$any{number}_{one}"), enables)
            written.append(
                top.Mux(
                    ys.IdString(f"$where{number}_{one}"),
                    ys.SigSpec(ys.Const(0, address)),
                    where.extract(one * address, address),
                    any_enabled,
                )
            )
        given = {
            "enable": enable,
            "data": top.And(ys.IdString(f"$data{number}"), data, enable),
            "written": written,
            "read": port("RD_ADDR"),
        }
        reads = port("RD_DATA")
        top.remove(cell)
        for name, signal in given.items():
            if signal.size():
                wire = new(name, signal.size())
                wire.port_output = True
                top.connect(ys.SigSpec(wire), signal)
        wire = new("gives", reads.size())
        wire.port_input = True
        top.connect(reads, ys.SigSpec(wire))
    top.fixup_ports()


_OWN: dict[str, Callable[[Any, list[str]], None]] = {
    OPEN_MEMORIES: _open_memories,
    ORDER: _order,
    SIGN_PRODUCTS: _sign_products,
    UNUSED_INPUTS: _unused_inputs,
    WIDEN: lambda design, _: _widen(design),
}


def _main(script: str) -> None:
    from pyosys import libyosys as ys

    design = ys.Design()
    for line in Path(script).read_text().splitlines():
        name, *arguments = line.split()
        if name in _OWN:
            _OWN[name](design, arguments)
        else:
            ys.run_pass(line, design)


if __name__ == "__main__":
    _main(sys.argv[1])
