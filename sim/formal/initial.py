"""Initial values of registers in a proof: arbitrary for registers without a reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Fragment, Signal

FREE = "fabtune_free"
"""Attribute of a wire whose register starts with an arbitrary value."""
_FLIP_FLOPS = frozenset({"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"})


def mark_reset_less(design: Any) -> Fragment:
    """Mark the reset-less registers of a module's components; returns the elaborated module.

    Registers of the module itself belong to the rules and keep their initial values.
    """
    fragment = Fragment.get(design, None)
    for inner, _, _ in fragment.subfragments:
        for signal in _reset_less(inner):
            signal.attrs[FREE] = 1
    return fragment


def _reset_less(fragment: Fragment) -> Iterator[Signal]:
    for domain, statements in fragment.statements.items():
        if domain != "comb":
            yield from (signal for signal in statements._lhs_signals() if signal.reset_less)
    for inner, _, _ in fragment.subfragments:
        yield from _reset_less(inner)


def free_initial_values(design: Any) -> None:
    """Yosys pass: start each register without initial value from a free input ``initial_NUMBER``.

    Expects a single flat module with one clock.
    """
    from pyosys import libyosys as ys

    clock, output, initial = (ys.IdString(f"\\{name}") for name in ("CLK", "Q", "init"))
    module = design.top_module()
    cells = [cell for cell in module.cells_.values() if cell.type.str() in _FLIP_FLOPS]
    free = [cell for cell in cells if not _has_initial_value(cell.getPort(output), initial)]
    if not free:
        return
    # low in the first cycle only
    begun = module.addWire(ys.IdString("\\initial_values_are_over"), 1)
    high = ys.SigSpec(ys.Const(1, 1))
    module.addDff(ys.IdString("$initial_values_are_over"), free[0].getPort(clock), high, ys.SigSpec(begun))
    for number, cell in enumerate(free):
        output_bits = cell.getPort(output)
        stored = ys.SigSpec(module.addWire(ys.IdString(f"$kept_{number}"), output_bits.size()))
        first = module.addWire(ys.IdString(f"\\initial_{number}"), output_bits.size())
        first.port_input = True
        cell.setPort(output, stored)
        module.addMux(ys.IdString(f"$initial_{number}"), ys.SigSpec(first), stored, ys.SigSpec(begun), output_bits)
    module.fixup_ports()


def _has_initial_value(signal: Any, initial: Any) -> bool:
    """True if any bit of a register's output has an initial value."""
    return any(bit.is_wire() and bit.wire.has_attribute(initial) for bit in signal.bits())
