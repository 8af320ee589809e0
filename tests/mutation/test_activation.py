"""Faults on constant bits are proved inactive, others are not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from fabtune.mutation.activation import never_active
from fabtune.mutation.faults import CellFault, CellNetlist, prepared


@pytest.fixture(scope="module")
def counter() -> CellNetlist:
    """A 4-bit counter from 0 to 9, and a comparison that is never true."""
    design, step, count, high = Module(), Signal(), Signal(4), Signal()
    design.d.comb += high.eq(count > 9)
    with design.If(step):
        design.d.sync += count.eq(count + 1)
        with design.If(count == 9):
            design.d.sync += count.eq(0)
    text = prepared(rtlil.convert(design, ports=[step, count, high], name="counter"), "counter")
    return CellNetlist(SimpleNamespace(top="counter"), text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "port", "mode", "bit", "control", "never"),
    [
        ("$gt", "Y", "const0", 0, -1, True),
        ("$gt", "Y", "const1", 0, -1, False),
        ("$sdff", "Q", "const0", 3, -1, False),
        ("$sdff", "Q", "cnot1", 2, 3, False),  # at 8 and 9
        ("$sdff", "Q", "inv", 0, -1, False),
    ],
)
def test_only_a_bit_without_another_value_is_proved(
    counter: CellNetlist, kind: str, port: str, mode: str, bit: int, control: int, never: bool
) -> None:
    cells = (line.split() for line in counter.text.splitlines() if line.startswith(f"  cell {kind}"))
    _, found, name = next(cells)
    fault = CellFault(mode, name.removeprefix("\\"), found, port, bit, control, "", "", ())
    assert never_active(counter, fault, 10) is never
