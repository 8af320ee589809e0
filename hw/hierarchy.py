"""Hierarchy of an emitted text: its modules, and the instances of them by path."""

from __future__ import annotations

import re

_SIMULATION = re.compile(r"^`ifndef SYNTHESIS$.*?^`endif$", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\w+) (\w+) \($", re.MULTILINE)
_REGISTER = re.compile(r"^  reg (?:\[\d+:0\] )?(\w+) *;$", re.MULTILINE)
_MEMORY = re.compile(r"^  reg (?:\[\d+:0\] )?(\w+) +\[\d+:0\];$", re.MULTILINE)
_READ = re.compile(r"^ +(\w+) <= (\w+) *\[", re.MULTILINE)


def modules_of(verilog: str) -> dict[str, str]:
    """Split a text, as `verilog.Emitted` has it, into its modules by name; the top module is the first."""
    return {found[1]: found[0] for found in _MODULE.finditer(verilog)}


def instances_of(verilog: str) -> dict[str, str]:
    """List the instances of a text by path: the module of each.

    Parameters
    ----------
    verilog : str

    Returns
    -------
    dict of str to str
        The name of the module by path, with a dot between the levels: ``trainer.engine``. The top module has the empty
        one, and is the first.
    """
    modules = modules_of(verilog)
    inside = {
        name: [(kind, instance) for kind, instance in _INSTANCE.findall(text) if kind in modules]
        for name, text in modules.items()
    }
    found = {"": next(iter(modules))}
    pending = [""]
    for path in pending:
        for kind, instance in inside[found[path]]:
            pending.append(below := f"{path}.{instance}" if path else instance)
            found[below] = kind
    return found


def registers_of(verilog: str) -> list[str]:
    """List the registers of a text by path, ``trainer.engine.count``, without those into which memories are read.

    Those of the top module have their name alone.
    """
    found = {}
    for name, text in modules_of(_SIMULATION.sub("", verilog)).items():
        memories = set(_MEMORY.findall(text))
        outputs = {register for register, memory in _READ.findall(text) if memory in memories}
        found[name] = [register for register in _REGISTER.findall(text) if register not in outputs]
    return [
        f"{path}.{register}" if path else register
        for path, kind in instances_of(verilog).items()
        for register in found[kind]
    ]
