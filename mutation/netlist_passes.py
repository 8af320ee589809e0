"""Yosys passes that open a netlist for fault comparisons: cut memories and multipliers, signals as outputs."""

from typing import Any

from ..hw import yosys

TABLE_BITS = 1024
"""Size limit in bits of read-only tables that stay in the netlist."""
OPEN_MEMORIES, OPEN_PRODUCTS, WATCH = (
    f"{yosys.CALL} {__name__} {name}" for name in ("open_memories", "open_products", "watch")
)
"""Commands for `yosys.run`; the last takes the arguments of `watch`."""


def open_memories(design: Any) -> None:
    """Cut the memories, each a ``$mem_v2`` with asynchronous reads, out of the top module.

    The result of a read port ``memoryNUMBERportPORT`` becomes an input, with each bit masked to 0 until a 1 has been
    written to its column or is in the initial contents. Operands become outputs: read addresses, and write data with
    addresses. Small read-only tables stay, see `TABLE_BITS`.
    """
    from pyosys import libyosys as ys

    top = design.top_module()
    memories = [cell for cell in top.cells_.values() if cell.type.str() == "$mem_v2" and not _is_logic(cell)]
    for number, cell in enumerate(
        sorted(memories, key=lambda cell: cell.getParam(ys.IdString("\\MEMID")).decode_string())
    ):

        def port(name: str, cell: Any = cell) -> Any:
            return cell.getPort(ys.IdString(f"\\{name}"))

        width, address = (cell.getParam(ys.IdString(f"\\{name}")).as_int() for name in ("WIDTH", "ABITS"))
        enable, data, where = port("WR_EN"), port("WR_DATA"), port("WR_ADDR")
        written, name = ys.SigSpec(), f"memory{number}"
        for index in range(where.size() // address):
            enables = enable.extract(index * width, width)
            any_enabled = top.ReduceOr(ys.IdString(f"$any{number}_{index}"), enables)
            written.append(
                top.Mux(
                    ys.IdString(f"$where{number}_{index}"),
                    ys.SigSpec(ys.Const(0, address)),
                    where.extract(index * address, address),
                    any_enabled,
                )
            )
        stored = top.And(ys.IdString(f"$data{number}"), data, enable) if data.size() else data
        columns = _columns(top, cell, name, stored)
        reads, gives = port("RD_ADDR"), port("RD_DATA")
        top.remove(cell)
        _give(top, name, {"enable": enable, "data": stored, "written": written})
        for index in range(reads.size() // address):
            taken = _take(top, f"{name}port{index}", {"address": reads.extract(index * address, address)}, width)
            seen = top.And(ys.IdString(f"$seen{number}_{index}"), taken, columns)
            top.connect(gives.extract(index * width, width), seen)
    top.fixup_ports()


def _is_logic(memory: Any) -> bool:
    """True for a small read-only table, as Yosys creates for a switch."""
    from pyosys import libyosys as ys

    width, words = (memory.getParam(ys.IdString(f"\\{name}")).as_int() for name in ("WIDTH", "SIZE"))
    return not memory.getPort(ys.IdString("\\WR_EN")).size() and bool(width * words <= TABLE_BITS)


def _columns(top: Any, memory: Any, name: str, stored: Any) -> Any:
    """A register per memory column, 1 if any word may have a 1 there."""
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
    """Cut the signed multipliers, the data multipliers, out of the top module.

    Results become inputs, masked to 0 if an operand is 0; operands become outputs.
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


def _give(top: Any, name: str, operands: dict[str, Any]) -> None:
    """Outputs ``NAME_PORT`` for the operands of a cut part."""
    from pyosys import libyosys as ys

    for port, signal in operands.items():
        if signal.size():
            wire = top.addWire(ys.IdString(f"\\{name}_{port}"), signal.size())
            wire.port_output = True
            top.connect(ys.SigSpec(wire), signal)


def _take(top: Any, name: str, operands: dict[str, Any], width: int) -> Any:
    """Input ``NAME_gives`` for the result of a cut part, and outputs as in `_give`."""
    from pyosys import libyosys as ys

    _give(top, name, operands)
    wire = top.addWire(ys.IdString(f"\\{name}_gives"), width)
    wire.port_input = True
    return ys.SigSpec(wire)


def watch(design: Any, output: str, name: str, port: str, bit: str, value: str) -> None:
    """Output of the top module, high when a bit of a cell's port has `value`."""
    from pyosys import libyosys as ys

    top = design.top_module()
    cell = next(cell for cell in top.cells_.values() if cell.name.str() in (name, f"\\{name}"))
    signal = cell.getPort(ys.IdString(f"\\{port}")).extract(int(bit), 1)
    wire = top.addWire(ys.IdString(f"\\{output}"), 1)
    wire.port_output = True
    if value == "1":
        top.connect(ys.SigSpec(wire), signal)
    else:
        top.addNot(ys.IdString(f"$watch_{output}"), signal, ys.SigSpec(wire))
    top.fixup_ports()
