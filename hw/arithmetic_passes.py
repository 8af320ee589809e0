"""Yosys passes for estimates: carry chains and DSP operands as Vivado builds them."""

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from .synthesis_passes import bits_of

ADD_SUB = "add_sub"
"""Pass: merge a sum, a difference and their multiplexer into one ``$alu``; also a value and its negation."""
COMPARATORS = "comparators"
"""Pass with two numbers: map magnitude comparisons to LUTs and carry chains.

A comparison with a constant becomes one LUT, up to as many inputs as the first number. Others become a carry chain, in
which a LUT compares as many non-constant bits as the second number. The maps ``cmp2lut.v`` and ``cmp2lcu.v`` of Yosys
do the same, but traverse the whole design for each bit.
"""
PLAIN_OPERANDS = "plain_operands"
"""Pass: put the operand of a sum with fewer gate-driven bits first.

Gates before the first operand, the data inputs of the carry chain, need separate LUTs. Gates before the second operand
merge into the adding LUTs. ``alumacc`` orders operands by name.
"""
WHOLE_OPERANDS = "whole_operands"
"""Pass: rejoin a product operand's register, if some bits were split off with a synchronous reset.

A DSP absorbs the register of an operand as a whole or not at all.
"""


def _add_sub(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    a, b, y = (ys.IdString(f"\\{port}") for port in "ABY")
    for module in design.modules_.values():
        cells = list(module.cells_.values())
        for cell in cells:
            if cell.type.str() == "$alu" and not cell.getPort(ys.IdString("\\BI")).is_fully_const():
                _trim(module, cell)
        drivers = {
            cell.getPort(y).as_wire().name.str(): cell
            for cell in cells
            if cell.type.str() in ("$add", "$sub", "$neg") and cell.getPort(y).is_wire()
        }
        for mux in (cell for cell in cells if cell.type.str() == "$mux"):
            ways = [mux.getPort(port) for port in (a, b)]
            sources: list[Any] = [drivers.get(way.as_wire().name.str()) if way.is_wire() else None for way in ways]
            kinds = [cell.type.str() if cell else "" for cell in sources]
            if sorted(kinds) == ["$add", "$sub"] and _opposite(
                sources[kinds.index("$add")], sources[kinds.index("$sub")]
            ):
                _merge(module, mux, sources[kinds.index("$sub")], kinds[0] == "$sub")
            elif kinds.count("$neg") == 1:
                negation, other = sources[kinds.index("$neg")], ways[1 - kinds.index("$neg")]
                if bits_of(negation.getPort(a)) == bits_of(other):
                    _merge(module, mux, negation, kinds[0] == "$neg")


def _opposite(add: Any, subtract: Any) -> bool:
    """Whether a sum and a difference have equal operands."""
    from pyosys import libyosys as ys

    def operand(cell: Any, port: str) -> tuple[Any, ...]:
        signed = cell.getParam(ys.IdString(f"\\{port}_SIGNED")).as_bool()
        return signed, *bits_of(cell.getPort(ys.IdString(f"\\{port}")))

    sum_of = [operand(add, port) for port in "AB"]
    return [operand(subtract, port) for port in "AB"] in (sum_of, sum_of[::-1])


_ZERO = "State.S0"


def _merge(module: Any, mux: Any, operands: Any, subtract_low: bool) -> None:
    """Replace a multiplexer of a sum and a difference by an ``$alu``; with `subtract_low`, a low select subtracts."""
    from pyosys import libyosys as ys

    def name(text: str) -> Any:
        return ys.IdString(f"\\{text}")

    def new(text: str) -> Any:
        return module.uniquify(ys.IdString(f"$add_sub_{text}"))

    negates = operands.type.str() == "$neg"
    left = ys.SigSpec(ys.Const(0, 1)) if negates else operands.getPort(name("A"))
    right = operands.getPort(name("A" if negates else "B"))
    signs = {
        "A": operands.getParam(name("A_SIGNED")),
        "B": operands.getParam(name("A_SIGNED" if negates else "B_SIGNED")),
    }
    select, output = mux.getPort(name("S")), mux.getPort(name("Y"))
    if subtract_low:
        inverse = module.addWire(new("subtract"), 1)
        module.addLogicNot(new("select"), select, ys.SigSpec(inverse))
        select = ys.SigSpec(inverse)
    alu = module.addCell(new("alu"), ys.IdString("$alu"))
    values = {"A": left, "B": right, "BI": select, "CI": select, "Y": output}
    values |= {port: ys.SigSpec(module.addWire(new(port), output.size())) for port in ("X", "CO")}
    for port, signal in values.items():
        alu.setPort(name(port), signal)
    for port, sign in signs.items():
        alu.setParam(name(f"{port}_SIGNED"), sign)
    for port in ("A", "B", "Y"):
        alu.setParam(name(f"{port}_WIDTH"), ys.Const(values[port].size(), 32))
    module.remove(mux)


def _trim(module: Any, alu: Any) -> None:
    """Remove the low bits of a sum or difference in which the second operand is zero."""
    from pyosys import libyosys as ys

    left, right, output, *drop = (ys.IdString(f"\\{port}") for port in ("A", "B", "Y", "X", "CO"))
    signals = {port: alu.getPort(port) for port in (left, right, output, *drop)}
    most = min(signals[port].size() for port in (left, right, output)) - 1
    low = next((index for index, bit in enumerate(bits_of(signals[right])[:most]) if bit != _ZERO), most)
    if low > 0:
        module.connect(signals[output].extract(0, low), signals[left].extract(0, low))
        for port, signal in signals.items():
            alu.setPort(port, signal.extract(low, signal.size() - low))
        for name, port in (("A", left), ("B", right), ("Y", output)):
            alu.setParam(ys.IdString(f"\\{name}_WIDTH"), ys.Const(signals[port].size() - low, 32))


_COMPARISONS = {"$lt": operator.lt, "$le": operator.le, "$gt": operator.gt, "$ge": operator.ge}


def _comparators(design: Any, arguments: list[str]) -> None:
    from pyosys import libyosys as ys

    lut_inputs, bits_of_a_lut = map(int, arguments)
    for module in design.modules_.values():
        # `uniquify` would be slow: for each of thousands of names it counts from 1
        names = (ys.IdString(f"$comparator${number}") for number in itertools.count())
        for cell in [cell for cell in module.cells_.values() if cell.type.str() in _COMPARISONS]:
            kind = cell.type.str()
            left, right, output = (cell.getPort(ys.IdString(f"\\{port}")) for port in "ABY")
            signed = all(cell.getParam(ys.IdString(f"\\{port}_SIGNED")).as_bool() for port in "AB")
            constant = left.is_fully_def() or right.is_fully_def()
            if constant and max(left.size(), right.size()) <= lut_inputs:
                result = _compare_with_constant(module, names, kind, left, right, signed)
            elif kind in ("$lt", "$le"):
                result = _compare(module, names, right, left, signed, kind == "$le", bits_of_a_lut)
            else:
                result = _compare(module, names, left, right, signed, kind == "$ge", bits_of_a_lut)
            result.extend_u0(output.size())
            module.connect(output, result)
            module.remove(cell)


def _compare_with_constant(module: Any, names: Iterator[Any], kind: str, left: Any, right: Any, signed: bool) -> Any:
    from pyosys import libyosys as ys

    operand = right if left.is_fully_def() else left

    def value(side: Any, row: int) -> int:
        bits, width = (side.as_const().as_int() if side.is_fully_def() else row), side.size()
        return bits - (1 << width) if signed and bits >> (width - 1) else bits

    rows = range(1 << operand.size())
    table = "".join("01"[_COMPARISONS[kind](value(left, row), value(right, row))] for row in reversed(rows))
    result = ys.SigSpec(module.addWire(next(names), 1))
    lut = module.addCell(next(names), ys.IdString("$lut"))
    lut.setParam(ys.IdString("\\WIDTH"), ys.Const(operand.size(), 32))
    lut.setParam(ys.IdString("\\LUT"), ys.Const.from_string(table))
    lut.setPort(ys.IdString("\\A"), operand)
    lut.setPort(ys.IdString("\\Y"), result)
    return result


def _compare(
    module: Any, names: Iterator[Any], left: Any, right: Any, signed: bool, equal: bool, bits_of_a_lut: int
) -> Any:
    """Create a carry chain that compares: left operand greater than right operand, or equal if `equal`."""
    from pyosys import libyosys as ys

    def new(kind: str, *signals: Any) -> Any:
        return getattr(module, kind)(next(names), *signals)

    width = max(left.size(), right.size())
    for side in (left, right):
        side.extend_u0(width, signed)
    bits = [(left.extract(index, 1), right.extract(index, 1)) for index in range(width)]
    constant = [next((index for index in range(width) if bits[index][side].is_fully_const()), width) for side in (0, 1)]
    luts: list[tuple[Any, Any]] = []  # for each LUT two flags: equal, left greater
    space = 0
    for index in reversed(range(width)):
        cost = sum(lowest > index for lowest in constant)
        ways = bits[index][::-1] if signed and index == width - 1 else bits[index]
        same, greater = new("Xnor", *ways), new("And", ways[0], new("Not", ways[1]))
        if luts and cost <= space:
            before = luts.pop()
            greater = new("Or", before[1], new("And", before[0], greater))
            same = new("And", before[0], same)
        else:
            space = bits_of_a_lut
        luts.append((same, greater))
        space -= cost
    carries = ys.SigSpec(module.addWire(next(names), len(luts)))
    chain = module.addCell(next(names), ys.IdString("$lcu"))
    chain.setParam(ys.IdString("\\WIDTH"), ys.Const(len(luts), 32))
    for port, index in (("P", 0), ("G", 1)):
        signal = ys.SigSpec()
        for lut in reversed(luts):
            signal.append(lut[index])
        chain.setPort(ys.IdString(f"\\{port}"), signal)
    chain.setPort(ys.IdString("\\CI"), ys.SigSpec(ys.Const(equal, 1)))
    chain.setPort(ys.IdString("\\CO"), carries)
    return carries.extract(len(luts) - 1, 1)


_GATES = frozenset(
    [f"${kind}" for kind in ("not", "and", "or", "xor", "xnor", "mux", "pmux", "bmux", "eq", "ne", "lut")]
    + [f"$reduce_{kind}" for kind in ("and", "or", "xor", "xnor", "bool")]
    + [f"$logic_{kind}" for kind in ("not", "and", "or")]
    + [f"${kind}" for kind in ("shl", "shr", "sshl", "sshr", "shift", "shiftx")]
)


def _plain_operands(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    a, b, y, invert = (ys.IdString(f"\\{port}") for port in ("A", "B", "Y", "BI"))
    parameters = [[ys.IdString(f"\\{port}_{name}") for port in "AB"] for name in ("WIDTH", "SIGNED")]
    for module in design.modules_.values():
        cells = list(module.cells_.values())
        gates = {bit for cell in cells if cell.type.str() in _GATES for bit in bits_of(cell.getPort(y))}
        for cell in (cell for cell in cells if cell.type.str() == "$alu" and cell.getPort(invert).is_fully_zero()):
            operands = [cell.getPort(port) for port in (a, b)]
            first, second = (len(gates.intersection(bits_of(operand))) for operand in operands)
            if first > second:
                for port, operand in zip((b, a), operands, strict=True):
                    cell.setPort(port, operand)
                for left, right in parameters:
                    before = cell.getParam(left)
                    cell.setParam(left, cell.getParam(right))
                    cell.setParam(right, before)


_WITHOUT_RESET = {"$dff": "$dff", "$dffe": "$dffe", "$sdff": "$dff", "$sdffce": "$dffe"}
"""Type of a register once its reset is a multiplexer at the input, by the type before; priorities stay."""


def _whole_operands(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        cells = list(module.cells_.values())
        registers = [cell for cell in cells if cell.type.str() in _WITHOUT_RESET]
        driver = {bit: register for register in registers for bit in bits_of(register.getPort(ys.IdString("\\Q")))}
        # collected first, as a join removes the registers' cells
        for product in [cell for cell in cells if cell.type.str() == "$mul"]:
            for port in (ys.IdString("\\A"), ys.IdString("\\B")):
                parts = {
                    register.name.str(): register
                    for bit in bits_of(product.getPort(port))
                    if (register := driver.get(bit))
                }
                if len({_clocking(register) for register in parts.values()}) == 1 < len(parts):
                    whole = _join(module, list(parts.values()))
                    driver |= dict.fromkeys(bits_of(whole.getPort(ys.IdString("\\Q"))), whole)


def _clocking(register: Any) -> tuple[Any, ...]:
    """Kind, clock and enable of a register without its reset."""
    from pyosys import libyosys as ys

    kind = _WITHOUT_RESET[register.type.str()]
    signals = ("CLK", "EN") if kind == "$dffe" else ("CLK",)
    return kind, *((bits_of(register.getPort(ys.IdString(f"\\{name}"))), _high(register, name)) for name in signals)


def _high(register: Any, name: str) -> bool:
    from pyosys import libyosys as ys

    active: bool = register.getParam(ys.IdString(f"\\{name}_POLARITY")).as_bool()
    return active


def _join(module: Any, parts: list[Any]) -> Any:
    """Replace registers of equal clock and enable by one register, with a multiplexer for each reset at its input."""
    from pyosys import libyosys as ys

    data, output, reset = (ys.IdString(f"\\{port}") for port in ("D", "Q", "SRST"))
    inputs, outputs = ys.SigSpec(), ys.SigSpec()
    for part in parts:
        source = part.getPort(data)
        if part.type.str().startswith("$sdff"):
            value = ys.SigSpec(part.getParam(ys.IdString("\\SRST_VALUE")))
            ways = (source, value) if _high(part, "SRST") else (value, source)
            source = ys.SigSpec(module.addWire(module.uniquify(ys.IdString("$whole_operand")), source.size()))
            module.addMux(module.uniquify(ys.IdString("$whole_operand_reset")), *ways, part.getPort(reset), source)
        inputs.append(source)
        outputs.append(part.getPort(output))
    kind, *signals = _clocking(parts[0])
    whole = module.addCell(module.uniquify(ys.IdString("$whole_operand_register")), ys.IdString(kind))
    for name in ("CLK", "EN")[: len(signals)]:
        whole.setPort(ys.IdString(f"\\{name}"), parts[0].getPort(ys.IdString(f"\\{name}")))
        whole.setParam(ys.IdString(f"\\{name}_POLARITY"), ys.Const(_high(parts[0], name), 1))
    whole.setPort(data, inputs)
    whole.setPort(output, outputs)
    whole.setParam(ys.IdString("\\WIDTH"), ys.Const(outputs.size(), 32))
    for part in parts:
        module.remove(part)
    return whole


PASSES: dict[str, Callable[[Any, list[str]], None]] = {
    ADD_SUB: _add_sub,
    COMPARATORS: _comparators,
    PLAIN_OPERANDS: _plain_operands,
    WHOLE_OPERANDS: _whole_operands,
}
"""Passes by name; arguments are the design and the words after the name."""
