"""Run Yosys in a child process, because an error inside it ends the process; and passes that Yosys lacks."""

import gc
import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from ..golden.errors import UserError
from . import arithmetic_passes, processes, synthesis_passes

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

What a port gives becomes an input, of which a bit is 0 until a 1 has been written in its column, where the contents at
the start have none. What the memory is given becomes outputs: an address for each port that is read, and what is
written, where it is. A port that is read is called ``memoryNUMBERportPORT``. See `TABLE_BITS` for what stays.
"""
TABLE_BITS = 1024
"""Bits of a memory that is never written up to which it is left where others are taken out."""
OPEN_PRODUCTS = "open_products"
"""Pass: take the signed multipliers, which are those of data, out of the top module.

What one gives becomes an input, which is 0 where an operand is, and its operands outputs.
"""
NO_ZERO_CONTENTS = "no_zero_contents"
"""Pass: leave out initial contents of a RAM that are zero, as it is after configuration.

They are a line for each word: thousands, which take Yosys longer to read than the rest of a core. An UltraRAM can have
no other contents.
"""
UNUSED_BITS = "unused_bits"
"""Pass: connect the bits of the top module's wires that nothing reads to a wire called ``unused``.

Such bits of inputs pad a lane, or are an address within a word or an identifier; others are bits of a result that is
read in part. Verilator does not warn of a wire of that name.
"""
CALL = "call"
"""Command: call a function of a module of Python, with the rest of the words.

A branch that counts what it has written does so at the same time as the others.
"""
BLOCK_LATCHES = "block_latches"
"""Pass: join registers with asynchronous reads of memories whose ``ram_style`` is ``block`` or ``ultra``.

The read is then synchronous, with the reset and the enable of the register, which is the latch of a block of RAM.
"""
WATCH = "watch"
"""Pass: make an output of the top module: its name, a cell, a port, a bit of it, and the value at which it is high."""

_ALLOCATION = "glibc.malloc.hugetlb=1:glibc.malloc.mxfast=0"
"""Settings of glibc: large pages, and no lists of freed blocks to join. They save a sixth of the time of Yosys."""


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


def run(commands: Iterable[str], folder: Path, branches: Iterable[Iterable[str]] = ()) -> None:
    """Run Yosys commands in order.

    Parameters
    ----------
    commands : iterable of str
        Commands of Yosys, and passes of this module, `synthesis_passes` and `arithmetic_passes`, with their arguments.
    folder : Path
        Working directory, in which the commands read and write files.
    branches : iterable of iterable of str, optional
        More commands: each branch goes on from the design that `commands` leave, at the same time as the others.

    Raises
    ------
    YosysError
        If one of them fails.
    """
    scripts = [list(commands), *map(list, branches)]
    names = [f"commands{number}.ys" for number in range(len(scripts))]
    for name, script in zip(names, scripts, strict=True):
        (folder / name).write_text("\n".join(script) + "\n", encoding="utf-8")
    # its own scratch folders go with the folder, even where it is ended
    env = {"GLIBC_TUNABLES": _ALLOCATION} | os.environ | {"TMPDIR": str(folder.resolve())}
    done = processes.run([sys.executable, "-P", "-m", __name__, *names], folder, env)
    if done.returncode:
        raise YosysError(done.stdout + done.stderr)


_ENDS = {
    "write_verilog": b"\nendmodule\n",
    "write_rtlil": b"\nend\n",
    "write_json": b"\n}\n",
    "write_aiger": b"Generated by Yosys",
}
"""Last bytes of a whole file, which are nowhere else in it, by command."""


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
            elif kind == "$neg":
                _extend(cell, (a,), cell.getPort(y).size(), cell.getParam(a_signed).as_bool())
                cell.setParam(a_signed, ys.Const(0, 1))
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


def _chunks(signal: Any) -> Iterator[tuple[str, int]]:
    """Name of each wire that a signal has bits of, and a number whose ones are their offsets."""
    if signal.is_chunk():  # most are one: fewer calls into Yosys
        chunk = signal.as_chunk()
        if chunk.wire:
            yield chunk.wire.name.str(), ((1 << chunk.width) - 1) << chunk.offset
        return
    for bit in signal.bits():
        if bit.is_wire():
            yield bit.wire.name.str(), 1 << bit.offset


def _used_bits(module: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Bits of wires that cells or connections read, and those that they drive, as ones of a number for each wire."""
    read: dict[str, int] = defaultdict(int)
    driven: dict[str, int] = defaultdict(int)
    for left, right in module.connections_:
        for bits, signal in ((driven, left), (read, right)):
            for name, ones in _chunks(signal):
                bits[name] |= ones
    for cell in module.cells_.values():
        for port, signal in cell.connections_.items():
            bits = driven if cell.output(port) else read
            for name, ones in _chunks(signal):
                bits[name] |= ones
    return read, driven


