# amaranth: UnusedElaboratable=no
"""AXI pins at the edge of a core: names, directions, widths, constants; cost of the managers."""

import re

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.hw.axi import bus as axi
from fabtune.hw.axi.axi_read import AxiRead
from fabtune.hw.axi.axi_write import AxiWrite


class Managers(wiring.Component):
    """Both managers, as at the edge of a core."""

    read: Out(axi.Read())
    write: Out(axi.Write())
    control: In(axi.Lite())

    def elaborate(self, platform):
        return Module()


class Edge(wiring.Component):
    """Their pins."""

    def __init__(self):
        self.managers = Managers()
        self.pins = axi.pins(self.managers.read, "m_axi_gmem0") + axi.pins(self.managers.write, "m_axi_gmem0")
        self.pins += axi.pins(self.managers.control, "s_axi_control")
        super().__init__(axi.members(self.pins))

    def elaborate(self, platform):
        m = Module()
        m.submodules.managers = self.managers
        axi.wire_up(m, self.pins, {pin.name: getattr(self, pin.name) for pin in self.pins})
        return m


def test_pins_have_conventional_names():
    edge = Edge()
    pins = edge.pins
    full = "awid awaddr awlen awsize awburst awcache awprot awvalid awready wdata wstrb wlast wvalid wready bid bresp "
    full += "bvalid bready arid araddr arlen arsize arburst arcache arprot arvalid arready rid rdata rresp rlast rvalid"
    lite = "awaddr awvalid awready wdata wstrb wvalid wready bresp bvalid bready araddr arvalid arready rdata rresp"
    expected = {f"m_axi_gmem0_{name}" for name in f"{full} rready".split()}
    expected |= {f"s_axi_control_{name}" for name in f"{lite} rvalid rready".split()}
    assert {pin.name for pin in pins} == expected
    assert len(pins) == len(expected)
    by_name = {pin.name.rpartition("_")[2]: pin for pin in pins if pin.name.startswith("m_axi")}
    same = {"id": 0, "size": 4, "burst": 1, "cache": 3, "prot": 0}
    constants = {name: pin.value for name, pin in by_name.items() if isinstance(pin.value, int)}
    assert constants == {channel + name: value for channel in ("ar", "aw") for name, value in same.items()}
    assert {name for name, pin in by_name.items() if pin.value is None} == {"bid", "rid"}
    ins = {"awready", "wready", "bid", "bresp", "bvalid", "arready", "rid", "rdata", "rresp", "rlast", "rvalid"}
    assert {name for name, pin in by_name.items() if pin.direction == "in"} == ins
    assert {by_name[name].width for name in ("rdata", "wdata")} == {128}
    assert (by_name["wstrb"].width, by_name["araddr"].width, by_name["arlen"].width) == (16, 64, 8)
    subordinate = {pin.name: pin for pin in pins if pin.name.startswith("s_axi")}
    assert subordinate["s_axi_control_awaddr"].direction == "in"
    assert subordinate["s_axi_control_awaddr"].width == 8
    assert subordinate["s_axi_control_rdata"].direction == "out"
    text = rtlil.convert(edge, name="top", emit_src=False)
    for pin in pins:
        assert re.search(rf"wire width {pin.width} {pin.direction}put \d+  \\{pin.name}\n", text), pin
    assert "connect \\m_axi_gmem0_arsize 3'100\n" in text
    assert re.search(r"connect \\control__aw__payload \\s_axi_control_awaddr \[7:0\]", text)


@pytest.mark.parametrize("wrong", [{"burst": 48}, {"burst": 512}, {"depth": 64}, {"depth": 500}])
def test_wrong_sizes_are_refused(wrong):
    for kind in (AxiReadSpec, AxiWriteSpec):
        with pytest.raises(ValueError, match="power of two"):
            kind(**{"burst": 64, **wrong})


@pytest.mark.parametrize(("kind", "spec"), [(AxiRead, AxiReadSpec()), (AxiWrite, AxiWriteSpec())])
def test_paths_are_short(kind, spec):
    estimate = estimate_rtlil(rtlil.convert(kind(spec), name="top", emit_src=False), "top")
    assert estimate.logic_levels <= 4
    assert estimate.carry_cells <= 6
    assert estimate.resources["bram36"] == {AxiRead: 2.5, AxiWrite: 2}[kind]
