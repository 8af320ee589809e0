"""Initial values of registers in a proof: any, where a register has no reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Fragment, Signal

FREE = "fabtune_free"
"""Attribute of a signal's wire: the register behind it begins with any value."""
_FLIP_FLOPS = frozenset({"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"})


def mark_reset_less(design: Any) -> Fragment:
    """Mark the registers without reset of the components in a module, and give its elaborated form.

    Those of the module itself, which belong to the rules, keep their initial values.
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
    """Let each register without an initial value begin with that of a free input, ``initial_NUMBER``.

    A pass of Yosys, for one flat module with one clock.
    """
    from pyosys import libyosys as ys

    clock, output, initial = (ys.IdString(f"\\{name}") for name in ("CLK", "Q", "init"))
    module = design.top_module()
    cells = [cell for cell in module.cells_.values() if cell.type.str() in _FLIP_FLOPS]
    free = [cell for cell in cells if not _has_initial_value(cell.getPort(output), initial)]
    if not free:
        return
    # low in the first cycle alone
    begun = module.addWire(ys.IdString("\\initial_values_are_over"), 1)
    one = ys.SigSpec(ys.Const(1, 1))
    module.addDff(ys.IdString("$initial_values_are_over"), free[0].getPort(clock), one, ys.SigSpec(begun))
    for number, cell in enumerate(free):
        seen = cell.getPort(output)
        kept = ys.SigSpec(module.addWire(ys.IdString(f"$kept_{number}"), seen.size()))
        first = module.addWire(ys.IdString(f"\\initial_{number}"), seen.size())
        first.port_input = True
        cell.setPort(output, kept)
        module.addMux(ys.IdString(f"$initial_{number}"), ys.SigSpec(first), kept, ys.SigSpec(begun), seen)
    module.fixup_ports()


def _has_initial_value(signal: Any, initial: Any) -> bool:
    """Tell whether a register's output has an initial value, in any of its bits."""
    return any(bit.is_wire() and bit.wire.has_attribute(initial) for bit in signal.bits())