def _unused_bits(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    read, driven = _used_bits(top)
    spare = ys.SigSpec(ys.Const(0, 1))
    wires = [wire for wire in top.wires_.values() if not wire.port_output and "unused" not in wire.name.str()]
    for wire in sorted(wires, key=lambda wire: (not wire.port_input, wire.port_id, wire.name.str())):
        name = wire.name.str()
        given = (1 << wire.width) - 1 if wire.port_input else driven[name]
        unread = given & ~read[name]
        for offset in range(unread.bit_length()):
            if unread >> offset & 1:
                spare.append(ys.SigSpec(wire).extract(offset, 1))
    if spare.size() > 1:
        top.addReduceAnd(ys.IdString("$unused"), spare, ys.SigSpec(top.addWire(ys.IdString("\\unused"), 1)))


def _open_memories(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    found = [cell for cell in top.cells_.values() if cell.type.str() == "$mem_v2" and not _is_logic(cell)]
    for number, cell in enumerate(
        sorted(found, key=lambda cell: cell.getParam(ys.IdString("\\MEMID")).decode_string())
    ):

        def port(name: str, cell: Any = cell) -> Any:
            return cell.getPort(ys.IdString(f"\\{name}"))

        width, address = (cell.getParam(ys.IdString(f"\\{name}")).as_int() for name in ("WIDTH", "ABITS"))
        enable, data, where = port("WR_EN"), port("WR_DATA"), port("WR_ADDR")
        written, name = ys.SigSpec(), f"memory{number}"
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
        stored = top.And(ys.IdString(f"$data{number}"), data, enable) if data.size() else data
        columns = _columns(top, cell, name, stored)
        reads, gives = port("RD_ADDR"), port("RD_DATA")
        top.remove(cell)
        _give(top, name, {"enable": enable, "data": stored, "written": written})
        for one in range(reads.size() // address):
            taken = _take(top, f"{name}port{one}", {"address": reads.extract(one * address, address)}, width)
            seen = top.And(ys.IdString(f"$seen{number}_{one}"), taken, columns)
            top.connect(gives.extract(one * width, width), seen)
    top.fixup_ports()


def _is_logic(memory: Any) -> bool:
    """Tell whether a memory is a small table that is never written, as Yosys makes of a switch."""
    from pyosys import libyosys as ys

    width, words = (memory.getParam(ys.IdString(f"\\{name}")).as_int() for name in ("WIDTH", "SIZE"))
    return not memory.getPort(ys.IdString("\\WR_EN")).size() and bool(width * words <= TABLE_BITS)


def _columns(top: Any, memory: Any, name: str, stored: Any) -> Any:
    """Make a register of each column of a memory, which is 1 if any of its words may have a 1 there."""
    from pyosys import libyosys as ys

    width = memory.getParam(ys.IdString("\\WIDTH")).as_int()
    contents = memory.getParam(ys.IdString("\\INIT")).as_string()[::-1]
    ones = ys.SigSpec(
        ys.Const.from_string("".join("01"["1" in contents[bit::width]] for bit in reversed(range(width))))
    )
    if not stored.size():
        return ones
    clock, clocked = memory.getPort(ys.IdString("\\WR_CLK")), memory.getParam(ys.IdString("\\WR_CLK_POLARITY"))
    before = ys.SigSpec(top.addWire(ys.IdString(f"${name}_before"), width))
    after = ys.SigSpec(before)
    for port in range(stored.size() // width):
        after = top.Or(ys.IdString(f"${name}_column{port}"), after, stored.extract(port * width, width))
    top.addDff(ys.IdString(f"${name}_columns"), clock.extract(0, 1), after, before, clocked.as_string()[-1] == "1")
    return top.Or(ys.IdString(f"${name}_ever"), before, ones)


def _no_zero_contents(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    memory, data = ys.IdString("\\MEMID"), ys.IdString("\\DATA")
    for module in design.modules_.values():
        cells = list(module.cells_.values())
        written = {cell.getParam(memory).decode_string() for cell in cells if cell.type.str().startswith("$memwr")}
        for cell in cells:
            contents = cell.type.str().startswith("$meminit") and cell.getParam(memory).decode_string() in written
            if contents and cell.getPort(data).is_fully_zero():
                module.remove(cell)


def _block_latches(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    style, memory, clocked = ys.IdString("\\ram_style"), ys.IdString("\\MEMID"), ys.IdString("\\CLK_ENABLE")
    reads = []
    for module in design.modules_.values():
        memories = module.memories.values()
        names = {one.name.str() for one in memories if one.get_string_attribute(style) in ("block", "ultra")}
        for cell in module.cells_.values():
            asynchronous = cell.type.str() == "$memrd_v2" and cell.getParam(clocked).is_fully_zero()
            if asynchronous and cell.getParam(memory).decode_string() in names:
                reads.append(f"{module.name.str()}/{cell.name.str()}")
    if reads:
        ys.run_pass(f"select -set reads {' '.join(reads)}", design)
        # through the multiplexers of resets and enables: a step for each cell and each wire, so up to five of them
        ys.run_pass("opt_dff @reads %co12:+$memrd_v2[DATA]:+$mux[A,B,Y]:+$dff[D] t:$dff %i", design)
        ys.run_pass("opt_clean -purge", design)
        ys.run_pass("memory_dff a:ram_style=block a:ram_style=ultra %u", design)


def _open_products(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module()
    a, b, y, signed = (ys.IdString(f"\\{name}") for name in ("A", "B", "Y", "A_SIGNED"))
    products = [cell for cell in top.cells_.values() if cell.type.str() == "$mul" and cell.getParam(signed).as_bool()]
    for number, cell in enumerate(sorted(products, key=lambda cell: cell.name.str())):
        operands, gives = {"a": cell.getPort(a), "b": cell.getPort(b)}, cell.getPort(y)
        top.remove(cell)
        ones = [top.ReduceOr(ys.IdString(f"$one{number}_{port}"), operand) for port, operand in operands.items()]
        both = top.And(ys.IdString(f"$ones{number}"), *ones).repeat(gives.size())
        taken = _take(top, f"product{number}", operands, gives.size())
        top.connect(gives, top.And(ys.IdString(f"$product{number}"), taken, both))
    top.fixup_ports()


def _give(top: Any, name: str, given: dict[str, Any]) -> None:
    """Make outputs ``NAME_PORT`` of what a part that is taken out of a module is given."""
    from pyosys import libyosys as ys

    for port, signal in given.items():
        if signal.size():
            wire = top.addWire(ys.IdString(f"\\{name}_{port}"), signal.size())
            wire.port_output = True
            top.connect(ys.SigSpec(wire), signal)


def _take(top: Any, name: str, given: dict[str, Any], width: int) -> Any:
    """Make an input ``NAME_gives`` of what a part gives that is taken out of a module, and outputs as `_give`."""
    from pyosys import libyosys as ys

    _give(top, name, given)
    wire = top.addWire(ys.IdString(f"\\{name}_gives"), width)
    wire.port_input = True
    return ys.SigSpec(wire)


def _watch(design: Any, arguments: list[str]) -> None:
    from pyosys import libyosys as ys

    output, name, port, bit, value = arguments
    top = design.top_module()
    cell = next(cell for cell in top.cells_.values() if cell.name.str() in (name, f"\\{name}"))
    found = cell.getPort(ys.IdString(f"\\{port}")).extract(int(bit), 1)
    wire = top.addWire(ys.IdString(f"\\{output}"), 1)
    wire.port_output = True
    if value == "1":
        top.connect(ys.SigSpec(wire), found)
    else:
        top.addNot(ys.IdString(f"$watch_{output}"), found, ys.SigSpec(wire))
    top.fixup_ports()


def _call(_: Any, arguments: list[str]) -> None:
    module, function, *words = arguments
    getattr(importlib.import_module(module), function)(*words)


_OWN: dict[str, Callable[[Any, list[str]], None]] = {
    BLOCK_LATCHES: _block_latches,
    CALL: _call,
    NO_ZERO_CONTENTS: _no_zero_contents,
    OPEN_MEMORIES: _open_memories,
    OPEN_PRODUCTS: _open_products,
    ORDER: _order,
    SIGN_PRODUCTS: _sign_products,
    UNUSED_BITS: _unused_bits,
    WATCH: _watch,
    WIDEN: lambda design, _: _widen(design),
    **synthesis_passes.PASSES,
    **arithmetic_passes.PASSES,
}


def _main(script: str, branches: list[str]) -> NoReturn:
    from pyosys import libyosys as ys

    gc.disable()  # of millions of cells and nets that a process goes through, it would find none unused
    design = ys.Design()
    _run_script(design, script)
    children = []
    for branch in branches:
        child = os.fork()
        if not child:
            _run_script(design, branch)
            os._exit(0)  # without a destructor for each cell
        children.append(child)
    failed = [child for child in children if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
    if failed:
        sys.exit(1)
    os._exit(0)


def _run_script(design: Any, script: str) -> None:
    from pyosys import libyosys as ys

    for line in Path(script).read_text(encoding="utf-8").splitlines():
        name, *arguments = line.split()
        if name in _OWN:
            _OWN[name](design, arguments)
        else:
            ys.run_pass(line, design)
        if name in _ENDS:
            _refuse_cut_off(Path(arguments[-1]), _ENDS[name])


def _refuse_cut_off(file: Path, end: bytes) -> None:
    """Stop where a file is not whole: Yosys does not notice that a disk is full."""
    if end not in file.read_bytes()[-400:]:
        sys.exit(f"ERROR: could not write all of {file.resolve()}: is the disk full? TMPDIR names another folder")


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
