"""`tile_array` in a design that always takes the sums: one DSP per multiplier, and no enable remains."""

from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.golden.stream.array.tile_array import TileArraySpec
from fabtune.hw.stream.array.tile_array import TileArray


class AlwaysTaken(wiring.Component):
    """An array whose sums are always taken, or, for comparison, under the control of `o.ready`."""

    def __init__(self, spec, always):
        self.array, self.always = TileArray(spec), always
        super().__init__(self.array.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.array = array = self.array
        for outer, inner in ((self.w, array.w), (self.x, array.x)):
            m.d.comb += [inner.valid.eq(outer.valid), inner.payload.eq(outer.payload), outer.ready.eq(inner.ready)]
        m.d.comb += [self.o.valid.eq(array.o.valid), self.o.payload.eq(array.o.payload)]
        m.d.comb += array.o.ready.eq(1 if self.always else self.o.ready)
        return m


def test_the_enable_folds_away():
    spec = TileArraySpec(lanes=16, columns=1)
    estimates = [estimate_rtlil(rtlil.convert(AlwaysTaken(spec, one), name="top"), "top") for one in (True, False)]
    assert [one.resources["dsp"] for one in estimates] == [spec.lanes * spec.columns] * 2
    # rows wait in shift registers, which need an enable if the sums may wait
    assert [any("LUT memory" in net.pins for net in one.fan_outs) for one in estimates] == [False, True]
