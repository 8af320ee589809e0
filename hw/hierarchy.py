"""Modules and instance paths of emitted Verilog."""

from __future__ import annotations

import re

_SIMULATION = re.compile(r"^`ifndef SYNTHESIS$.*?^`endif$", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\w+) (\w+) \($", re.MULTILINE)
_REGISTER = re.compile(r"^  reg (?:\[\d+:0\] )?(\w+) *;$", re.MULTILINE)
_MEMORY = re.compile(r"^  reg (?:\[\d+:0\] )?(\w+) +\[\d+:0\];$", re.MULTILINE)
_READ = re.compile(r"^ +(\w+) <= (\w+) *\[", re.MULTILINE)


def modules_of(verilog: str) -> dict[str, str]:
    """Modules of Verilog text, as in `verilog.Emitted`, by name; the top module comes first."""
    return {match[1]: match[0] for match in _MODULE.finditer(verilog)}


def instances_of(verilog: str) -> dict[str, str]:
    """Module name of each instance, by its path, such as ``trainer.engine``; the top module is first, with path ""."""
    modules = modules_of(verilog)
    inside = {
        name: [(kind, instance) for kind, instance in _INSTANCE.findall(text) if kind in modules]
        for name, text in modules.items()
    }
    instances = {"": next(iter(modules))}
    pending = [""]
    for path in pending:
        for kind, instance in inside[instances[path]]:
            pending.append(below := f"{path}.{instance}" if path else instance)
            instances[below] = kind
    return instances


def registers_of(verilog: str) -> list[str]:
    """Registers of a design by path, such as ``trainer.engine.count``, except output registers of memories.

    Registers of the top module have no path prefix.
    """
    by_module = {}
    for name, text in modules_of(_SIMULATION.sub("", verilog)).items():
        memories = set(_MEMORY.findall(text))
        outputs = {register for register, memory in _READ.findall(text) if memory in memories}
        by_module[name] = [register for register in _REGISTER.findall(text) if register not in outputs]
    return [
        f"{path}.{register}" if path else register
        for path, kind in instances_of(verilog).items()
        for register in by_module[kind]
    ]
