"""Yosys passes for estimates: initial values, memories, and a faster ``opt``."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

INITIAL_VALUES = "initial_values"
"""Pass: keep initial values of registers only; if a bit has several, as a loop counter has, keep the last.

Yosys stops at conflicting values, and turns a net with an initial value and a driver into a constant.
"""
OPTIMISE = "optimise"
"""Pass: ``opt``, or ``opt -full``, with fewer iterations: it ends when every pass has run after the last change.

``opt`` itself repeats whole rounds until a round changes nothing. ``opt_dff`` repeats until it finds no more, as it
propagates a constant by one register of a chain at a time.
"""
SEPARATE_MEMORIES = "separate_memories"
"""Pass: move each memory whose mapping does not depend on other logic into a module of its own; ``flatten`` undoes it.

``memory_libmap`` traverses the whole module per memory, to prove that a read and a write exclude each other and can
share a port. The proof is superfluous without writes, and impossible if a port always reads or no read uses a write's
address.
"""
SMALL_MEMORIES = "small_memories"
"""Pass with a number: set the attribute ``fabtune_small`` on memories with fewer bits than the number."""


def bits_of(signal: Any) -> tuple[Any, ...]:
    """Key of each bit of a signal: wire name and offset, or a constant's value."""
    if signal.is_chunk() and (chunk := signal.as_chunk()).wire:  # the common case, with fewer calls into Yosys
        name = chunk.wire.name.str()
        return tuple((name, offset) for offset in range(chunk.offset, chunk.offset + chunk.width))
    return tuple(map(name_of, signal.to_sigbit_vector()))


def name_of(bit: Any) -> Any:
    """Key of a bit: wire name and offset, or a constant's value."""
    return (bit.wire.name.str(), bit.offset) if bit.is_wire() else str(bit.data)


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
    from pyosys import libyosys as ys

    address = memory.getPort(ys.IdString(f"\\{ports}_ADDR")).to_sigbit_vector()
    bits = [name_of(_follow(bit, defined)) for bit in address]
    width = memory.getParam(ys.IdString("\\ABITS")).as_int()
    return {tuple(bits[first : first + width]) for first in range(0, len(bits), width)}


def _only_defined(cells: list[Any]) -> dict[Any, Any]:
    """For multiplexers of a signal and an undefined value, such as an unused address: the signal's bit by output bit.

    ``memory_libmap`` thus finds that two ports share an address.
    """
    from pyosys import libyosys as ys

    a, b, y = (ys.IdString(f"\\{port}") for port in "ABY")
    sources: dict[Any, Any] = {}
    for mux in (cell for cell in cells if cell.type.str() == "$mux"):
        ways = [mux.getPort(port) for port in (a, b)]
        defined = [way for way in ways if not way.is_fully_undef()]
        if len(defined) == 1:
            sources |= dict(zip(bits_of(mux.getPort(y)), defined[0].to_sigbit_vector(), strict=True))
    return sources


def _follow(bit: Any, defined: dict[Any, Any]) -> Any:
    seen = set()
    while bit.is_wire() and (key := (bit.wire.name.str(), bit.offset)) in defined and key not in seen:
        seen.add(key)
        bit = defined[key]
    return bit


def _separate(design: Any, module: Any, cell: Any, defined: dict[Any, Any]) -> None:
    """Move a cell into a new module, whose inputs are the wires that the cell reads."""
    from pyosys import libyosys as ys

    submodule = design.addModule(ys.IdString(f"$separate${cell.name.str()}"))
    moved = submodule.addCell(ys.IdString("$cell"), cell)
    wires: dict[str, Any] = {}
    outside: dict[str, Any] = {}
    for port, signal in cell.connections_.items():
        if cell.output(port):
            wire = submodule.addWire(port, signal.size())
            wire.port_output = True
            outside[port.str()] = signal
            moved.setPort(port, ys.SigSpec(wire))
            continue
        inside = ys.SigSpec()
        for bit in (_follow(bit, defined) for bit in signal.to_sigbit_vector()):
            name = bit.wire.name.str() if bit.is_wire() else ""
            if name and name not in wires:
                wires[name] = submodule.addWire(ys.IdString(f"$read{len(wires)}"), bit.wire.width)
                wires[name].port_input = True
                outside[wires[name].name.str()] = ys.SigSpec(bit.wire)
            inside.append(ys.SigSpec(wires[name], bit.offset, 1) if name else bit)
        moved.setPort(port, inside)
    submodule.fixup_ports()
    name = cell.name.str()
    module.remove(cell)
    instance = module.addCell(ys.IdString(name), submodule.name)
    for port, signal in outside.items():
        instance.setPort(ys.IdString(port), signal)


