"""Passes that open a netlist for comparisons of faults: memories and multipliers taken out, signals made outputs."""

from typing import Any

from ..hw import yosys

TABLE_BITS = 1024
"""Bits of a memory that is never written up to which it is left where others are taken out."""
OPEN_MEMORIES, OPEN_PRODUCTS, WATCH = (
    f"{yosys.CALL} {__name__} {name}" for name in ("open_memories", "open_products", "watch")
)
"""Commands of `yosys.run`; the last one takes the arguments of `watch`."""


def open_memories(design: Any) -> None:
    """Take the memories out of the top module, each a ``$mem_v2`` with asynchronous reads.

    What a port gives becomes an input, of which a bit is 0 until a 1 has been written in its column, where the contents
    at the start have none. What the memory is given becomes outputs: an address for each port that is read, and what is
    written, where it is. A port that is read is called ``memoryNUMBERportPORT``. See `TABLE_BITS` for what stays.
    """
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


def open_products(design: Any) -> None:
    """Take the signed multipliers, which are those of data, out of the top module.

    What one gives becomes an input, which is 0 where an operand is, and its operands outputs.
    """
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


def watch(design: Any, output: str, name: str, port: str, bit: str, value: str) -> None:
    """Make an output of the top module: its name, a cell, a port, a bit of it, and the value at which it is high."""
    from pyosys import libyosys as ys

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
