"""Passes that Yosys lacks for an estimate: Vivado sees what its own passes do not."""

import itertools
from collections.abc import Callable
from typing import Any

ADD_SUB = "add_sub"
"""Pass: make one ``$alu`` of a sum and a difference, or of a value and its negation, where a multiplexer chooses."""
CONSTANT_REGISTERS = "constant_registers"
"""Pass: repeat ``opt_dff`` until it finds no more: a constant goes down a chain by one register each time.

The loop of ``opt`` would go through the whole design as often.
"""
LAST_INITIAL = "last_initial"
"""Pass: keep the last of several values that ``initial`` statements give a bit, such as the counter of their loops.

Yosys stops where they differ.
"""
OPTIMISE = "optimise"
"""Pass: ``opt``, or ``opt -full``, until each pass of its loop saw the last change.

``opt`` itself repeats the whole loop until a round finds nothing.
"""
SEPARATE_MEMORIES = "separate_memories"
"""Pass: give each memory whose mapping does not depend on what is around it a module of its own; ``flatten`` undoes it.

For each memory ``memory_libmap`` goes through the whole module, to prove that a read and a write exclude each
other, and can share a port. It need not where nothing writes, and cannot where a port always reads or no read has a
write's address.
"""
SMALL_MEMORIES = "small_memories"
"""Pass: give memories of fewer bits than the number that follows an attribute ``fabtune_small``."""