def _small_memories(design: Any, arguments: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        for memory in module.memories.values():
            if memory.width * memory.size < int(arguments[0]):
                memory.set_bool_attribute(ys.IdString("\\fabtune_small"), True)


def _initial_values(design: Any, _: list[str]) -> None:
    for module in design.modules_.values():
        driven = _driven(module)
        initial = _initial_processes(design, module, driven)
        names = {process.name.str() for process in initial}
        settled = driven | _given([item for item in module.processes.values() if item.name.str() not in names])
        for process in initial:  # Yosys lists them in reverse source order
            for rule in process.syncs:
                actions = []
                for target, value in reversed(rule.actions):
                    bits = bits_of(target)
                    unsettled = [position for position, bit in enumerate(bits) if bit not in settled]
                    if len(unsettled) < len(bits):
                        target, value = (_bits_at(signal, unsettled) for signal in (target, value))
                    if unsettled:
                        actions.append((target, value))
                    settled.update(bits)
                rule.actions = actions[::-1]


def _initial_processes(design: Any, module: Any, driven: set[Any]) -> list[Any]:
    """Processes that come from ``initial`` statements: with initial values, or constant with another driver.

    Yosys turns an initial value without another process into a constant process.
    """
    from pyosys import libyosys as ys

    initial = []
    for process in module.processes.values():
        if any(rule.type == ys.SyncType.STi for rule in process.syncs):
            initial.append(process)
        elif _given([process]) & driven:
            ys.run_pass(f"dump -o process.il {module.name.str()}/{process.name.str()}", design)
            if _gives_constants(Path("process.il").read_text(encoding="utf-8")):
                initial.append(process)
    return initial


def _gives_constants(process: str) -> bool:
    """Whether a process in RTLIL text assigns only constants, directly or through wires."""
    if re.search(r"^\s*switch ", process, re.MULTILINE):
        return False
    constant: set[str] = set()
    for target, value in re.findall(r"^\s*assign ({.*?}|\S+(?: \[.*?\])?) (.+)$", process, re.MULTILINE):
        if not set(_NAMES.findall(value)) <= constant:
            return False
        constant.update(_NAMES.findall(target))
    return True


_NAMES = re.compile(r"[$\\]\S+")
"""Names of wires in RTLIL text."""


def _driven(module: Any) -> set[Any]:
    """Bits driven by an ``assign`` or a cell."""
    driven = {bit for target, _ in module.connections_ for bit in bits_of(target)}
    for cell in module.cells_.values():
        for port, signal in cell.connections_.items():
            if cell.output(port):
                driven.update(bits_of(signal))
    return driven


def _given(processes: list[Any]) -> set[Any]:
    """Bits driven by processes without a clock."""
    from pyosys import libyosys as ys

    always = (rule for process in processes for rule in process.syncs if rule.type == ys.SyncType.STa)
    return {bit for rule in always for target, _ in rule.actions for bit in bits_of(target)}


def _bits_at(signal: Any, places: list[int]) -> Any:
    from pyosys import libyosys as ys

    chosen = ys.SigSpec()
    for position in places:
        chosen.append(signal.extract(position, 1))
    return chosen


def _optimise(design: Any, arguments: list[str]) -> None:
    from pyosys import libyosys as ys

    full = "".join(f" {name}" for name in arguments)
    sharing = ["opt_share"] if full else []
    ys.run_pass(f"opt_expr{full}", design)
    ys.run_pass("opt_merge -nomux", design)
    passes = ["opt_muxtree", f"opt_reduce{full}", "opt_merge", *sharing, "opt_dff", "opt_clean", f"opt_expr{full}"]
    unchanged, turns = 0, itertools.cycle(passes)
    while unchanged < len(passes):
        name = next(turns)
        unchanged = 0 if _changes(design, name) else unchanged + 1
        while name == "opt_dff" and not unchanged and _changes(design, name):
            pass


def _changes(design: Any, name: str) -> bool:
    """Run a pass of ``opt``; returns whether it changed the design."""
    from pyosys import libyosys as ys

    design.scratchpad_set_bool("opt.did_something", False)
    ys.run_pass(name, design)
    return bool(design.scratchpad_get_bool("opt.did_something"))


PASSES: dict[str, Callable[[Any, list[str]], None]] = {
    INITIAL_VALUES: _initial_values,
    OPTIMISE: _optimise,
    SEPARATE_MEMORIES: _separate_memories,
    SMALL_MEMORIES: _small_memories,
}
"""Passes by name; arguments are the design and the words after the name."""
