"""Objections of the bench's monitors: words withdrawn or changed before acceptance, on streams and on AXI."""

import dataclasses
import re

import pytest

from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.sim import verify as verify_module
from fabtune.sim.verify import verify

URNG = UrngSpec(n=3, bits=4)
WITHDRAWN, CHANGED = "{} fell before its word was taken", "{} held, but its word changed"


@pytest.mark.parametrize(
    ("spec", "wire", "objection"),
    [
        (URNG, "o_valid", WITHDRAWN.format("o_valid")),
        (URNG, "o_number", CHANGED.format("o_valid")),
        (AxiReadSpec(), "m_axi_gmem_araddr", CHANGED.format("m_axi_gmem_arvalid")),
        (AxiReadSpec(), "m_axis_tvalid", WITHDRAWN.format("m_axis_tvalid")),
        (AxiWriteSpec(), "m_axi_gmem_wdata", CHANGED.format("m_axi_gmem_wvalid")),
    ],
)
def test_a_word_that_does_not_stay_is_an_objection(spec, wire, objection, fast_simulator, monkeypatch):
    real = verify_module.emit

    def flickering(spec):
        emitted = real(spec)
        change = "& ~" if wire.endswith("valid") else "^ "
        bits = "{flicker, 12'd0}" if wire.endswith("addr") else "flicker"  # still a legal address
        text, count = re.subn(rf"^(  assign )({wire})( = .*;)$|^(    \.\w+\()({wire})(\),?)$", r"\1\4steady\3\6",
                              emitted.verilog, flags=re.MULTILINE)  # fmt: skip
        assert count == 1
        width = next(pin.width for pin in emitted.pins if pin.name == wire)
        toggle = f"  reg flicker;\n  initial flicker = 0;\n  always @(posedge {emitted.clock}) flicker <= ~flicker;\n"
        toggle += f"  wire [{width - 1}:0] steady;\n"
        head, end, tail = text.partition(");\n")
        inner, last, others = tail.partition("\nendmodule\n")
        whole = head + end + toggle + inner + f"\n  assign {wire} = steady {change}{bits};" + last + others
        return dataclasses.replace(emitted, verilog=whole)

    monkeypatch.setattr(verify_module, "emit", flickering)
    failures = verify(spec, fast_simulator, words=100).failures
    assert any(failure.startswith("stalled") and objection in failure for failure in failures), failures