WHOLE_OPERANDS = "whole_operands"
"""Pass: make one register again of a product's operand of which some bits have got a synchronous reset of their own.

A DSP takes an operand's register whole or not at all.
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
            found: list[Any] = [drivers.get(way.as_wire().name.str()) if way.is_wire() else None for way in ways]
            kinds = [cell.type.str() if cell else "" for cell in found]
            if sorted(kinds) == ["$add", "$sub"] and _opposite(found[kinds.index("$add")], found[kinds.index("$sub")]):
                _merge(module, mux, found[kinds.index("$sub")], kinds[0] == "$sub")
            elif kinds.count("$neg") == 1:
                negation, other = found[kinds.index("$neg")], ways[1 - kinds.index("$neg")]
                if _bits_of(negation.getPort(a)) == _bits_of(other):
                    _merge(module, mux, negation, kinds[0] == "$neg")


def _opposite(add: Any, subtract: Any) -> bool:
    """Whether a sum and a difference are of the same operands."""
    from pyosys import libyosys as ys

    def operand(cell: Any, port: str) -> tuple[Any, ...]:
        signed = cell.getParam(ys.IdString(f"\\{port}_SIGNED")).as_bool()
        return signed, *_bits_of(cell.getPort(ys.IdString(f"\\{port}")))

    sum_of = [operand(add, port) for port in "AB"]
    return [operand(subtract, port) for port in "AB"] in (sum_of, sum_of[::-1])


_ZERO = "State.S0"


def _bits_of(signal: Any) -> tuple[Any, ...]:
    """Name each bit of a signal, or give the value of a constant one."""
    if signal.is_chunk() and (chunk := signal.as_chunk()).wire:  # most are one: fewer calls into Yosys
        name = chunk.wire.name.str()
        return tuple((name, offset) for offset in range(chunk.offset, chunk.offset + chunk.width))
    return tuple(map(_name_of, signal.to_sigbit_vector()))


def _name_of(bit: Any) -> Any:
    return (bit.wire.name.str(), bit.offset) if bit.is_wire() else str(bit.data)


def _merge(module: Any, mux: Any, operands: Any, subtract_low: bool) -> None:
    """Replace a multiplexer by an ``$alu`` that subtracts where the select is low, or where it is high."""
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
    """Take the lowest bits out of a sum or difference where nothing is added, and nothing subtracted."""
    from pyosys import libyosys as ys

    left, right, output, *drop = (ys.IdString(f"\\{port}") for port in ("A", "B", "Y", "X", "CO"))
    signals = {port: alu.getPort(port) for port in (left, right, output, *drop)}
    most = min(signals[port].size() for port in (left, right, output)) - 1
    low = next((place for place, bit in enumerate(_bits_of(signals[right])[:most]) if bit != _ZERO), most)
    if low > 0:
        module.connect(signals[output].extract(0, low), signals[left].extract(0, low))
        for port, signal in signals.items():
            alu.setPort(port, signal.extract(low, signal.size() - low))
        for name, port in (("A", left), ("B", right), ("Y", output)):
            alu.setParam(ys.IdString(f"\\{name}_WIDTH"), ys.Const(signals[port].size() - low, 32))


def _separate_memories(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    read = ys.IdString("\\RD_EN")
    for module in list(design.modules_.values()):
        cells = list(module.cells_.values())
        defined = _only_defined(cells)
        for cell in (cell for cell in cells if cell.type.str() == "$mem_v2"):
            if cell.getPort(read).is_fully_const() or _addresses(cell, "RD", defined).isdisjoint(
                _addresses(cell, "WR", defined)
            ):
                _separate(design, module, cell, defined)


def _addresses(memory: Any, ports: str, defined: dict[Any, Any]) -> set[tuple[Any, ...]]:
    """Name the bits of the address of each read or write port."""
    from pyosys import libyosys as ys

    address = memory.getPort(ys.IdString(f"\\{ports}_ADDR")).to_sigbit_vector()
    bits = [_name_of(_follow(bit, defined)) for bit in address]
    width = memory.getParam(ys.IdString("\\ABITS")).as_int()
    return {tuple(bits[first : first + width]) for first in range(0, len(bits), width)}


def _only_defined(cells: list[Any]) -> dict[Any, Any]:
    """Find what multiplexers give that choose between a signal and nothing: an address, while nothing is written.

    ``memory_libmap`` sees through them that two ports share an address.
    """
    from pyosys import libyosys as ys

    a, b, y = (ys.IdString(f"\\{port}") for port in "ABY")
    found: dict[Any, Any] = {}
    for mux in (cell for cell in cells if cell.type.str() == "$mux"):
        ways = [mux.getPort(port) for port in (a, b)]
        defined = [way for way in ways if not way.is_fully_undef()]
        if len(defined) == 1:
            found |= dict(zip(_bits_of(mux.getPort(y)), defined[0].to_sigbit_vector(), strict=True))
    return found


def _follow(bit: Any, defined: dict[Any, Any]) -> Any:
    seen = set()
    while bit.is_wire() and (key := (bit.wire.name.str(), bit.offset)) in defined and key not in seen:
        seen.add(key)
        bit = defined[key]
    return bit


def _separate(design: Any, module: Any, cell: Any, defined: dict[Any, Any]) -> None:
    """Move a cell into a module of its own, whose inputs are the wires that the cell reads."""
    from pyosys import libyosys as ys

    own = design.addModule(ys.IdString(f"$separate${cell.name.str()}"))
    moved = own.addCell(ys.IdString("$cell"), cell)
    wires: dict[str, Any] = {}
    outside: dict[str, Any] = {}
    for port, signal in cell.connections_.items():
        if cell.output(port):
            wire = own.addWire(port, signal.size())
            wire.port_output = True
            outside[port.str()] = signal
            moved.setPort(port, ys.SigSpec(wire))
            continue
        inside = ys.SigSpec()
        for bit in (_follow(bit, defined) for bit in signal.to_sigbit_vector()):
            name = bit.wire.name.str() if bit.is_wire() else ""
            if name and name not in wires:
                wires[name] = own.addWire(ys.IdString(f"$read{len(wires)}"), bit.wire.width)
                wires[name].port_input = True
                outside[wires[name].name.str()] = ys.SigSpec(bit.wire)
            inside.append(ys.SigSpec(wires[name], bit.offset, 1) if name else bit)
        moved.setPort(port, inside)
    own.fixup_ports()
    name = cell.name.str()
    module.remove(cell)
    instance = module.addCell(ys.IdString(name), own.name)
    for port, signal in outside.items():
        instance.setPort(ys.IdString(port), signal)


def _small_memories(design: Any, arguments: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        for memory in module.memories.values():
            if memory.width * memory.size < int(arguments[0]):
                memory.set_bool_attribute(ys.IdString("\\fabtune_small"), True)


def _last_initial(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        given: set[Any] = set()
        for process in module.processes.values():  # the last of the source comes first
            for rule in process.syncs:
                if rule.type != ys.SyncType.STi:
                    continue
                actions = rule.actions  # a copy
                for place in reversed(range(len(actions))):
                    bits = set(_bits_of(actions[place][0]))
                    if bits & given:
                        actions.pop(place)
                    given |= bits
                rule.actions = actions


def _constant_registers(design: Any, _: list[str]) -> None:
    _until_unchanged(design, ["opt_dff"])


def _optimise(design: Any, arguments: list[str]) -> None:
    from pyosys import libyosys as ys

    full = "".join(f" {name}" for name in arguments)
    sharing = ["opt_share"] if full else []
    ys.run_pass(f"opt_expr{full}", design)
    ys.run_pass("opt_merge -nomux", design)
    _until_unchanged(
        design,
        ["opt_muxtree", f"opt_reduce{full}", "opt_merge", *sharing, "opt_dff", "opt_clean", f"opt_expr{full}"],
    )


def _until_unchanged(design: Any, passes: list[str]) -> None:
    """Run passes in turn until none of them changes what the others left."""
    from pyosys import libyosys as ys

    changed, unchanged, turns = "opt.did_something", 0, itertools.cycle(passes)
    while unchanged < len(passes):
        design.scratchpad_set_bool(changed, False)
        ys.run_pass(next(turns), design)
        unchanged = 0 if design.scratchpad_get_bool(changed) else unchanged + 1


_WITHOUT_RESET = {"$dff": "$dff", "$dffe": "$dffe", "$sdff": "$dff", "$sdffce": "$dffe"}
"""Registers, and what each is when its reset is a multiplexer in front of it, without a change of priority."""


def _whole_operands(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        cells = list(module.cells_.values())
        registers = [cell for cell in cells if cell.type.str() in _WITHOUT_RESET]
        driver = {bit: one for one in registers for bit in _bits_of(one.getPort(ys.IdString("\\Q")))}
        for product in (cell for cell in cells if cell.type.str() == "$mul"):
            for port in (ys.IdString("\\A"), ys.IdString("\\B")):
                parts = {one.name.str(): one for bit in _bits_of(product.getPort(port)) if (one := driver.get(bit))}
                if len({_clocking(one) for one in parts.values()}) == 1 < len(parts):
                    whole = _join(module, list(parts.values()))
                    driver |= dict.fromkeys(_bits_of(whole.getPort(ys.IdString("\\Q"))), whole)


def _clocking(register: Any) -> tuple[Any, ...]:
    """Name kind, clock and enable of a register without its reset."""
    from pyosys import libyosys as ys

    kind = _WITHOUT_RESET[register.type.str()]
    signals = ("CLK", "EN") if kind == "$dffe" else ("CLK",)
    return kind, *((_bits_of(register.getPort(ys.IdString(f"\\{name}"))), _high(register, name)) for name in signals)


def _high(register: Any, name: str) -> bool:
    from pyosys import libyosys as ys

    active: bool = register.getParam(ys.IdString(f"\\{name}_POLARITY")).as_bool()
    return active


def _join(module: Any, parts: list[Any]) -> Any:
    """Replace registers of one clock and enable by one, with the resets in front of it."""
    from pyosys import libyosys as ys

    data, output, reset = (ys.IdString(f"\\{port}") for port in ("D", "Q", "SRST"))
    inputs, outputs = ys.SigSpec(), ys.SigSpec()
    for part in parts:
        given = part.getPort(data)
        if part.type.str().startswith("$sdff"):
            value = ys.SigSpec(part.getParam(ys.IdString("\\SRST_VALUE")))
            ways = (given, value) if _high(part, "SRST") else (value, given)
            given = ys.SigSpec(module.addWire(module.uniquify(ys.IdString("$whole_operand")), given.size()))
            module.addMux(module.uniquify(ys.IdString("$whole_operand_reset")), *ways, part.getPort(reset), given)
        inputs.append(given)
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
    CONSTANT_REGISTERS: _constant_registers,
    LAST_INITIAL: _last_initial,
    OPTIMISE: _optimise,
    SEPARATE_MEMORIES: _separate_memories,
    SMALL_MEMORIES: _small_memories,
    WHOLE_OPERANDS: _whole_operands,
}
"""The passes, by name; each gets the design and its arguments."""
